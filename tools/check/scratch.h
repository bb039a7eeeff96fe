// SPDX-License-Identifier: Apache-2.0

// A file without a name on the file system in question, opened twice: through the page cache and with O_DIRECT. How a
// direct request really went is looked up in the page cache and in the kernel's counts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/unique_fd.h"
#include "facts/stored_file.h"
#include "tools/common/new_file.h"

namespace penstock::tools {

// Memory that begins at a page, filled with bytes that follow from their offset in the file.
class Block {
 public:
  // `room` is the size of the memory; more than `size` if it is used from another offset than its start.
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
  std::size_t memory_offset = 0;          // Bytes behind the start of a page.
  std::uint64_t request_bytes = 1 << 20;  // The size of each system call.
};

// The outcome of a direct request.
struct DirectTry {
  int error = 0;            // The errno of the system call that failed, or 0.
  std::uint64_t bytes = 0;  // The sum that the calls returned.
  double seconds = 0;
  // The bytes went through the page cache; nothing if the kernel does not report it.
  std::optional<bool> is_cached = false;
  bool is_wrong = false;  // The bytes differ from the content of the file.
};

class Scratch {
 public:
  // Fails if no file can be made in the folder. `seed` gives its bytes, so that scratch files differ.
  Scratch(const std::string& folder, std::uint64_t seed);

  int direct_error() const { return direct_error_; }  // The reason why it cannot be opened with O_DIRECT; 0: it can.
  int fd() const { return file_.fd(); }
  core::DirectFile facts() const;

  // Writes content through the page cache, flushes it, and drops it from the page cache: most files are stored like
  // this.
  void fill(std::uint64_t offset, std::uint64_t size);
  // fill_cache() leaves the content in the page cache and does not flush it. forget() flushes it and drops it.
  void fill_cache(std::uint64_t offset, std::uint64_t size);
  void forget();
  void resize(std::uint64_t size);

  // Moves bytes with O_DIRECT. A hole must read as zeros.
  DirectTry move(const Request& request, bool is_hole = false);
  // Flushes, and reads through the page cache: true if the range holds the right bytes.
  bool is_right(std::uint64_t offset, std::uint64_t size);

 private:
  DirectTry call_all(const Request& request, std::byte* memory) const;
  bool is_in_memory() const;  // The whole file system is in memory.

  NewFile file_;
  core::UniqueFd direct_;
  int direct_error_ = 0;
  std::uint64_t seed_;
};

}  // namespace penstock::tools
