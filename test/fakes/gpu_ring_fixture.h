// SPDX-License-Identifier: Apache-2.0

// A ring for kernels on the host, with a cache or without, whose reads fail in every way.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "device/host/host_device.h"
#include "fakes/host_kernels.h"
#include "fakes/noise.h"
#include "fakes/waiting.h"
#include "frontend/gpu_ring.h"

namespace penstock::core {

inline constexpr std::uint64_t kSize = 300'000;
inline constexpr std::uint64_t kForEver = UINT64_MAX;
inline constexpr std::uint64_t kAMoment = 2'000'000;
inline constexpr std::uint64_t kTooLong = 30'000'000'000;  // Only a read that stands still takes that long.

// Reads a string as if it were a file.
class ScriptedReader final : public GpuRing::Reader {
 public:
  Result<GpuRing::Read> read(unsigned, std::uint64_t offset, std::uint32_t bytes,
                             const GpuRing::SlotMemory& to) override {
    ++asked;
    while (stands_still && !is_over) std::this_thread::yield();
    if (ends_thread) ::pthread_exit(nullptr);
    if (error != 0) return os_failure(error, "read");
    if (chances != 0) {
      const unsigned chance = random_chance();
      if (chance == 0) return os_failure(EIO, "read");
      if (chance == 1) return failure(Code::out_of_memory, "read");
      if (chance == 2) be_slow(std::chrono::microseconds(400));
    }
    const std::uint64_t there = offset < content.size() ? std::min<std::uint64_t>(bytes, content.size() - offset) : 0;
    std::memcpy(to.pinned, content.data() + offset, there);
    return GpuRing::Read{static_cast<std::uint32_t>(there)};
  }

  const std::string content = noise(kSize, 7);
  std::atomic<unsigned> asked{0};
  std::atomic<bool> stands_still{false}, is_over{false}, ends_thread{false};
  std::atomic<int> error{0};
  std::atomic<unsigned> chances{0};  // One read in so many has each fault.

 private:
  unsigned random_chance() {
    static thread_local std::minstd_rand random(1);
    return static_cast<unsigned>(random() % chances);
  }
};

// A range of the file.
struct Range {
  std::uint64_t offset, bytes;
};

class GpuRingFixture : public testing::Test {
 protected:
  void TearDown() override {
    reader_.is_over = true;
    if (ring_ != nullptr) ring_->stop();
    kernels_.wait();
  }
  // With a cache of so many sets.
  gpu::File open(const GpuRing::Terms& terms, std::uint64_t timeout_ns, std::size_t sets = 0) {
    ring_ = std::move(*GpuRing::open(device_, terms, reader_));
    owners_.assign(terms.slots, 0);
    gpu::Layout layout{.size = kSize, .timeout_ns = timeout_ns};
    ring_->describe(layout);
    layout.extents = &no_extent_;
    layout.extent_shift = 30;
    layout.owners = owners_.data();
    layout.counts = counts_;
    layout.standing = &standing_;
    sets_.assign(sets, {});
    frames_.assign(sets * gpu::kWays * terms.slot_bytes / sizeof(gpu::detail::Sixteen), {});
    if (sets > 0) layout.sets = sets_.data();
    layout.set_count = static_cast<gpu::Word>(sets);
    layout.frames = reinterpret_cast<unsigned char*>(frames_.data());
    return gpu::File(layout);
  }
  bool is_right(std::uint64_t offset, const std::string& got, std::uint64_t bytes) const {
    return std::memcmp(got.data(), reader_.content.data() + offset, bytes) == 0;
  }
  // Groups of 1 and of 5 lanes read ranges that `draw(random, i)` gives, each to another place within 16 bytes: they
  // get the bytes that the file has there, and no others.
  template <typename Draw>
  void expect_right_reads(const gpu::File& file, unsigned count, Draw draw) {
    for (const unsigned lanes : {1u, 5u}) {
      std::string memory(6000, 'x');
      std::atomic<unsigned> wrong{0};
      kernels_.launch(lanes, [&](const Lane& lane) {
        std::minstd_rand random(lanes);
        for (unsigned i = 0; i < count; ++i) {
          const auto [offset, bytes] = draw(random, i);
          const std::uint64_t shift = random() % 16;
          const gpu::Result result = file.read(lane, offset, bytes, memory.data() + shift);
          lane.sync();
          const std::uint64_t expected = std::min(bytes, kSize - offset);
          const bool is_good = result.error == gpu::Error::none && result.bytes == expected &&
                               is_right(offset, memory.substr(shift), expected) && memory[shift + expected] == 'x';
          if (lane.thread_rank() == 0) wrong += !is_good;
          lane.sync();
          if (lane.thread_rank() == 0) std::fill(memory.begin(), memory.end(), 'x');
          lane.sync();
        }
      });
      kernels_.wait();
      EXPECT_EQ(wrong, 0u) << lanes << " lanes";
    }
  }
  unsigned owned(gpu::Word state) const {
    unsigned count = 0;
    for (const gpu::Word& owner : owners_) count += gpu::detail::look(&owner) % 4 == state;
    return count;
  }

  HostDevice device_{0, "host"};
  HostKernels kernels_;
  ScriptedReader reader_;
  std::unique_ptr<GpuRing> ring_;
  std::vector<gpu::Word> owners_;
  gpu::Counts counts_[gpu::kCountParts] = {};
  gpu::Standing standing_ = {.generation = 1, .seen = {}};
  gpu::Long no_extent_ = 0;
  std::vector<gpu::CacheSet> sets_;
  std::vector<gpu::detail::Sixteen> frames_;
};

}  // namespace penstock::core
