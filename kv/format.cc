// SPDX-License-Identifier: Apache-2.0

#include "kv/format.h"

#include "base/invariant.h"
#include "checksum/crc32c.h"

namespace penstock::kv {
namespace {

constexpr char kMagic[8] = {'P', 'E', 'N', 'S', 'T', 'K', 'V', '1'};

// The form on the drive, at the start of a header's page; the rest of the page is zero.
struct RawHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t payload_crc;
  Name store;
  Name key;
  std::uint64_t generation;
  std::uint64_t bytes;
  std::uint64_t slot_offset;  // Makes a header invalid at any other slot.
  std::uint32_t reserved;
  std::uint32_t crc;  // CRC32C of the fields before it.
};
static_assert(sizeof(RawHeader) == 80);

struct RawRecord {
  std::uint32_t crc;  // CRC32C of the fields after it.
  std::uint16_t version;
  std::uint8_t kind;
  std::uint8_t reserved;
  Name key;
  std::uint64_t slot_offset;
  std::uint64_t slot_bytes;
  std::uint64_t bytes;
  std::uint64_t generation;
  std::uint32_t payload_crc;
  float cost;
};
static_assert(sizeof(RawRecord) == kRecordBytes);

std::uint32_t crc_of(const RawHeader& raw) {
  return core::crc32c(std::as_bytes(std::span(&raw, 1)).first(offsetof(RawHeader, crc)));
}

RawHeader raw_header(const Chunk& chunk, const Name& store) {
  RawHeader raw{};
  std::memcpy(raw.magic, kMagic, sizeof kMagic);
  raw.version = kFormatVersion;
  raw.payload_crc = chunk.crc;
  raw.store = store;
  raw.key = chunk.key;
  raw.generation = chunk.generation;
  raw.bytes = chunk.bytes;
  raw.slot_offset = chunk.slot_offset;
  raw.crc = crc_of(raw);
  return raw;
}

std::uint32_t crc_of(const RawRecord& raw) {
  return core::crc32c(std::as_bytes(std::span(&raw, 1)).subspan(sizeof raw.crc));
}

}  // namespace

void encode_header(const Chunk& chunk, const Name& store, std::span<std::byte> page) {
  PENSTOCK_INVARIANT(page.size() == kHeaderBytes);
  std::memset(page.data(), 0, page.size());
  const RawHeader raw = raw_header(chunk, store);
  std::memcpy(page.data(), &raw, sizeof raw);
}

bool is_header_of(const Chunk& chunk, const Name& store, std::span<const std::byte> page) {
  const RawHeader raw = raw_header(chunk, store);
  return page.size() >= sizeof raw && std::memcmp(page.data(), &raw, sizeof raw) == 0;
}

std::optional<std::uint64_t> generation_of(std::uint64_t slot_offset, const Name& store,
                                           std::span<const std::byte> page) {
  RawHeader raw;
  if (page.size() < sizeof raw) return std::nullopt;
  std::memcpy(&raw, page.data(), sizeof raw);
  const bool is_header = std::memcmp(raw.magic, kMagic, sizeof kMagic) == 0 && raw.crc == crc_of(raw);
  if (!is_header || raw.version != kFormatVersion || raw.store != store || raw.slot_offset != slot_offset)
    return std::nullopt;
  return raw.generation;
}

RecordBytes encode_record(const Record& record) {
  const Chunk& chunk = record.chunk;
  RawRecord raw{0,
                kFormatVersion,
                static_cast<std::uint8_t>(record.kind),
                0,
                chunk.key,
                chunk.slot_offset,
                chunk.slot_bytes,
                chunk.bytes,
                chunk.generation,
                chunk.crc,
                chunk.cost};
  raw.crc = crc_of(raw);
  RecordBytes bytes;
  std::memcpy(bytes.data(), &raw, sizeof raw);
  return bytes;
}

std::optional<Record> decode_record(std::span<const std::byte, kRecordBytes> bytes) {
  RawRecord raw;
  std::memcpy(&raw, bytes.data(), sizeof raw);
  if (raw.crc != crc_of(raw) || raw.version != kFormatVersion) return std::nullopt;
  if (raw.kind < 1 || raw.kind > static_cast<std::uint8_t>(RecordKind::closed)) return std::nullopt;
  return Record{static_cast<RecordKind>(raw.kind),
                {raw.key, raw.slot_offset, raw.slot_bytes, raw.bytes, raw.generation, raw.payload_crc, raw.cost}};
}

}  // namespace penstock::kv
