// SPDX-License-Identifier: Apache-2.0

// The on-disk format of a store: a slab of slots, each with a header before its payload, and a journal of records that
// lists which slots have which chunks. The journal is only a hint: a reader of a slot trusts only its header and its
// payload's checksum. All numbers are little-endian.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>

namespace penstock::kv {

static_assert(std::endian::native == std::endian::little, "a store of this machine would not be read by others");

constexpr std::uint32_t kFormatVersion = 1;
constexpr std::size_t kHeaderBytes = 4096;  // The payload after it is aligned for direct I/O.
constexpr std::size_t kSlotAlign = 4096;
constexpr std::size_t kRecordBytes = 64;

// 16 bytes that no user can steer: a keyed hash of a chunk's name (penstock.kv makes them by BLAKE2b).
using Name = std::array<std::byte, 16>;

struct NameHash {
  std::size_t operator()(const Name& name) const {
    std::uint64_t words[2];
    std::memcpy(words, name.data(), sizeof words);
    return words[0] ^ std::rotl(words[1], 32);
  }
};

// A chunk's place, and the facts that identify it.
struct Chunk {
  Name key{};
  std::uint64_t slot_offset = 0;  // Offset of its header in the slab.
  std::uint64_t slot_bytes = 0;   // Header, payload and the padding of the slot's class.
  std::uint64_t bytes = 0;        // The size of the payload.
  std::uint64_t generation = 0;   // Higher than all generations in the journal before.
  std::uint32_t crc = 0;          // CRC32C of the payload.
  float cost = 0;                 // Seconds to compute it again; 0: unknown.
};

// Writes the header of the chunk's slot into `page`, which has kHeaderBytes. `store` is the store's name.
void encode_header(const Chunk& chunk, const Name& store, std::span<std::byte> page);
// True if that page is the header of exactly this chunk.
bool is_header_of(const Chunk& chunk, const Name& store, std::span<const std::byte> page);
// If the page is a header of a chunk in this slot of this store, returns its generation, else nullopt.
std::optional<std::uint64_t> generation_of(std::uint64_t slot_offset, const Name& store,
                                           std::span<const std::byte> page);

enum class RecordKind : std::uint8_t {
  // The first record: `key` names the store; `slot_offset` has the time, so that every journal's first record is
  // different.
  store = 1,
  put = 2,    // The chunk is durable in its slot.
  erase = 3,  // The chunk of this key and generation has left the store.
  closed = 4  // The writer closed the store: the journal matches the slab.
};

struct Record {
  RecordKind kind = RecordKind::put;
  Chunk chunk;
};

using RecordBytes = std::array<std::byte, kRecordBytes>;
RecordBytes encode_record(const Record& record);
// Nothing if the bytes are not a whole record: torn, or of another format.
std::optional<Record> decode_record(std::span<const std::byte, kRecordBytes> bytes);

}  // namespace penstock::kv
