// SPDX-License-Identifier: Apache-2.0

// A file without a name on the file system in question, twice open: through the page cache and with O_DIRECT. The
// outcome of a direct request is not believed but looked up: in the page cache, and in the kernel's counts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/unique_fd.h"
#include "tools/common/new_file.h"
#include "topology/direct_file.h"

namespace penstock::tools {

// Memory that begins on a page, of bytes that follow from where in the file they belong.
class Block {
 public:
  // room: bytes of memory, more than `size` where it is to be used off its beginning.
  explicit Block(std::size_t size, std::size_t room = 0);
  std::byte* data() const { return memory_.get(); }
  std::size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {memory_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::size_t size_;
  std::unique_ptr<std::byte[], Free> memory_;
};

struct Request {
  bool is_write = false;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::size_t memory_offset = 0;          // Bytes behind a page's begin.
  std::uint64_t request_bytes = 1 << 20;  // Each system call's.
};

// The outcome of a direct request.
struct DirectTry {
  int error = 0;            // errno of the system call that failed; 0: none did.
  std::uint64_t bytes = 0;  // The sum that the calls returned.
  double seconds = 0;
  // They went through the page cache; nothing where the kernel does not tell.
  std::optional<bool> is_cached = false;
  bool is_wrong = false;  // Other bytes than belong there.
};

class Scratch {
 public:
  // Fails where no file can be made in the folder. `seed`: other bytes than of other scratch files.
  Scratch(const std::string& folder, std::uint64_t seed);

  int direct_error() const { return direct_error_; }  // Why it cannot be opened with O_DIRECT; 0: it can.
  int fd() const { return file_.fd(); }
  core::DirectFile facts() const;

  // Through the page cache, written down, and taken out of it again: blocks as a file has them mostly.
  void fill(std::uint64_t offset, std::uint64_t size);
  // The same, and left there: the latter two not even written down.
  void fill_cache(std::uint64_t offset, std::uint64_t size);
  void forget();  // Written down, and out of the page cache.
  void resize(std::uint64_t size);

  // With O_DIRECT. Where it is a hole, zeros belong there.
  DirectTry move(const Request& request, bool is_hole = false);
  // Reads by the page cache, once all is written down: true if the range has the right bytes.
  bool is_right(std::uint64_t offset, std::uint64_t size);

 private:
  DirectTry call_all(const Request& request, std::byte* memory) const;
  bool is_in_memory() const;  // All of its file system is.

  NewFile file_;
  core::UniqueFd direct_;
  int direct_error_ = 0;
  std::uint64_t seed_;
};

}  // namespace penstock::tools
