// SPDX-License-Identifier: Apache-2.0

// The counters of cuFile's statistics, by the levels of cuFile: operations, bytes and times (1), sizes (2), and each
// GPU (3). cufile/ counts here, and cuFileGetStatsL1 and its relatives return these numbers; gds_stats reads them from
// another process. Thread-safe, without locks. Does not depend on cufile.h.
#pragma once

#include <array>
#include <cstdint>

#include "core/io.h"

namespace penstock::core {

constexpr unsigned kCufileLevelMax = 3;
constexpr unsigned kCufileGpus = 16;
constexpr unsigned kCufileSizeBuckets = 32;

// In the order of CUfileStatsLevel1_t, and of gds_stats.
enum class CufileOperation : std::uint8_t {
  read,
  write,
  handle_register,
  handle_deregister,
  buffer_register,
  buffer_deregister,
  batch_submit,
  batch_complete,
  batch_setup,
  batch_cancel,
  batch_destroy,
  batch_enqueued,
  batch_posix_enqueued,
  batch_processed,
  batch_posix_processed,
  batch_nvfs_submit,
  batch_p2p_submit,
  batch_aio_submit,
  batch_io_uring_submit,
  batch_mixed_submit,
  batch_total_submit,
  readv,
  writev,
};
constexpr unsigned kCufileOperations = 23;

// How a GPU's bytes moved, in cuFile's terms.
enum class CufileWay : std::uint8_t { posix, nvfs, p2p };

struct CufileCount {
  std::uint64_t ok = 0;
  std::uint64_t err = 0;
};

struct CufileGpuTransfers {
  std::uint64_t bytes = 0;
  std::uint64_t nanoseconds = 0;
  std::uint64_t total = 0;
  std::uint64_t by_way[3] = {};  // By CufileWay.
  std::uint64_t unaligned = 0;
  std::uint64_t failed = 0;
};

struct CufileGpu {
  CufileGpuTransfers transfers[2];  // By Op.
  std::uint64_t registrations = 0;
  std::uint64_t registrations_failed = 0;
  std::uint64_t registrations_freed = 0;
  std::uint64_t registered_bytes = 0;
  std::uint64_t freed_bytes = 0;
};

struct CufileSums {
  CufileCount operations[kCufileOperations];
  std::uint64_t bytes[2] = {};  // By Op, as everywhere below.
  std::uint64_t nanoseconds[2] = {};
  std::uint64_t batch_bytes[2] = {};
  std::uint64_t vectored_bytes[2] = {};
  std::uint64_t vectored_nanoseconds[2] = {};
  std::uint64_t submit_nanoseconds = 0;
  std::uint64_t completion_nanoseconds = 0;
  std::uint64_t sizes[2][kCufileSizeBuckets] = {};
  CufileGpu gpus[kCufileGpus];
};
static_assert(sizeof(CufileSums) % sizeof(std::uint64_t) == 0);

// The layout in the segment.
struct CufileSection {
  std::uint32_t level;      // The current level; 0 while stopped.
  std::uint32_t gpu_count;  // The GPUs of the machine.
  std::uint32_t chosen_level;
  std::uint32_t reserved;
  std::uint64_t started_ns;  // CLOCK_MONOTONIC; 0 while stopped.
  std::uint64_t counted_ns;  // The time counted before started_ns.
  std::uint64_t last_batch_bytes[2];
  std::uint8_t uuids[kCufileGpus][16];  // Zero for a GPU that was not used at level 3.
  struct alignas(64) Shard {
    CufileSums sums;
  } shards[16];
};

// The sums over all shards of a section.
struct CufileTotals {
  unsigned level = 0;  // The level that the program or the settings chose.
  bool counting = false;
  unsigned gpu_count = 0;
  std::uint64_t elapsed_ns = 0;  // The total counted time.
  std::uint64_t last_batch_bytes[2] = {};
  std::array<std::array<std::uint8_t, 16>, kCufileGpus> uuids{};
  CufileSums sums;

  const CufileCount& operations(CufileOperation operation) const {
    return sums.operations[static_cast<unsigned>(operation)];
  }
};
CufileTotals total_of(const CufileSection& section);

// CLOCK_MONOTONIC.
std::uint64_t nanoseconds_now();

// Row 0 is below 4 KiB; then each power of two has a row.
unsigned cufile_size_bucket(std::uint64_t bytes);

struct CufileTransfer {
  Op op = Op::read;
  bool ok = true;
  std::uint64_t bytes = 0;
  std::uint64_t nanoseconds = 0;
  int gpu = -1;  // Only at level 3, and for memory of a GPU.
  CufileWay way = CufileWay::posix;
  bool unaligned = false;
  bool is_piece = false;  // It is part of a vectored transfer, which add_vectored() counts.
};

class CufileCounters {
 public:
  explicit CufileCounters(CufileSection& section);

  // At level 0 nothing is counted, and nothing below needs to be called. A forked child always has level 0.
  unsigned level() const;
  unsigned chosen_level() const;
  bool is_started() const;
  CufileTotals total() const { return total_of(section_); }

  void choose_level(unsigned level);
  void start();
  void stop();
  void reset();
  void set_gpu_count(unsigned count);
  void name_gpu(int gpu, const std::uint8_t (&uuid)[16]);

  // Each of these counts as the level requires.
  void add(CufileOperation operation, bool ok, std::uint64_t times = 1);
  void add_transfer(const CufileTransfer& transfer);
  void add_vectored(Op op, bool ok, std::uint64_t bytes, std::uint64_t nanoseconds);
  void add_batch_entry(const CufileTransfer& transfer);
  void add_batch_submit(unsigned entries, bool mixed, bool ok, std::uint64_t nanoseconds);
  void add_batch_complete(std::uint64_t read_bytes, std::uint64_t written_bytes, bool ok, std::uint64_t nanoseconds);
  void add_registration(int gpu, std::uint64_t bytes, bool ok);
  void add_deregistration(int gpu, std::uint64_t bytes);

 private:
  CufileSums& own_sums();
  void add_size_and_gpu(CufileSums& sums, const CufileTransfer& transfer);

  CufileSection& section_;
  const std::uint32_t forks_;
};

}  // namespace penstock::core
