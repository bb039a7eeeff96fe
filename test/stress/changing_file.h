// SPDX-License-Identifier: Apache-2.0

// A file that is changed in every way there is while it is read: rewritten through the page cache, around it and
// through the library, cut, lengthened, punched, renamed, unlinked. It knows its History, and is registered with a
// session twice, for buffered and for direct I/O. One thread changes it, any number read it.
#pragma once

#include <fcntl.h>

#include <memory>
#include <random>
#include <string>

#include "base/unique_fd.h"
#include "penstock/penstock.hpp"
#include "stress/history.h"

namespace penstock::stress {

using core::UniqueFd;

using Random = std::mt19937_64;

// A number from `least` to `most`.
inline std::uint64_t draw(Random& random, std::uint64_t least, std::uint64_t most) {
  return std::uniform_int_distribution<std::uint64_t>(least, most)(random);
}

constexpr std::uint64_t kFileMax = std::uint64_t{6} << 20;

// Memory that the session's paths move to and from: of the stand-in device, or of the host.
class Memory {
 public:
  Memory(penstock_session* session, bool on_device, std::size_t size);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* base() const { return base_; }
  void put(std::uint64_t offset, std::span<const std::byte> bytes);
  void get(std::uint64_t offset, std::span<std::byte> bytes);

 private:
  penstock_session* const session_;
  const bool on_device_;
  std::byte* base_ = nullptr;
};

class ChangingFile {
 public:
  // Makes a file at `path`, which must not exist. Null where that fails.
  static std::shared_ptr<ChangingFile> create(penstock_session* session, const std::string& path, std::uint8_t number);
  ~ChangingFile();

  History& history() { return history_; }
  penstock_file* handle(bool direct) const { return handles_[direct ? 1 : 0]; }
  int descriptor(bool direct) const { return fds_[direct ? 1 : 0].get(); }
  // Opens the file anew: by its name, if it still has it, or through /proc.
  UniqueFd open_again(const std::string& name, bool direct) const;

  // One change, of any kind that leaves its name alone. `memory` has room for kFileMax.
  void change(Random& random, Memory& memory);
  // Empties the file and fills it again.
  void start_over(Random& random);

 private:
  enum class Hand : std::uint8_t { buffered, direct, library };

  explicit ChangingFile(std::uint8_t number) : history_(number) {}
  void rewrite(Random& random, Hand hand, Memory& memory);
  bool write_all(int fd, std::uint64_t first, std::span<const std::byte> bytes) const;
  bool write_by_library(Random& random, std::uint64_t first, std::span<const std::byte> bytes, Memory& memory) const;
  void punch(Random& random);
  void resize(std::uint64_t size);

  UniqueFd fds_[2];
  penstock_file* handles_[2] = {};
  History history_;
};

}  // namespace penstock::stress
