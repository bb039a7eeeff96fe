// SPDX-License-Identifier: Apache-2.0

// Replays a journal's records into a list of chunks. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv/format.h"

namespace penstock::kv {

std::vector<std::byte> encode(std::span<const Record> records);

// The size of a journal above which it is rewritten.
inline std::uint64_t journal_bytes_most(std::size_t chunks) { return (2 * chunks + 16'384) * kRecordBytes; }

// Collects the chunks of a journal up to its first torn record; none if the journal is another store's.
class Replay {
 public:
  explicit Replay(const Name& store) : store_(store) {}

  // Adds the next bytes of the journal. A torn record at the end is not consumed: add it again with the bytes that
  // follow.
  void add(std::span<const std::byte> bytes);

  std::uint64_t offset() const { return offset_; }  // Number of bytes consumed.
  std::uint64_t generation() const { return generation_; }
  bool is_closed() const { return is_closed_; }
  bool is_foreign() const { return is_foreign_; }
  const Chunk* find(const Name& key) const;
  void forget(const Name& key) { chunks_.erase(key); }
  std::size_t count() const { return chunks_.size(); }
  std::vector<Chunk> chunks() const;  // In the order of the journal.

 private:
  void add(const Record& record);

  Name store_;
  std::uint64_t offset_ = 0;
  std::uint64_t generation_ = 0;  // The highest.
  bool is_closed_ = false;
  bool is_foreign_ = false;
  std::unordered_map<Name, Chunk, NameHash> chunks_;
  std::unordered_map<Name, std::uint64_t, NameHash> orders_;
};

}  // namespace penstock::kv
