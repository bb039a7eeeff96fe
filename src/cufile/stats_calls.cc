// SPDX-License-Identifier: Apache-2.0

// cuFile's entry points for statistics: levels, start and stop, and the structures of cuFile 1.15 to 1.18, or by
// PENSTOCK_CUFILE_VERSION those of 1.19 and 1.20, which have vectored transfers behind the rest of level 1.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

#include "cufile.h"
#include "cufile/entry_points.h"
#include "cufile/stats.h"

namespace core = penstock::core;

namespace {

using core::CufileDriver;
using core::CufileOperation;
using core::CufileStats;
using core::CufileTotals;
using core::Op;
using core::entry_points::ok;
using core::entry_points::refuse;

struct Vectored {
  CUfileOpCounter_t readv_ops, writev_ops;
  std::uint64_t readv_bytes, writev_bytes;
  std::uint64_t readv_bw_bytes_per_sec, writev_bw_bytes_per_sec;
  std::uint64_t readv_lat_avg_us, writev_lat_avg_us;
  std::uint64_t readv_ops_per_sec, writev_ops_per_sec;
  std::uint64_t readv_lat_sum_us, writev_lat_sum_us;
};
using Level1 = CUfileStatsLevel1_t;
struct Level1Of1_20 {
  Level1 basic;
  Vectored vectored;
};
template <typename First>
struct Level2 {
  First first;
  std::uint64_t sizes[2][core::kCufileSizeBuckets];  // By Op.
};
template <typename First>
struct Level3 {
  Level2<First> second;
  std::uint32_t num_gpus;
  CUfilePerGpuStats_t gpus[core::kCufileGpus];
};
static_assert(sizeof(Level2<Level1>) == sizeof(CUfileStatsLevel2_t) &&
              sizeof(Level3<Level1>) == sizeof(CUfileStatsLevel3_t) &&
              offsetof(Level3<Level1>, gpus) == offsetof(CUfileStatsLevel3_t, per_gpu_stats));
static_assert(sizeof(Level1Of1_20) == 624 && sizeof(Level2<Level1Of1_20>) == 1136 &&
              sizeof(Level3<Level1Of1_20>) == 5112);

constexpr std::uint64_t microseconds(std::uint64_t nanoseconds) { return nanoseconds / 1000; }

// The rate per second over the counted time.
std::uint64_t rate(std::uint64_t sum, const CufileTotals& totals) {
  if (totals.elapsed_ns == 0) return 0;
  return static_cast<std::uint64_t>(static_cast<double>(sum) * 1e9 / static_cast<double>(totals.elapsed_ns));
}

std::uint64_t average(std::uint64_t sum, std::uint64_t times) { return times == 0 ? 0 : sum / times; }

CUfileOpCounter_t counter(const CufileTotals& totals, CufileOperation operation) {
  const core::CufileCount& counted = totals.operations(operation);
  return {counted.ok, counted.err};
}

void fill_batch_operations(CUfileStatsLevel1_t& stats, const CufileTotals& totals) {
  stats.batch_submit_ops = counter(totals, CufileOperation::batch_submit);
  stats.batch_complete_ops = counter(totals, CufileOperation::batch_complete);
  stats.batch_setup_ops = counter(totals, CufileOperation::batch_setup);
  stats.batch_cancel_ops = counter(totals, CufileOperation::batch_cancel);
  stats.batch_destroy_ops = counter(totals, CufileOperation::batch_destroy);
  stats.batch_enqueued_ops = counter(totals, CufileOperation::batch_enqueued);
  stats.batch_posix_enqueued_ops = counter(totals, CufileOperation::batch_posix_enqueued);
  stats.batch_processed_ops = counter(totals, CufileOperation::batch_processed);
  stats.batch_posix_processed_ops = counter(totals, CufileOperation::batch_posix_processed);
  stats.batch_nvfs_submit_ops = counter(totals, CufileOperation::batch_nvfs_submit);
  stats.batch_p2p_submit_ops = counter(totals, CufileOperation::batch_p2p_submit);
  stats.batch_aio_submit_ops = counter(totals, CufileOperation::batch_aio_submit);
  stats.batch_iouring_submit_ops = counter(totals, CufileOperation::batch_io_uring_submit);
  stats.batch_mixed_io_submit_ops = counter(totals, CufileOperation::batch_mixed_submit);
  stats.batch_total_submit_ops = counter(totals, CufileOperation::batch_total_submit);
}

void fill(Level1& stats, const CufileTotals& totals) {
  constexpr auto kRead = static_cast<unsigned>(Op::read);
  constexpr auto kWrite = static_cast<unsigned>(Op::write);
  const core::CufileSums& sums = totals.sums;
  stats.read_ops = counter(totals, CufileOperation::read);
  stats.write_ops = counter(totals, CufileOperation::write);
  stats.hdl_register_ops = counter(totals, CufileOperation::handle_register);
  stats.hdl_deregister_ops = counter(totals, CufileOperation::handle_deregister);
  stats.buf_register_ops = counter(totals, CufileOperation::buffer_register);
  stats.buf_deregister_ops = counter(totals, CufileOperation::buffer_deregister);
  stats.read_bytes = sums.bytes[kRead];
  stats.write_bytes = sums.bytes[kWrite];
  stats.read_bw_bytes_per_sec = rate(stats.read_bytes, totals);
  stats.write_bw_bytes_per_sec = rate(stats.write_bytes, totals);
  stats.read_lat_sum_us = microseconds(sums.nanoseconds[kRead]);
  stats.write_lat_sum_us = microseconds(sums.nanoseconds[kWrite]);
  stats.read_lat_avg_us = average(stats.read_lat_sum_us, stats.read_ops.ok);
  stats.write_lat_avg_us = average(stats.write_lat_sum_us, stats.write_ops.ok);
  stats.read_ops_per_sec = rate(stats.read_ops.ok, totals);
  stats.write_ops_per_sec = rate(stats.write_ops.ok, totals);
  fill_batch_operations(stats, totals);
  stats.batch_read_bytes = sums.batch_bytes[kRead];
  stats.batch_write_bytes = sums.batch_bytes[kWrite];
  stats.batch_read_bw_bytes = rate(stats.batch_read_bytes, totals);
  stats.batch_write_bw_bytes = rate(stats.batch_write_bytes, totals);
  stats.batch_submit_lat_sum_us = microseconds(sums.submit_nanoseconds);
  stats.batch_completion_lat_sum_us = microseconds(sums.completion_nanoseconds);
  stats.batch_submit_lat_avg_us = average(stats.batch_submit_lat_sum_us, stats.batch_submit_ops.ok);
  stats.batch_completion_lat_avg_us = average(stats.batch_completion_lat_sum_us, stats.batch_complete_ops.ok);
  stats.batch_submit_ops_per_sec = rate(stats.batch_submit_ops.ok, totals);
  stats.batch_complete_ops_per_sec = rate(stats.batch_complete_ops.ok, totals);
  stats.last_batch_read_bytes = totals.last_batch_bytes[kRead];
  stats.last_batch_write_bytes = totals.last_batch_bytes[kWrite];
}

void fill(Level1Of1_20& stats, const CufileTotals& totals) {
  fill(stats.basic, totals);
  const core::CufileSums& sums = totals.sums;
  Vectored& all = stats.vectored;
  all.readv_ops = counter(totals, CufileOperation::readv);
  all.writev_ops = counter(totals, CufileOperation::writev);
  all.readv_bytes = sums.vectored_bytes[0];
  all.writev_bytes = sums.vectored_bytes[1];
  all.readv_bw_bytes_per_sec = rate(all.readv_bytes, totals);
  all.writev_bw_bytes_per_sec = rate(all.writev_bytes, totals);
  all.readv_lat_sum_us = microseconds(sums.vectored_nanoseconds[0]);
  all.writev_lat_sum_us = microseconds(sums.vectored_nanoseconds[1]);
  all.readv_lat_avg_us = average(all.readv_lat_sum_us, all.readv_ops.ok);
  all.writev_lat_avg_us = average(all.writev_lat_sum_us, all.writev_ops.ok);
  all.readv_ops_per_sec = rate(all.readv_ops.ok, totals);
  all.writev_ops_per_sec = rate(all.writev_ops.ok, totals);
}

template <typename First>
void fill(Level2<First>& stats, const CufileTotals& totals) {
  fill(stats.first, totals);
  static_assert(sizeof stats.sizes == sizeof totals.sums.sizes);
  std::memcpy(stats.sizes, totals.sums.sizes, sizeof stats.sizes);
}

void fill(CUfilePerGpuStats_t& stats, const CufileTotals& totals, unsigned ordinal) {
  const core::CufileGpu& gpu = totals.sums.gpus[ordinal];
  const core::CufileGpuTransfers& reads = gpu.transfers[0];
  const core::CufileGpuTransfers& writes = gpu.transfers[1];
  const auto by = [](const core::CufileGpuTransfers& transfers, core::CufileWay way) {
    return transfers.by_way[static_cast<unsigned>(way)];
  };
  std::memcpy(stats.uuid, totals.uuids[ordinal].data(), sizeof stats.uuid);
  stats.read_bytes = reads.bytes;
  stats.read_bw_bytes_per_sec = rate(reads.bytes, totals);
  stats.read_utilization = average(reads.nanoseconds * 100, totals.elapsed_ns);
  stats.read_duration_us = microseconds(reads.nanoseconds);
  stats.n_total_reads = reads.total;
  stats.n_p2p_reads = by(reads, core::CufileWay::p2p);
  stats.n_nvfs_reads = by(reads, core::CufileWay::nvfs);
  stats.n_posix_reads = by(reads, core::CufileWay::posix);
  stats.n_unaligned_reads = reads.unaligned;
  stats.n_reads_err = reads.failed;
  stats.writes_bytes = writes.bytes;
  stats.write_bw_bytes_per_sec = rate(writes.bytes, totals);
  stats.write_utilization = average(writes.nanoseconds * 100, totals.elapsed_ns);
  stats.write_duration_us = microseconds(writes.nanoseconds);
  stats.n_total_writes = writes.total;
  stats.n_p2p_writes = by(writes, core::CufileWay::p2p);
  stats.n_nvfs_writes = by(writes, core::CufileWay::nvfs);
  stats.n_posix_writes = by(writes, core::CufileWay::posix);
  stats.n_unaligned_writes = writes.unaligned;
  stats.n_writes_err = writes.failed;
  stats.n_mmap = gpu.registrations + gpu.registrations_failed;
  stats.n_mmap_ok = gpu.registrations;
  stats.n_mmap_err = gpu.registrations_failed;
  stats.n_mmap_free = gpu.registrations_freed;
  stats.reg_bytes = gpu.registered_bytes - std::min(gpu.freed_bytes, gpu.registered_bytes);
}

template <typename First>
void fill(Level3<First>& stats, const CufileTotals& totals) {
  fill(stats.second, totals);
  stats.num_gpus = totals.gpu_count;
  for (unsigned i = 0; i < core::kCufileGpus; ++i) fill(stats.gpus[i], totals, i);
}

template <typename Stats>
void write(void* stats, const CufileTotals& totals) {
  fill(*new (stats) Stats{}, totals);
}

template <typename Of1_15, typename Of1_20>
CUfileError_t answer(void* stats, unsigned level) {
  if (stats == nullptr) return refuse(CU_FILE_INVALID_VALUE);
  const CufileDriver::Use use(CufileDriver::instance());
  if (!use) return refuse(CU_FILE_DRIVER_NOT_INITIALIZED);
  const CufileTotals totals = use->counters().cufile().total();
  if (totals.level < level || !totals.counting) return refuse(CU_FILE_INVALID_VALUE);
  core::by_version(write<Of1_15>, write<Of1_20>)(stats, totals);
  return ok();
}

CUfileError_t change(void (core::CufileCounters::*action)()) {
  const CufileDriver::Use use(CufileDriver::instance());
  if (!use) return refuse(CU_FILE_DRIVER_NOT_INITIALIZED);
  CufileStats::instance().change(use.session(), action);
  return ok();
}

}  // namespace

extern "C" {

CUfileError_t cuFileSetStatsLevel(int level) {
  return core::cufile_call([&] {
    if (level < 0 || level > static_cast<int>(core::kCufileLevelMax)) return refuse(CU_FILE_INVALID_VALUE);
    const CufileDriver::Use use(CufileDriver::instance());
    CufileStats::instance().choose_level(static_cast<unsigned>(level), use ? &use.session() : nullptr);
    return ok();
  });
}

CUfileError_t cuFileGetStatsLevel(int* level) {
  return core::cufile_call([&] {
    if (level == nullptr) return refuse(CU_FILE_INVALID_VALUE);
    const CufileDriver::Use use(CufileDriver::instance());
    *level = static_cast<int>(CufileStats::instance().chosen_level(use ? &use.session() : nullptr));
    return ok();
  });
}

CUfileError_t cuFileStatsStart(void) {
  return core::cufile_call([&] {
    const CufileDriver::Use use(CufileDriver::instance());
    if (use && use->counters().cufile().chosen_level() == 0) return refuse(CU_FILE_INTERNAL_ERROR);
    return change(&core::CufileCounters::start);
  });
}

CUfileError_t cuFileStatsStop(void) {
  return core::cufile_call([&] { return change(&core::CufileCounters::stop); });
}
CUfileError_t cuFileStatsReset(void) {
  return core::cufile_call([&] { return change(&core::CufileCounters::reset); });
}

CUfileError_t cuFileGetStatsL1(CUfileStatsLevel1_t* stats) {
  return core::cufile_call([&] { return answer<Level1, Level1Of1_20>(stats, 1); });
}
CUfileError_t cuFileGetStatsL2(CUfileStatsLevel2_t* stats) {
  return core::cufile_call([&] { return answer<Level2<Level1>, Level2<Level1Of1_20>>(stats, 2); });
}
CUfileError_t cuFileGetStatsL3(CUfileStatsLevel3_t* stats) {
  return core::cufile_call([&] { return answer<Level3<Level1>, Level3<Level1Of1_20>>(stats, 3); });
}

}  // extern "C"
