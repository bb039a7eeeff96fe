// SPDX-License-Identifier: Apache-2.0

#include "cufile/stats.h"

#include "device/device.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kBlock = 4096;  // cuFile calls this aligned.
constexpr unsigned kGpuLevel = 3;

CufileWay way_of(const Report& report) {
  const PathTraits& path = traits_of(report.path);
  if (!path.direct || report.path_reason != Reason::none) return CufileWay::posix;
  return path.nvidia_fs ? CufileWay::nvfs : CufileWay::p2p;
}

// The ordinal of the GPU that owns the memory; -1 for host memory.
int gpu_of(Session& session, const PointerFacts& memory) {
  if (memory.device == nullptr) return -1;
  const DeviceFacts& gpu = memory.device->facts();
  session.counters().cufile().name_gpu(gpu.ordinal, gpu.uuid);
  return gpu.ordinal;
}

CufileTransfer facts_of(Session& session, const RawRequest& request, const Outcome& outcome, std::uint64_t began) {
  const std::uint64_t memory = reinterpret_cast<std::uintptr_t>(request.base);
  const auto file_offset = static_cast<std::uint64_t>(request.file_offset);
  const auto buffer_offset = static_cast<std::uint64_t>(request.buffer_offset);
  CufileTransfer transfer{.op = request.op,
                          .ok = outcome.status.ok(),
                          .bytes = outcome.report.bytes,
                          .nanoseconds = nanoseconds_now() - began,
                          .way = way_of(outcome.report),
                          .unaligned = ((memory | file_offset | buffer_offset | request.size) % kBlock) != 0};
  const Counters& counters = session.counters();
  if (transfer.ok && transfer.bytes > 0) {
    counters.add_latency(outcome.report.path, request.op, transfer.nanoseconds);
  }
  if (counters.cufile().level() >= kGpuLevel) {
    // A stream's request may end on a thread that must not call the device.
    transfer.gpu =
        gpu_of(session, request.memory != nullptr ? *request.memory : session.devices().describe(request.base));
  }
  return transfer;
}

std::uint64_t since(std::uint64_t began) { return nanoseconds_now() - began; }

}  // namespace

std::uint64_t stats_clock(const Session& session) {
  return session.counters().cufile().level() >= 1 ? nanoseconds_now() : 0;
}

void count_transfer(Session& session, const RawRequest& request, const Outcome& outcome, std::uint64_t began,
                    bool is_piece) {
  if (began == 0) return;
  CufileTransfer transfer = facts_of(session, request, outcome, began);
  transfer.is_piece = is_piece;
  session.counters().cufile().add_transfer(transfer);
}

void count_vectored(const Session& session, Op op, std::int64_t bytes, std::uint64_t began) {
  if (began == 0) return;
  const auto moved = static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0));
  session.counters().cufile().add_vectored(op, bytes >= 0, moved, since(began));
}

void count_batch_submit(Session& session, unsigned entries, bool mixed, bool ok, std::uint64_t began) {
  if (began == 0) return;
  session.counters().cufile().add_batch_submit(entries, mixed, ok, since(began));
}

void count_batch_entry(Session& session, const RawRequest& request, const Outcome& outcome, std::uint64_t began) {
  if (began == 0) return;
  session.counters().cufile().add_batch_entry(facts_of(session, request, outcome, began));
}

void count_batch_complete(Session& session, std::uint64_t read_bytes, std::uint64_t written_bytes, bool ok,
                          std::uint64_t began) {
  if (began == 0) return;
  session.counters().cufile().add_batch_complete(read_bytes, written_bytes, ok, since(began));
}

CufileStats& CufileStats::instance() {
  static std::atomic<CufileStats*> current{new CufileStats};  // Never deleted.
  CufileStats* stats = current.load(std::memory_order_acquire);
  if (stats->forks_ == fork_count()) return *stats;
  auto* const fresh = new CufileStats(stats);  // The parent's lock may be held for ever.
  if (current.compare_exchange_strong(stats, fresh)) return *fresh;
  delete fresh;
  return *stats;
}

CufileStats::CufileStats(CufileStats* parents) {
  if (parents == nullptr || !parents->mutex_.try_lock()) return;
  chosen_level_ = parents->chosen_level_;
  parents->mutex_.unlock();
}

void CufileStats::session_opened(Session& session, unsigned configured_level) {
  const MutexLock lock(mutex_);
  CufileCounters& counters = session.counters().cufile();
  counters.set_gpu_count(session.devices().count());
  const unsigned level = std::min(chosen_level_.value_or(configured_level), kCufileLevelMax);
  counters.choose_level(level);
  if (level > 0) counters.start();
  registered_.clear();
}

void CufileStats::choose_level(unsigned level, Session* session) {
  const MutexLock lock(mutex_);
  chosen_level_ = level;
  if (session != nullptr) session->counters().cufile().choose_level(level);
}

void CufileStats::forget_level() {
  const MutexLock lock(mutex_);
  chosen_level_.reset();
}

unsigned CufileStats::chosen_level(const Session* session) {
  const MutexLock lock(mutex_);
  return session != nullptr ? session->counters().cufile().chosen_level() : chosen_level_.value_or(0);
}

void CufileStats::change(Session& session, void (CufileCounters::*action)()) {
  const MutexLock lock(mutex_);
  (session.counters().cufile().*action)();
}

void CufileStats::count_buffer_register(Session& session, const void* base, std::uint64_t bytes, bool ok) {
  CufileCounters& counters = session.counters().cufile();
  counters.add(CufileOperation::buffer_register, ok);
  if (counters.level() < kGpuLevel) return;
  const int gpu = gpu_of(session, session.devices().describe(base));
  counters.add_registration(gpu, bytes, ok);
  if (!ok) return;
  const MutexLock lock(mutex_);
  registered_[base] = {gpu, bytes};
}

void CufileStats::count_buffer_deregister(Session& session, const void* base, bool ok) {
  CufileCounters& counters = session.counters().cufile();
  counters.add(CufileOperation::buffer_deregister, ok);
  if (!ok) return;
  const MutexLock lock(mutex_);
  const auto found = registered_.find(base);
  if (found == registered_.end()) return;
  counters.add_deregistration(found->second.gpu, found->second.bytes);
  registered_.erase(found);
}

}  // namespace penstock::core
