// SPDX-License-Identifier: Apache-2.0

#include "path/dmabuf/canary.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>
#include <string>

#include "base/invariant.h"
#include "base/log.h"
#include "path/dmabuf/dmabuf_reasons.h"
#include "path/pipeline/random_bytes.h"

namespace penstock::core {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kSector = 512;
constexpr unsigned kRounds = 2;     // A success that is left over from the first shows in the second.
constexpr unsigned kTriesMax = 4;   // Reads of a block that others write to.
constexpr unsigned kShortMax = 32;  // Reads of a block by the host that were short.

constexpr std::uint64_t kPieceMax = 2 * kPage;

struct alignas(kPage) Piece {
  std::array<std::byte, kPieceMax> bytes;
};

// A part of the device's memory for one transfer. The page behind it is the guard.
struct Place {
  std::uint64_t offset = 0;
  std::size_t size = kPage;
  bool has_guard = true;
};

Proof lost(const char* story) {
  log(LogLevel::error, std::string("path dmabuf: a drive reported success, and ") + story);
  return {dmabuf_reason::untrusted};
}

Proof refused(const Status& status) {
  if (status.is(Code::no_progress)) return {dmabuf_reason::stuck};
  return {dmabuf_reason::refused, errno_or(status, EFAULT)};
}

class Canary {
 public:
  explicit Canary(const CanaryWorld& world) : world_(world), words_(fresh_seed()) {}

  Proof read_to(const Place& place) {
    const std::uint64_t last = (world_.drive_bytes - place.size) / kPage;
    size_ = place.size;
    guard_bytes_ = place.has_guard ? kPage : 0;
    for (unsigned i = 0; i < kTriesMax; ++i) {
      const std::uint64_t block = kPage * (words_() % (last + 1));
      if (Proof proof = look(block); proof.reason != Reason::none) return proof;
      if (Proof proof = poison(place.offset); proof.reason != Reason::none) return proof;
      if (Proof proof = move(Op::read, place.offset, block); proof.reason != Reason::none) return proof;
      if (Proof proof = fetch(place.offset); proof.reason != Reason::none) return proof;
      block_before_ = block_;
      if (Proof proof = look(block); proof.reason != Reason::none) return proof;
      if (is_same(block_, block_before_)) return judge_read();
    }
    return {dmabuf_reason::refused, EBUSY};
  }

  Proof write_from(const Place& place, std::uint64_t block) {
    size_ = place.size;
    fill(poison_);
    fill(guard_);
    if (Proof proof = upload(place.offset); proof.reason != Reason::none) return proof;
    if (Proof proof = move(Op::write, place.offset, block); proof.reason != Reason::none) return proof;
    if (Proof proof = look(block); proof.reason != Reason::none) return proof;
    return is_same(block_, poison_) ? Proof{} : lost("other bytes than the device's memory has were written");
  }

  static Place first() { return {}; }
  Place last() const { return {world_.memory_bytes - 2 * kPage}; }
  Place across_the_seam() { return across(world_.seam); }
  std::array<Place, 4> read_places() {
    if (world_.memory_bytes >= kCanaryBytesMin) return {first(), across_the_seam(), last(), across_any_page()};
    const std::size_t size = std::min(world_.memory_bytes, kPieceMax);
    const Place begin{0, size, false}, end{world_.memory_bytes - size, size, false};
    return {begin, end, begin, end};
  }
  Place across_any_page() { return across(kPage * (1 + words_() % (world_.memory_bytes / kPage - 3))); }

 private:
  // Two pages that begin in the page before the boundary, where a sector may.
  Place across(std::uint64_t boundary) {
    const std::uint64_t before = std::min<std::uint64_t>(boundary, kSector * (1 + words_() % (kPage / kSector - 1)));
    const std::uint64_t offset = std::min(boundary - before, world_.memory_bytes - kPieceMax);
    return {offset, kPieceMax, offset + kPieceMax + kPage <= world_.memory_bytes};
  }

  bool is_same(const Piece& one, const Piece& other) const { return is_same(one, other, size_); }
  static bool is_same(const Piece& one, const Piece& other, std::size_t size) {
    return std::equal(one.bytes.begin(), one.bytes.begin() + size, other.bytes.begin());
  }

  void fill(Piece& piece) { fill_with_random(piece.bytes.data(), kPieceMax, words_); }

  // The host's read may be short, as any transfer.
  Proof look(std::uint64_t block) {
    for (unsigned i = 0; i < kShortMax; ++i) {
      const Result<std::size_t> got = world_.io.read(world_.drive, block_.bytes.data(), size_, block);
      if (!got.ok()) return refused(got.status());
      if (*got == size_) return {};
    }
    return {dmabuf_reason::refused, EIO};
  }

  // Every byte of the poison differs from the block's.
  Proof poison(std::uint64_t place) {
    fill(poison_);
    for (std::size_t i = 0; i < size_; ++i) {
      if (poison_.bytes[i] == block_.bytes[i]) poison_.bytes[i] ^= std::byte{0xff};
    }
    fill(guard_);
    return upload(place);
  }

  Proof upload(std::uint64_t place) {
    CopyQueue& copies = world_.copies;
    std::byte* const to = world_.memory + place;
    Status status = copies.copy_to_device(to, poison_.bytes.data(), size_);
    if (status.ok()) status = copies.copy_to_device(to + size_, guard_.bytes.data(), guard_bytes_);
    return settled(wait_for_copies(copies, status));
  }

  Proof fetch(std::uint64_t place) {
    CopyQueue& copies = world_.copies;
    const std::byte* const from = world_.memory + place;
    Status status = world_.device.settle_peer_writes();
    if (status.ok()) status = copies.copy_to_host(seen_.bytes.data(), from, size_);
    if (status.ok()) status = copies.copy_to_host(guard_seen_.bytes.data(), from + size_, guard_bytes_);
    return settled(wait_for_copies(copies, status));
  }

  static Proof settled(const Status& status) { return status.ok() ? Proof{} : refused(status); }

  Proof move(Op op, std::uint64_t place, std::uint64_t block) {
    const Result<std::size_t> moved = world_.move(op, place, size_, block);
    if (!moved.ok()) return refused(moved.status());
    return *moved == size_ ? Proof{} : Proof{dmabuf_reason::refused, EIO};
  }

  Proof judge_read() const {
    if (!is_same(guard_, guard_seen_, guard_bytes_)) return lost("bytes landed beside their place");
    if (is_same(seen_, block_)) return {};
    return lost(is_same(seen_, poison_) ? "not one byte arrived" : "other bytes than the drive's arrived");
  }

  const CanaryWorld& world_;
  std::mt19937_64 words_;
  std::size_t size_ = 0;  // The bytes of the transfer under way.
  std::size_t guard_bytes_ = kPage;
  Piece block_, block_before_, poison_, guard_, seen_, guard_seen_;
};

}  // namespace

Proof canary_of_reads(const CanaryWorld& world) {
  PENSTOCK_INVARIANT(world.memory_bytes >= kCanaryPageBytes);
  if (world.drive_bytes < kPieceMax) return {dmabuf_reason::drive};
  Canary canary(world);
  for (unsigned round = 0; round < kRounds; ++round) {
    for (const Place& place : canary.read_places()) {
      if (const Proof proof = canary.read_to(place); proof.reason != Reason::none) return proof;
    }
  }
  return {};
}

Proof canary_of_writes(const CanaryWorld& world) {
  if (world.drive_bytes < kRounds * kPieceMax) return {dmabuf_reason::drive};
  Canary canary(world);
  for (unsigned round = 0; round < kRounds; ++round) {
    for (const Place& place : {Canary::first(), canary.across_the_seam(), canary.last()}) {
      if (const Proof proof = canary.write_from(place, round * kPieceMax); proof.reason != Reason::none) return proof;
    }
  }
  return {};
}

}  // namespace penstock::core
