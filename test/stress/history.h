// SPDX-License-Identifier: Apache-2.0

// The legal contents of a file while it is read. Every eight bytes of a file encode the file, the change that wrote
// them and their position; a History records every change's beginning and end. From both follow the legal values of
// each byte of a read: the value left by the last change before the read, or by any concurrent change. Anything else is
// a fault: bytes of another file, of another place, of a change that was replaced before the read began, zeros where
// nothing was cut off, a short count where nothing was shortened.
//
// One thread changes a file, any number read it. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace penstock::stress {

constexpr std::uint64_t kEverything = std::uint64_t{1} << 40;  // Behind the end of every file here.

// The eight bytes at `position`, a multiple of eight. Never zero.
std::uint64_t stamp(std::uint8_t file, std::uint32_t change, std::uint64_t position);
// Fills memory as the change leaves it in the file from `position` on, whatever its alignment.
void stamp_range(std::span<std::byte> memory, std::uint8_t file, std::uint32_t change, std::uint64_t position);

class History {
 public:
  // `file` is not zero. The file is empty.
  explicit History(std::uint8_t file) : file_(file) {}

  std::uint8_t file() const { return file_; }

  // Begins a change and returns its number; the file's size is `size` after it. One at a time.
  std::uint32_t begin_write(std::uint64_t first, std::uint64_t end);
  std::uint32_t begin_hole(std::uint64_t first, std::uint64_t end);
  std::uint32_t begin_resize(std::uint64_t size);
  // Ends it. What failed may have happened in part, or not at all.
  void end(bool succeeded = true);
  // As the last change left it, or was to.
  std::uint64_t size() const;
  // Changes that are remembered, for whoever decides when to start over: a resize to zero lets older ones be forgotten.
  std::size_t length() const;

  // A read, from before its call until after its return.
  std::uint32_t begin_read();
  // Says what is wrong with what a read of `wanted` bytes at `position` returned; nothing where it is legal.
  // `whole` is false where the read ended with an error: then any shorter count will do.
  std::optional<std::string> end_read(std::uint32_t ended, std::uint64_t position, std::uint64_t wanted,
                                      std::span<const std::byte> got, bool whole = true);
  // Whether the file's size was changed since begin_read() returned `ended`.
  bool was_resized(std::uint32_t ended) const;

 private:
  enum class Kind : std::uint8_t { write, zero };
  struct Change {
    std::uint32_t number;
    Kind kind;
    bool certain;  // It is not known to have failed.
    std::uint64_t first;
    std::uint64_t end;
    std::uint64_t size;  // Of the file, after it.
  };
  // A range in which every byte has the same legal changes; the newest first, zero stands for zeros.
  struct Piece {
    std::uint64_t first;
    std::uint64_t end;
    std::vector<std::uint32_t> legal;
    bool settled = false;
  };
  struct Sizes {
    std::uint64_t least;
    std::uint64_t most;
  };

  std::uint32_t begin(Change change);
  void forget_old();
  std::vector<Piece> pieces(std::uint32_t ended, std::uint64_t first, std::uint64_t end) const;
  Sizes sizes(std::uint32_t ended) const;
  std::optional<std::string> check(const Piece& piece, std::uint64_t position, std::span<const std::byte> got) const;
  std::optional<std::string> check_word(const Piece& piece, std::uint64_t word, std::uint64_t position,
                                        std::span<const std::byte> got) const;
  bool is_legal(const Piece& piece, std::uint64_t at, std::byte value) const;
  std::string fault_at(const Piece& piece, std::uint64_t at, std::uint64_t position,
                       std::span<const std::byte> got) const;

  const std::uint8_t file_;
  mutable std::mutex mutex_;
  std::vector<Change> changes_;  // From the oldest that matters to the newest.
  std::uint32_t begun_ = 0;
  std::uint32_t ended_ = 0;
  std::multiset<std::uint32_t> reading_;  // What the reads under way began with.
};

}  // namespace penstock::stress
