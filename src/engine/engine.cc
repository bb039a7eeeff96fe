// SPDX-License-Identifier: Apache-2.0

#include "engine/engine.h"

#include <algorithm>

#include "base/align.h"
#include "engine/transfer_time.h"

namespace penstock::core {
namespace {

// Large requests are cut so that every thread that works on them gets at least two chunks, but no chunk is smaller than
// this: every copy takes its turn in the CUDA driver (on an H200 machine 16 threads moved 36 GB/s in chunks of 512 KiB
// and 48 in chunks of 2 MiB).
constexpr std::uint64_t kShareMin = 2u << 20;
// Cached reads are over before chunks of that size could follow one another, so they are cut by the number of threads:
// a caller alone took 340 to 410 us to bounce 2 MiB, and takes 155 with others (one H100, 16 CPUs, 2026-11-26).
constexpr std::uint64_t kCachedChunkMin = 256u << 10;
constexpr std::uint64_t kPartAlign = 2u << 20;   // For a request that the tuner cuts into parts.
constexpr std::uint64_t kChunkUnit = 64u << 10;  // A multiple of every block size that direct I/O may need.

// True if writers of one file wait for one another at its inode's lock, as they do in the page cache.
bool is_one_writer_at_a_time(const Flight& flight) {
  return flight.request.op == Op::write && flight.plan().middle_io_mode() == IoMode::buffered &&
         !traits_of(flight.report.path).direct;
}

}  // namespace

Engine::Pools::Pools(Path& moving, Device* target, const ChannelShapes& shapes, BounceBudget& budget,
                     const Placement& placement)
    : path(&moving), device(target), small(moving, target, shapes.small, budget, &placement),
      large(moving, target, shapes.large, budget, &placement) {}

Engine::Engine(EngineRules rules, const PathEnvironment& environment)
    : io_(environment.storage), rules_(std::move(rules)),
      shapes_(shape_channels(rules_.bounce_bytes, rules_.chunk_bytes, rules_.workers)), router_(rules_, environment),
      tuner_(std::min(rules_.workers + 1, rules_.threads_max), rules_.cpu_weight),
      workers_(rules_.workers, rules_.placement, rules_.threads_spin) {
  limit_operations(rules_.operation_max);
  for (unsigned i = 0; i <= kDevicesMax; ++i) budgets_.push_back(std::make_unique<BounceBudget>(rules_.bounce_bytes));
}

Engine::~Engine() {
  for (auto& pools : pools_) delete pools.load();
}

Outcome Engine::move(Flight& flight) {
  const bool small = fits_small_channel(flight);
  const std::uint64_t chunk = chunk_for(flight);
  router_.shape(flight, small ? SubmitMode::alone : SubmitMode::many, chunk);
  const Result<Pools*> pools = pools_for(*flight.path, flight.request.device());
  if (pools.ok()) {
    Router::before_move(flight);
    // A path may ask for larger chunks than usual.
    flight.cut_into_chunks(small ? chunk : operation_max_.load(std::memory_order_relaxed));
    note_if_short(flight);
    if (small && !may_be_cached_read(flight)) move_alone(flight, (*pools)->small);
    else move_by_size(flight, **pools);
  } else {
    flight.fail(pools.status());
  }
  account_for(flight);
  return flight.outcome();
}

void Engine::note_if_short(const Flight& flight) {
  if (is_long(flight.request.size) || flight.plan().middle_io_mode() != IoMode::o_direct) return;
  if (DriveShare& drive = drive_of(flight); drive.is_taken()) drive.note_short();
}

std::optional<Outcome> Engine::read_if_cached(Flight& flight) {
  if (!router_.is_staging(flight)) return std::nullopt;
  const std::uint64_t chunk_max = chunk_for(flight);
  // Without before_move(), because the read may not happen this way.
  router_.shape(flight, SubmitMode::alone, chunk_max);
  flight.cut_into_chunks(chunk_max);
  const RoutedRequest& request = flight.request;
  if (flight.plan().middle_io_mode() != IoMode::buffered) return std::nullopt;
  const Result<int> fd = request.file->descriptor(IoMode::buffered);
  if (!fd.ok()) return std::nullopt;
  Outcome outcome{success(), flight.report};
  std::uint64_t& moved = outcome.report.bytes;
  while (moved < request.size) {
    const Result<std::size_t> some =
        io_.read_if_cached(*fd, request.memory.address() + moved, request.size - moved, request.file_offset + moved);
    // The read would have to wait, or failed; move() then does it and reports a failure.
    if (!some.ok()) return std::nullopt;
    if (*some == 0) break;
    moved += *some;
  }
  count(outcome.report, request.op);
  return outcome;
}

void Engine::warm_up(Device& device) {
  Path* const path = router_.fallback_of(device);
  if (path == nullptr) return;
  const Result<Pools*> pools = pools_for(*path, &device);
  if (!pools.ok()) return;
  if (const ChannelPool::Loan channel = (*pools)->small.try_borrow()) (*channel).hooks().warm_up();
}

void Engine::account_for(const Flight& flight) {
  const RoutedRequest& request = flight.request;
  if (request.op == Op::write) request.file->note_written(flight.report.bytes);
  count(flight.report, request.op);
  if (!flight.progress().status().ok()) counters_.add_failure(flight.report.path, request.op);
}

// There is no better path than a direct one, whichever was asked before it. One that is forced although it copies has a
// reason of its own.
void Engine::count(const Report& report, Op op) {
  const Reason reason = traits_of(report.path).direct ? report.path_reason : report.reason;
  counters_.add(report.path, reason, op, report.bytes - report.bounced_bytes);
  if (report.direct_bytes > 0) counters_.add_direct(report.path, op, report.direct_bytes);
  if (report.bounced_bytes > 0) counters_.add(PathId::bounce, report.bounced_reason, op, report.bounced_bytes);
}

bool Engine::preallocate(const Flight& flight) {
  const RoutedRequest& request = flight.request;
  if (request.op == Op::read || traits_of(flight.report.path).pretends) return false;
  return request.file->preallocate(request.file_offset, request.size);
}

void Engine::limit_operations(std::uint64_t bytes) {
  operation_max_.store(std::max(align_down(bytes, kChunkUnit), kChunkUnit), std::memory_order_relaxed);
}

std::uint64_t Engine::chunk_for(const Flight& flight) const {
  const std::uint64_t operation_max = operation_max_.load(std::memory_order_relaxed);
  if (fits_small_channel(flight)) return std::min(shapes_.small.chunk, operation_max);
  const std::uint64_t size = flight.request.size;
  const std::uint64_t threads = std::clamp<std::uint64_t>(size / kShareMin, 1, rules_.workers);
  const std::uint64_t share = align_up(std::max(size / (2 * threads), kShareMin), kChunkUnit);
  return std::min({share, shapes_.large.chunk, operation_max});
}

// Moves at most a few chunks, one after the other on the caller's thread: without a submission queue or a worker, and
// with the fewest system calls.
void Engine::move_alone(Flight& flight, ChannelPool& pool) {
  const Result<ChannelPool::Loan> loan = pool.borrow();
  if (loan.ok()) flight.run(**loan);
  else flight.fail(loan.status());
}

bool Engine::may_be_cached_read(const Flight& flight) {
  const RoutedRequest& request = flight.request;
  return request.size >= 2 * kCachedChunkMin && request.op == Op::read && flight.request.shape.tune_threads;
}

// The bytes that each thread of a cached read takes at a time; 0 if the read is not one. CPUs copy a cached read out of
// the page cache, with threads to spare, and it is so short that channels of small requests suffice, each for one chunk
// at a time.
std::uint64_t Engine::cached_read_chunk_for(const Flight& flight) const {
  const RoutedRequest& request = flight.request;
  if (!may_be_cached_read(flight)) return 0;
  // A quarter of the small channels is left to other requests.
  const std::uint64_t threads = std::min<std::uint64_t>(
      {(rules_.workers + 1) / std::max(active_transfers_.load(std::memory_order_relaxed), 1u),
       shapes_.small.count * 3 / 4, rules_.threads_max, flight.request.shape.threads_max, shares_of(request.size)});
  const std::uint64_t chunk_max = shapes_.small.chunk;
  if (threads < 2 || request.size > 2 * threads * chunk_max) return 0;
  // A single thread does better with two chunks in flight.
  const IoMode io_mode = flight.plan().middle_io_mode();
  const Tuner::Finding finding = tuner_.finding({request.op, io_mode, request.size});
  if (finding.settled && finding.threads == 1) return 0;
  if ((io_mode == IoMode::o_direct && !request.prefer_cached) ||
      !request.file->is_resident(request.file_offset, request.size))
    return 0;
  return std::min(align_up(std::max(request.size / threads, kCachedChunkMin), kChunkUnit), chunk_max);
}

// Moves a cached read, or a request that one small channel holds, or a large one: all but the second with the help of
// other threads, if they are available and worth it.
void Engine::move_by_size(Flight& flight, Pools& pools) {
  const ActiveTransfer counted(active_transfers_);
  const ActiveTransfer counted_there(active_on_[place_of(flight.request.device())]);
  const std::uint64_t cached_chunk = cached_read_chunk_for(flight);
  if (cached_chunk > 0) {
    flight.cut_into_chunks(cached_chunk);
    move_tuned(flight, cached_chunk, pools.small);
  } else if (fits_small_channel(flight)) {
    move_alone(flight, pools.small);
  } else {
    move_large(flight, pools.large);
  }
}

void Engine::move_large(Flight& flight, ChannelPool& pool) {
  const bool preallocated = preallocate(flight);
  if (is_tuned(flight)) move_tuned(flight, 0, pool);
  else move_untuned(flight, pool);
  if (preallocated && flight.report.bytes < flight.request.size) flight.request.file->note_blocks_behind_end();
}

void Engine::move_untuned(Flight& flight, ChannelPool& pool) {
  const TransferTime time(active_on_[place_of(flight.request.device())]);
  SharedFlight shared(flight, pool, flight.request.size, drive_of(flight));
  workers_.run(shared, threads_for(flight, 0) - 1, flight.request.facts.device);
  const std::uint64_t share_ns = time.share_of(time.wall_ns());
  const std::uint64_t bytes = flight.progress().bytes();
  const bool is_read = flight.request.op == Op::read;
  if (flight.request.shape.learns && is_read && bytes > 0 && flight.progress().bounced_bytes() == 0) {
    flight.path->hooks()->learn(
        {bytes, flight.request.size, share_ns, shared.cpu_ns(), false, flight.request.shape.first_time});
  }
}

// Moves the request in parts while the tuner still tries numbers of threads, and as a whole once it has settled.
void Engine::move_tuned(Flight& flight, std::uint64_t cached_chunk, ChannelPool& pool) {
  const std::uint64_t size = flight.request.size;
  const Tuner::Kind kind{flight.request.op, flight.plan().middle_io_mode(), size};
  const unsigned threads_max = threads_for(flight, cached_chunk);
  Progress progress = flight.progress();
  Flight part = flight;
  for (std::uint64_t moved = 0; moved < size && progress.goes_on();) {
    Tuner::Choice choice = tuner_.choose(kind, size - moved);
    // Parts meet at page boundaries, so that no page is written in two ways.
    const std::uint64_t end = align_down(part.request.file_offset + choice.bytes, kPartAlign);
    if (choice.bytes < size - moved && end > part.request.file_offset) choice.bytes = end - part.request.file_offset;
    part.request.size = choice.bytes;
    // With many chunks, all threads finish at nearly the same time.
    const std::uint64_t chunk = cached_chunk > 0 ? cached_chunk : chunk_for(part);
    part.cut_into_chunks(choice.trial ? std::min(chunk, kShareMin) : chunk);
    const TransferTime time(active_on_[place_of(flight.request.device())]);
    SharedFlight shared(part, pool, size, drive_of(part));
    workers_.run(shared, std::min(choice.threads, threads_max) - 1, part.request.facts.device);
    const std::uint64_t wall_ns = time.wall_ns();
    const Progress& done = part.progress();
    progress.merge(done);
    if (!progress.goes_on()) break;
    const std::uint64_t cpu_ns = shared.cpu_ns();
    tuner_.learn(kind, choice, {choice.bytes, wall_ns, cpu_ns});
    // Trials are slower than later requests, and bytes that came from storage say nothing about the page cache.
    const bool is_cached = done.bounced_bytes() == choice.bytes && done.direct_bytes() == 0;
    if (flight.request.shape.learns && !choice.trial && is_cached) {
      // Shared cached reads take more CPU time than others do, and say nothing about theirs.
      flight.path->hooks()->learn(
          {choice.bytes, size, time.share_of(wall_ns), cached_chunk > 0 ? 0 : cpu_ns, true, false});
    }
    part.request.memory.skip(choice.bytes);
    part.request.file_offset += choice.bytes;
    moved += choice.bytes;
  }
  flight.end(progress);
}

bool Engine::is_tuned(const Flight& flight) {
  return flight.request.shape.tune_threads && !is_one_writer_at_a_time(flight);
}

std::uint64_t Engine::shares_of(std::uint64_t size) const {
  return rules_.share_min == 0 ? UINT64_MAX : std::max<std::uint64_t>(size / rules_.share_min, 1);
}

unsigned Engine::threads_for(const Flight& flight, std::uint64_t cached_chunk) const {
  const std::uint64_t size = flight.request.size;
  // Two writers keep the inode's lock busy; more only spin on it (measured on ext4: sixteen took 2.6 times the CPU of
  // four, and were slower).
  const std::uint64_t most = is_one_writer_at_a_time(flight) ? 2 : rules_.workers + std::uint64_t{1};
  return static_cast<unsigned>(
      std::min<std::uint64_t>({cached_chunk > 0 ? flight.plan().chunk_count() : size / kShareMin + 1, most,
                               rules_.threads_max, flight.request.shape.threads_max, shares_of(size)}));
}

// ---- Channels ------------------------------------------------------------------------------------------------------

void Engine::leave_budgets(ChannelHolder* holder) {
  for (const auto& budget : budgets_) budget->remove(holder);
}

std::uint64_t Engine::bounce_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& budget : budgets_) bytes += budget->used();
  return bytes;
}

Result<Engine::Pools*> Engine::pools_for(Path& path, Device* device) {
  const auto find = [&]() -> Pools* {
    for (auto& place : pools_) {
      Pools* pools = place.load(std::memory_order_acquire);
      if (pools == nullptr || (pools->path == &path && pools->device == device)) return pools;
    }
    return nullptr;
  };
  if (Pools* pools = find()) return pools;
  const MutexLock lock(pools_mutex_);
  if (Pools* pools = find()) return pools;
  for (auto& place : pools_) {
    if (place.load() != nullptr) continue;
    place.store(new Pools(path, device, shapes_, budget_of(device), rules_.placement), std::memory_order_release);
    return place.load();
  }
  return failure(Code::limit, "use one more device context");
}

}  // namespace penstock::core
