// SPDX-License-Identifier: Apache-2.0

// For tests: a volume in memory that injects failures, torn writes, loss of unflushed bytes, and wrong bytes, from a
// seed.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "checksum/crc32c.h"
#include "kv/format.h"
#include "kv/test_chunks.h"
#include "kv/volume.h"

namespace penstock::kv {

// Probabilities of faults, 0 to 1.
struct Faults {
  double read = 0, write = 0, sync = 0, journal = 0;  // The call fails; a failed write has written a part.
  double folder = 0;  // The flush of the folder fails in which a new journal has replaced the old one.
  double rot = 0;     // One bit of the read bytes is flipped.
};

class FakeVolume final : public Volume {
 public:
  FakeVolume(std::uint64_t slab_bytes, std::uint64_t seed) : slab_(slab_bytes), random_(seed) {}

  Faults faults;
  bool is_copied = false;  // It is as the volume of a tier in host memory: copies meet no faults.
  struct Done {
    std::uint64_t read_bytes = 0, written_bytes = 0, summed_bytes = 0;
  } done;
  std::vector<std::uint64_t> summed_at;  // done.summed_bytes when each request ended.
  std::function<void()> before_write;    // Called once, before the next write.
  // Called once, before the next read: simulates another thread while this one waits for the volume.
  std::function<void()> before_read;
  std::function<void()> in_read_journal;  // Called in each read of the journal.
  std::function<void()> before_sync;      // Called once, before the next flush.
  int journal_error = 0;                  // Each read of the journal fails with it.
  int read_error = 0;                     // Each read of the slab does.
  bool makes_sums = true;                 // If not, the device that has the memory fails.

  void transfer_each(std::span<penstock_request> requests, const Ended& ended) override {
    const auto is_write = [](const penstock_request& one) { return one.op == PENSTOCK_WRITE; };
    if (before_read && !requests.empty() && !is_write(requests[0])) std::exchange(before_read, nullptr)();
    if (before_write && !requests.empty() && is_write(requests[0])) std::exchange(before_write, nullptr)();
    for (const penstock_request& one : requests) {
      (is_write(one) ? done.written_bytes : done.read_bytes) += bytes_of(pieces_of(one));
    }
    std::vector<std::size_t> order(requests.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random_);
    for (const std::size_t i : order) {
      Moved moved;
      const auto pieces = pieces_of(requests[i]);
      const auto offset = static_cast<std::uint64_t>(requests[i].file_offset);
      is_write(requests[i]) ? write(offset, pieces, moved) : read(offset, pieces, moved);
      const EndedRequest one{i, moved};
      summed_at.push_back(done.summed_bytes);
      ended({&one, 1});
    }
  }
  core::Status sync() override {
    if (before_sync) std::exchange(before_sync, nullptr)();
    const bool fails = happens(faults.sync);
    for (auto& [block, old] : unflushed_) {
      // After a failed flush the bytes may or may not be durable, and a second one that succeeds proves nothing.
      if (fails && happens(0.5)) std::copy(old.begin(), old.end(), slab_.begin() + static_cast<std::ptrdiff_t>(block));
    }
    unflushed_.clear();
    return fails ? core::os_failure(EIO, "flush") : core::success();
  }
  core::Status crc32c(std::span<const iovec> pieces, std::span<std::uint32_t> sums) override {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      done.summed_bytes += pieces[i].iov_len;
      sums[i] = core::crc32c({static_cast<const std::byte*>(pieces[i].iov_base), pieces[i].iov_len});
    }
    return makes_sums ? core::success() : core::failure(core::Code::device_lost, "make checksums");
  }
  std::span<const std::byte> in_memory() const override { return slab_; }
  std::span<std::byte> for_copies(std::uint64_t offset, std::uint64_t bytes) override {
    return is_copied ? std::span(slab_).subspan(offset, bytes) : std::span<std::byte>();
  }
  core::Result<Journal> read_journal(std::uint64_t offset) override {
    if (in_read_journal) in_read_journal();
    if (journal_error != 0) return core::os_failure(journal_error, "read the journal");
    const std::size_t from = std::min<std::size_t>(offset, journal_.size());
    return Journal{identity_, {journal_.begin() + static_cast<std::ptrdiff_t>(from), journal_.end()}};
  }
  core::Status write_journal(std::uint64_t offset, std::span<const std::byte> bytes) override {
    EXPECT_LE(offset, journal_.size());
    const bool fails = happens(faults.journal);
    const std::size_t count = fails ? random_() % (bytes.size() + 1) : bytes.size();
    journal_.resize(std::max<std::size_t>(journal_.size(), offset + count));
    std::copy_n(bytes.begin(), count, journal_.begin() + static_cast<std::ptrdiff_t>(offset));
    return fails ? core::os_failure(ENOSPC, "write the journal") : core::success();
  }
  core::Status replace_journal(std::span<const std::byte> bytes, bool& is_replaced) override {
    is_replaced = !happens(faults.journal);
    if (!is_replaced) return core::os_failure(ENOSPC, "write the journal");
    if (!old_journal_) old_journal_ = journal_;
    journal_.assign(bytes.begin(), bytes.end());
    ++identity_;
    if (happens(faults.folder)) return core::os_failure(EIO, "flush the folder");
    old_journal_.reset();
    return core::success();
  }

  // The machine loses power: some unflushed bytes are there, some are not, and perhaps not the last journal.
  void lose_power() {
    for (auto& [block, old] : unflushed_) {
      if (happens(0.5)) std::copy(old.begin(), old.end(), slab_.begin() + static_cast<std::ptrdiff_t>(block));
    }
    unflushed_.clear();
    if (old_journal_ && happens(0.5)) journal_ = *old_journal_, ++identity_;
    old_journal_.reset();
  }
  std::vector<std::byte>& slab() { return slab_; }
  std::vector<std::byte>& journal() { return journal_; }
  std::mt19937_64& random() { return random_; }
  bool happens(double share) { return share > 0 && std::uniform_real_distribution(0.0, 1.0)(random_) < share; }

 private:
  static std::vector<iovec> pieces_of(const penstock_request& request) {
    if (request.pieces == nullptr) return {{request.base, request.size}};
    return {request.pieces, request.pieces + request.piece_count};
  }
  void write(std::uint64_t offset, std::span<const iovec> pieces, Moved& moved) {
    const std::uint64_t bytes = bytes_of(pieces);
    ASSERT_LE(offset + bytes, slab_.size()) << "beyond the capacity";
    const bool fails = happens(faults.write);
    std::uint64_t left = fails ? random_() % (bytes + 1) : bytes, at = offset;
    for (const iovec& piece : pieces) {
      const std::uint64_t count = std::min<std::uint64_t>(left, piece.iov_len);
      keep_old(at, count);
      if (count > 0) std::memcpy(slab_.data() + at, piece.iov_base, count);
      left -= count, at += count;
    }
    moved.bytes = at - offset;
    if (fails && happens(0.5)) moved.status = core::os_failure(EIO, "write");
  }
  void read(std::uint64_t offset, std::span<const iovec> pieces, Moved& moved) {
    const bool fails = happens(faults.read);
    std::uint64_t at = offset;
    for (const iovec& piece : pieces) {
      ASSERT_LE(at + piece.iov_len, slab_.size());
      if (piece.iov_len > 0) std::memcpy(piece.iov_base, slab_.data() + at, piece.iov_len);
      at += piece.iov_len;
    }
    moved.bytes = fails ? random_() % (at - offset + 1) : at - offset;
    if (read_error != 0) moved = {core::os_failure(read_error, "read"), 0};
    if (fails && happens(0.5)) moved.status = core::os_failure(EIO, "read");
    if (happens(faults.rot) && at > offset) {
      const iovec& piece = pieces[random_() % pieces.size()];
      if (piece.iov_len > 0) static_cast<std::byte*>(piece.iov_base)[random_() % piece.iov_len] ^= std::byte{4};
    }
  }
  void keep_old(std::uint64_t at, std::uint64_t count) {
    constexpr std::uint64_t kBlock = 4096;
    for (std::uint64_t block = at / kBlock * kBlock; block < at + count; block += kBlock) {
      if (unflushed_.count(block) > 0) continue;
      const auto first = slab_.begin() + static_cast<std::ptrdiff_t>(block);
      unflushed_[block] = {first, first + static_cast<std::ptrdiff_t>(std::min(kBlock, slab_.size() - block))};
    }
  }

  std::vector<std::byte> slab_, journal_;
  std::map<std::uint64_t, std::vector<std::byte>> unflushed_;  // Blocks with unflushed writes, as last flushed.
  std::optional<std::vector<std::byte>> old_journal_;          // It may come back while the new one is not durable.
  std::uint64_t identity_ = 1;
  std::mt19937_64 random_;
};

// Gets a chunk of its first version from a store over such a volume. The outcome is done only if the bytes are right.
template <typename Store>
Outcome get_first(Store& store, std::uint64_t key, std::size_t bytes) {
  std::vector<std::byte> memory(bytes);
  const Outcome outcome = get(store, key, memory);
  EXPECT_TRUE(outcome != Outcome::done || memory == content_of(key, 0, bytes)) << key;
  return outcome;
}

}  // namespace penstock::kv
