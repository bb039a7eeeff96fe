// SPDX-License-Identifier: Apache-2.0

#include "stats/cufile_counters.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <ctime>

#include "base/process.h"
#include "stats/layout.h"
#include "stats/thread_number.h"

namespace penstock::core {
namespace {

constexpr std::size_t kSumsWords = sizeof(CufileSums) / sizeof(std::uint64_t);

void count(CufileSums& sums, CufileOperation operation, bool ok, std::uint64_t times = 1) {
  CufileCount& counted = sums.operations[static_cast<unsigned>(operation)];
  add_shared(ok ? counted.ok : counted.err, times);
}

unsigned index_of(Op op) { return static_cast<unsigned>(op); }

}  // namespace

std::uint64_t nanoseconds_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

unsigned cufile_size_bucket(std::uint64_t bytes) {
  const auto bits = static_cast<unsigned>(std::bit_width(bytes >> 12));
  return std::min(bits, kCufileSizeBuckets - 1);
}

CufileTotals total_of(const CufileSection& section) {
  CufileTotals totals;
  totals.level = std::min(load_shared(section.chosen_level), kCufileLevelMax);
  totals.gpu_count = std::min(load_shared(section.gpu_count), kCufileGpus);
  totals.elapsed_ns = load_shared(section.counted_ns);
  const std::uint64_t started = load_shared(section.started_ns);
  const std::uint64_t now = nanoseconds_now();
  totals.counting = started != 0;
  if (totals.counting && now > started) totals.elapsed_ns += now - started;
  for (unsigned i = 0; i < 2; ++i) totals.last_batch_bytes[i] = load_shared(section.last_batch_bytes[i]);
  for (unsigned i = 0; i < kCufileGpus; ++i) std::memcpy(totals.uuids[i].data(), section.uuids[i], 16);
  // The same memory as an array of words, for summing.
  std::uint64_t words[kSumsWords] = {};
  for (const CufileSection::Shard& shard : section.shards) {
    const auto* const counted = reinterpret_cast<const std::uint64_t*>(&shard.sums);
    for (std::size_t i = 0; i < kSumsWords; ++i) words[i] += load_shared(counted[i]);
  }
  std::memcpy(&totals.sums, words, sizeof words);
  return totals;
}

CufileCounters::CufileCounters(CufileSection& section) : section_(section), forks_(fork_count()) {}

unsigned CufileCounters::level() const { return forks_ == fork_count() ? load_shared(section_.level) : 0; }
unsigned CufileCounters::chosen_level() const { return load_shared(section_.chosen_level); }
bool CufileCounters::is_started() const { return load_shared(section_.started_ns) != 0; }

void CufileCounters::choose_level(unsigned level) {
  store_shared(section_.chosen_level, level);
  if (is_started()) store_shared(section_.level, level);
}

void CufileCounters::start() {
  if (is_started()) return;
  store_shared(section_.started_ns, nanoseconds_now());
  store_shared(section_.level, chosen_level());
}

void CufileCounters::stop() {
  const std::uint64_t started = load_shared(section_.started_ns);
  if (started == 0) return;
  store_shared(section_.level, 0u);
  store_shared(section_.counted_ns, load_shared(section_.counted_ns) + nanoseconds_now() - started);
  store_shared(section_.started_ns, std::uint64_t{0});
}

// Counts that other threads add meanwhile may survive.
void CufileCounters::reset() {
  for (CufileSection::Shard& shard : section_.shards) {
    auto* const words = reinterpret_cast<std::uint64_t*>(&shard.sums);
    for (std::size_t i = 0; i < kSumsWords; ++i) store_shared(words[i], std::uint64_t{0});
  }
  for (std::uint64_t& bytes : section_.last_batch_bytes) store_shared(bytes, std::uint64_t{0});
  store_shared(section_.counted_ns, std::uint64_t{0});
  if (is_started()) store_shared(section_.started_ns, nanoseconds_now());
}

void CufileCounters::set_gpu_count(unsigned count) { store_shared(section_.gpu_count, std::min(count, kCufileGpus)); }

void CufileCounters::name_gpu(int gpu, const std::uint8_t (&uuid)[16]) {
  if (gpu < 0 || gpu >= static_cast<int>(kCufileGpus)) return;
  for (unsigned i = 0; i < sizeof uuid; ++i) store_shared(section_.uuids[gpu][i], uuid[i]);
}

CufileSums& CufileCounters::own_sums() { return section_.shards[thread_number() % std::size(section_.shards)].sums; }

void CufileCounters::add(CufileOperation operation, bool ok, std::uint64_t times) {
  if (level() >= 1) count(own_sums(), operation, ok, times);
}

void CufileCounters::add_transfer(const CufileTransfer& transfer) {
  if (level() == 0) return;
  CufileSums& sums = own_sums();
  const unsigned op = index_of(transfer.op);
  if (!transfer.is_piece) count(sums, static_cast<CufileOperation>(op), transfer.ok);
  if (!transfer.is_piece && transfer.ok) {
    add_shared(sums.bytes[op], transfer.bytes);
    add_shared(sums.nanoseconds[op], transfer.nanoseconds);
  }
  add_size_and_gpu(sums, transfer);
}

void CufileCounters::add_vectored(Op op, bool ok, std::uint64_t bytes, std::uint64_t nanoseconds) {
  if (level() == 0) return;
  CufileSums& sums = own_sums();
  count(sums, op == Op::read ? CufileOperation::readv : CufileOperation::writev, ok);
  if (!ok) return;
  add_shared(sums.vectored_bytes[index_of(op)], bytes);
  add_shared(sums.vectored_nanoseconds[index_of(op)], nanoseconds);
}

void CufileCounters::add_batch_entry(const CufileTransfer& transfer) {
  if (level() == 0) return;
  CufileSums& sums = own_sums();
  if (transfer.way == CufileWay::posix) {
    count(sums, CufileOperation::batch_posix_enqueued, true);
    count(sums, CufileOperation::batch_posix_processed, transfer.ok);
  } else {
    const bool nvfs = transfer.way == CufileWay::nvfs;
    count(sums, CufileOperation::batch_enqueued, true);
    count(sums, CufileOperation::batch_processed, transfer.ok);
    count(sums, nvfs ? CufileOperation::batch_nvfs_submit : CufileOperation::batch_p2p_submit, transfer.ok);
  }
  if (transfer.ok) add_shared(sums.batch_bytes[index_of(transfer.op)], transfer.bytes);
  add_size_and_gpu(sums, transfer);
}

void CufileCounters::add_size_and_gpu(CufileSums& sums, const CufileTransfer& transfer) {
  const unsigned now = level();
  const unsigned op = index_of(transfer.op);
  if (now >= 2 && transfer.ok && transfer.bytes > 0) add_shared(sums.sizes[op][cufile_size_bucket(transfer.bytes)], 1);
  if (now < 3 || transfer.gpu < 0 || transfer.gpu >= static_cast<int>(kCufileGpus)) return;
  CufileGpuTransfers& gpu = sums.gpus[transfer.gpu].transfers[op];
  add_shared(gpu.total, 1);
  if (!transfer.ok) {
    add_shared(gpu.failed, 1);
    return;
  }
  add_shared(gpu.bytes, transfer.bytes);
  add_shared(gpu.nanoseconds, transfer.nanoseconds);
  add_shared(gpu.by_way[static_cast<unsigned>(transfer.way)], 1);
  if (transfer.unaligned) add_shared(gpu.unaligned, 1);
}

void CufileCounters::add_batch_submit(unsigned entries, bool mixed, bool ok, std::uint64_t nanoseconds) {
  if (level() == 0) return;
  CufileSums& sums = own_sums();
  count(sums, CufileOperation::batch_submit, ok);
  if (!ok) return;
  count(sums, CufileOperation::batch_total_submit, true, entries);
  if (mixed) count(sums, CufileOperation::batch_mixed_submit, true, entries);
  add_shared(sums.submit_nanoseconds, nanoseconds);
}

void CufileCounters::add_batch_complete(std::uint64_t read_bytes, std::uint64_t written_bytes, bool ok,
                                        std::uint64_t nanoseconds) {
  if (level() == 0) return;
  CufileSums& sums = own_sums();
  count(sums, CufileOperation::batch_complete, ok);
  if (!ok) return;
  add_shared(sums.completion_nanoseconds, nanoseconds);
  store_shared(section_.last_batch_bytes[index_of(Op::read)], read_bytes);
  store_shared(section_.last_batch_bytes[index_of(Op::write)], written_bytes);
}

void CufileCounters::add_registration(int gpu, std::uint64_t bytes, bool ok) {
  if (level() < 3 || gpu < 0 || gpu >= static_cast<int>(kCufileGpus)) return;
  CufileGpu& counted = own_sums().gpus[gpu];
  add_shared(ok ? counted.registrations : counted.registrations_failed, 1);
  if (ok) add_shared(counted.registered_bytes, bytes);
}

void CufileCounters::add_deregistration(int gpu, std::uint64_t bytes) {
  if (level() < 3 || gpu < 0 || gpu >= static_cast<int>(kCufileGpus)) return;
  CufileGpu& counted = own_sums().gpus[gpu];
  add_shared(counted.registrations_freed, 1);
  add_shared(counted.freed_bytes, bytes);
}

}  // namespace penstock::core
