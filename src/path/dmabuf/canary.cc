// SPDX-License-Identifier: Apache-2.0

#include "path/dmabuf/canary.h"

#include <array>
#include <cerrno>
#include <random>
#include <string>

#include "base/align.h"
#include "base/invariant.h"
#include "base/log.h"
#include "path/dmabuf/dmabuf_reasons.h"
#include "path/pipeline/random_bytes.h"

namespace penstock::core {
namespace {

constexpr std::size_t kPage = 4096;
constexpr unsigned kRounds = 2;     // A success that is left over from the first shows in the second.
constexpr unsigned kTriesMax = 4;   // Reads of a block that others write to.
constexpr unsigned kShortMax = 32;  // Reads of a block by the host that were short.

struct alignas(kPage) Page {
  std::array<std::byte, kPage> bytes;
};

Proof lost(const char* story) {
  log(LogLevel::error, std::string("path dmabuf: a drive reported success, and ") + story);
  return {dmabuf_reason::untrusted};
}

Proof refused(const Status& status) {
  if (status.is(Code::no_progress)) return {dmabuf_reason::stuck};
  return {dmabuf_reason::refused, status.domain == Domain::os ? status.code : EFAULT};
}

class Canary {
 public:
  explicit Canary(const CanaryWorld& world) : world_(world), words_(fresh_seed()) {}

  Proof read_to(std::uint64_t place) {
    const std::uint64_t last = (world_.drive_bytes - kPage) / kPage;
    for (unsigned i = 0; i < kTriesMax; ++i) {
      const std::uint64_t block = kPage * (words_() % (last + 1));
      if (Proof proof = look(block); proof.reason != Reason::none) return proof;
      if (Proof proof = poison(place); proof.reason != Reason::none) return proof;
      if (Proof proof = move(Op::read, place, block); proof.reason != Reason::none) return proof;
      if (Proof proof = fetch(place); proof.reason != Reason::none) return proof;
      block_before_ = block_;
      if (Proof proof = look(block); proof.reason != Reason::none) return proof;
      if (is_same(block_, block_before_)) return judge_read();
    }
    return {dmabuf_reason::refused, EBUSY};
  }

  // A page up to the place that is given.
  std::uint64_t any_place(std::uint64_t last) { return kPage * (words_() % (last / kPage + 1)); }

  Proof write_from(std::uint64_t place, std::uint64_t block) {
    fill(poison_);
    fill(guard_);
    if (Proof proof = upload(place); proof.reason != Reason::none) return proof;
    if (Proof proof = move(Op::write, place, block); proof.reason != Reason::none) return proof;
    if (Proof proof = look(block); proof.reason != Reason::none) return proof;
    return is_same(block_, poison_) ? Proof{} : lost("other bytes than the device's memory has were written");
  }

 private:
  static bool is_same(const Page& one, const Page& other) { return one.bytes == other.bytes; }

  void fill(Page& page) { fill_with_random(page.bytes.data(), kPage, words_); }

  // The host's read may be short, as any transfer.
  Proof look(std::uint64_t block) {
    for (unsigned i = 0; i < kShortMax; ++i) {
      const Result<std::size_t> got = world_.io.read(world_.drive, block_.bytes.data(), kPage, block);
      if (!got.ok()) return refused(got.status());
      if (*got == kPage) return {};
    }
    return {dmabuf_reason::refused, EIO};
  }

  // Every byte of the poison differs from the block's.
  Proof poison(std::uint64_t place) {
    fill(poison_);
    for (std::size_t i = 0; i < kPage; ++i) {
      if (poison_.bytes[i] == block_.bytes[i]) poison_.bytes[i] ^= std::byte{0xff};
    }
    fill(guard_);
    return upload(place);
  }

  Proof upload(std::uint64_t place) {
    CopyQueue& copies = world_.copies;
    std::byte* const to = world_.memory + place;
    Status status = copies.copy_to_device(to, poison_.bytes.data(), kPage);
    if (status.ok()) status = copies.copy_to_device(to + kPage, guard_.bytes.data(), kPage);
    return settled(wait_for_copies(copies, status));
  }

  Proof fetch(std::uint64_t place) {
    CopyQueue& copies = world_.copies;
    const std::byte* const from = world_.memory + place;
    Status status = world_.device.settle_peer_writes();
    if (status.ok()) status = copies.copy_to_host(seen_.bytes.data(), from, kPage);
    if (status.ok()) status = copies.copy_to_host(guard_seen_.bytes.data(), from + kPage, kPage);
    return settled(wait_for_copies(copies, status));
  }

  static Proof settled(const Status& status) { return status.ok() ? Proof{} : refused(status); }

  Proof move(Op op, std::uint64_t place, std::uint64_t block) {
    const Result<std::size_t> moved = world_.move(op, place, kPage, block);
    if (!moved.ok()) return refused(moved.status());
    return *moved == kPage ? Proof{} : Proof{dmabuf_reason::refused, EIO};
  }

  Proof judge_read() const {
    if (!is_same(guard_, guard_seen_)) return lost("bytes landed beside their place");
    if (is_same(seen_, block_)) return {};
    return lost(is_same(seen_, poison_) ? "not one byte arrived" : "other bytes than the drive's arrived");
  }

  const CanaryWorld& world_;
  std::mt19937_64 words_;
  Page block_, block_before_, poison_, guard_, seen_, guard_seen_;
};

}  // namespace

Proof canary_of_reads(const CanaryWorld& world) {
  PENSTOCK_INVARIANT(world.memory_bytes >= kCanaryBytesMin);
  if (world.drive_bytes < kPage) return {dmabuf_reason::drive};
  Canary canary(world);
  const std::uint64_t middle = align_down(world.memory_bytes / 2, kPage), end = world.memory_bytes - 2 * kPage;
  for (unsigned round = 0; round < kRounds; ++round) {
    for (const std::uint64_t place : {std::uint64_t{0}, middle, end, canary.any_place(end)}) {
      if (const Proof proof = canary.read_to(place); proof.reason != Reason::none) return proof;
    }
  }
  return {};
}

Proof canary_of_writes(const CanaryWorld& world) {
  if (world.drive_bytes < 2 * kPage) return {dmabuf_reason::drive};
  Canary canary(world);
  for (unsigned round = 0; round < kRounds; ++round) {
    for (const std::uint64_t place : {std::uint64_t{0}, world.memory_bytes - 2 * kPage}) {
      if (const Proof proof = canary.write_from(place, round * kPage); proof.reason != Reason::none) return proof;
    }
  }
  return {};
}

}  // namespace penstock::core
