// SPDX-License-Identifier: Apache-2.0

#include "kv/journal.h"

#include <algorithm>
#include <utility>

namespace penstock::kv {

std::vector<std::byte> encode(std::span<const Record> records) {
  std::vector<std::byte> bytes;
  bytes.reserve(records.size() * kRecordBytes);
  for (const Record& record : records) {
    const RecordBytes one = encode_record(record);
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  return bytes;
}

void Replay::add(std::span<const std::byte> bytes) {
  for (; bytes.size() >= kRecordBytes && !is_foreign_; bytes = bytes.subspan(kRecordBytes)) {
    const std::optional<Record> record = decode_record(bytes.first<kRecordBytes>());
    if (!record) return;
    const bool is_first = offset_ == 0;
    if (is_first != (record->kind == RecordKind::store) || (is_first && record->chunk.key != store_)) {
      is_foreign_ = true;
      chunks_.clear();
      return;
    }
    add(*record);
    offset_ += kRecordBytes;
  }
}

void Replay::add(const Record& record) {
  const Chunk& chunk = record.chunk;
  generation_ = std::max(generation_, chunk.generation);
  is_closed_ = record.kind == RecordKind::closed;
  if (record.kind == RecordKind::put) {
    chunks_[chunk.key] = chunk;
    orders_[chunk.key] = offset_;
  } else if (record.kind == RecordKind::erase) {
    const auto found = chunks_.find(chunk.key);
    if (found != chunks_.end() && found->second.generation == chunk.generation) chunks_.erase(found);
  }
}

const Chunk* Replay::find(const Name& key) const {
  const auto found = chunks_.find(key);
  return found == chunks_.end() ? nullptr : &found->second;
}

std::vector<Chunk> Replay::chunks() const {
  std::vector<std::pair<std::uint64_t, Chunk>> all;
  for (const auto& [key, chunk] : chunks_) all.emplace_back(orders_.at(key), chunk);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Chunk> chunks;
  for (const auto& [order, chunk] : all) chunks.push_back(chunk);
  return chunks;
}

}  // namespace penstock::kv
