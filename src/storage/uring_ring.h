// SPDX-License-Identifier: Apache-2.0

// io_uring as a Ring.
#pragma once

#include <array>
#include <vector>

#include "storage/ring.h"

struct io_uring;

namespace penstock::core {

class UringRing final : public Ring, private DmabufSlots {
 public:
  // Fails with the errno of io_uring_setup.
  static Result<std::unique_ptr<Ring>> open(unsigned depth);
  ~UringRing() override;

  void push(const RingOp& op) override;
  Status submit() override;
  Result<unsigned> reap(std::span<RingCompletion> completions, bool wait) override;
  bool wait_until(std::chrono::steady_clock::time_point deadline) override;
  Status register_memory(void* memory, std::size_t size) override;
  void unregister_memory(void* memory) override;
  int register_file(int fd) override;
  void unregister_file(int fixed_file) override;

 private:
  // The kernel's table has ranges of memory first, and dma-bufs behind them.
  static constexpr unsigned kRegionsMax = 8, kTableSize = kRegionsMax + kDmabufsMax;
  struct Region {  // One range of registered memory; empty where its number is free.
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
  };
  enum class Dmabuf : std::uint8_t { none, own, lent };

  explicit UringRing(unsigned depth);
  Result<int> add(int dmabuf, int drive, bool is_lent) override;
  Status remove(int slot) override;
  Status release(int slot) const override;
  int table_error();
  Region* free_region();
  Status wait_for_release(unsigned slot);
  Status submit_and_wait(unsigned least);
  void wait_for_completion();
  unsigned take(std::span<RingCompletion> completions);
  int fixed_memory(const RingOp& op) const;
  bool is_under_way(std::uint64_t data) const;
  RingCompletion complete(std::uint64_t data, int result);
  bool owns_its_descriptor() const;
  void drop_memory();

  std::unique_ptr<io_uring> ring_;
  std::vector<RingOp> ops_;            // Operations in flight, by index.
  std::vector<std::uint64_t> turns_;   // How often each index was used, which the kernel's user_data has above it.
  std::vector<std::uint32_t> unused_;  // Indexes of ops_ that are free.
  std::vector<int> files_;             // Registered descriptors by fixed number; -1 where free.
  bool files_registered_ = false;
  const unsigned submit_max_;
  unsigned unsubmitted_ = 0;
  unsigned in_flight_ = 0;                     // Number of operations pushed and not reaped.
  Status failure_;                             // The end of the ring: from then on the kernel is asked for nothing.
  std::array<Region, kRegionsMax> regions_{};  // Registered memory by fixed number.
  unsigned region_room_ = 0;                   // How many of them the kernel's table has.
  std::array<Dmabuf, kDmabufsMax> dmabufs_{};
};

}  // namespace penstock::core
