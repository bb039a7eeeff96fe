// SPDX-License-Identifier: Apache-2.0

// How a request that was found sane is moved: by its caller alone, by many threads, or in parts while the tuner tries.
#include <algorithm>
#include <chrono>

#include "base/align.h"
#include "session/session.h"
#include "session/tally.h"

namespace penstock::core {
namespace {

// Large requests are cut into at least two chunks for everybody who works on them, but into none smaller than this:
// every copy takes its turn in the CUDA driver (on an H200 machine 16 threads moved 36 GB/s in chunks of 512 KiB and
// 48 in chunks of 2 MiB).
constexpr std::uint64_t kShareMin = 2u << 20;
constexpr std::uint64_t kPartAlign = 2u << 20;   // Of a request that the tuner cuts.
constexpr std::uint64_t kChunkUnit = 64u << 10;  // Whole blocks of whatever direct I/O asks for.

// Writers of one file queue up behind its inode's lock when the page cache takes part.
bool is_one_writer_at_a_time(Op op, const Plan& plan, PathId path) {
  return op == Op::write && plan.middle_way() == Way::buffered && !traits_of(path).direct;
}

}  // namespace

Outcome Session::move(Checked& checked) {
  prepare(checked, is_small(checked) ? SubmitMode::alone : SubmitMode::many);
  const Result<Pools*> pools =
      pools_for(*checked.path, checked.memory.needs_device() ? checked.memory.device : nullptr);
  if (!pools.ok()) return {pools.status(), checked.report};
  // A path may ask for larger chunks than others get.
  const std::uint64_t operation_max = operation_max_.load(std::memory_order_relaxed);
  const Plan plan = plan_for(checked, is_small(checked) ? chunk_for(checked) : operation_max);
  if (is_small(checked)) return move_small(checked, plan, (*pools)->small);
  const bool preallocated = checked.input.op == Op::write && preallocate(checked, plan);
  const Outcome outcome = move_large(checked, plan, (*pools)->large);
  if (preallocated && outcome.report.bytes < checked.input.size) checked.input.file->note_blocks_behind_end();
  return outcome;
}

bool Session::preallocate(const Checked& checked, const Plan& plan) {
  if (traits_of(checked.report.path).pretends) return false;
  const Result<int> fd = checked.input.file->descriptor(plan.middle_way());
  return fd.ok() && storage_->preallocate(*fd, checked.input.file_offset, checked.input.size);
}

void Session::limit_operations(std::uint64_t bytes) {
  operation_max_.store(std::max(align_down(bytes, kChunkUnit), kChunkUnit), std::memory_order_relaxed);
}

std::uint64_t Session::chunk_for(const Checked& checked) const {
  const std::uint64_t operation_max = operation_max_.load(std::memory_order_relaxed);
  if (is_small(checked)) return std::min(shapes_.small.chunk, operation_max);
  const std::uint64_t threads = std::clamp<std::uint64_t>(checked.input.size / kShareMin, 1, config_.workers);
  const std::uint64_t share = align_up(std::max(checked.input.size / (2 * threads), kShareMin), kChunkUnit);
  return std::min({share, shapes_.large.chunk, operation_max});
}

// At most a few chunks, one after the other on the caller's thread: no ring, no worker, the fewest system calls.
Outcome Session::move_small(const Checked& checked, const Plan& plan, ChannelPool& pool) {
  const Result<ChannelPool::Loan> loan = pool.borrow();
  if (!loan.ok()) return {loan.status(), checked.report};
  Tally tally(checked.input);
  for (const bool ends : {false, true}) {
    if (ends && !plan.has_head_or_tail()) break;
    for (std::uint64_t i = 0; i < plan.chunk_count() && tally.goes_on(); ++i) {
      if (plan.is_head_or_tail(i) == ends) tally.take_in((**loan).run(make_task(checked.input, plan.chunk(i))));
    }
  }
  Outcome outcome{tally.status(), checked.report};
  tell(tally, outcome.report);
  return outcome;
}

Outcome Session::move_large(const Checked& checked, const Plan& plan, ChannelPool& pool) {
  if (is_tuned(checked, plan)) return move_tuned(checked, plan, pool);
  const auto start = std::chrono::steady_clock::now();
  Transfer transfer(checked.input, plan, pool);
  workers_.run(transfer, threads_for(checked, plan) - 1, checked.memory.device);
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
  const std::uint64_t bytes = transfer.bytes();
  if (checked.prepared.first_time && checked.input.op == Op::read && bytes > 0 && transfer.bounced_bytes() == 0) {
    checked.path->learn({bytes, checked.input.size, static_cast<std::uint64_t>(took.count()), false});
  }
  Outcome outcome{transfer.status(), checked.report};
  tell(transfer, outcome.report);
  return outcome;
}

// In parts, while the tuner is still trying; as one, when it has found out.
Outcome Session::move_tuned(const Checked& checked, const Plan& plan, ChannelPool& pool) {
  const Tuner::Kind kind{checked.input.op, plan.middle_way(), checked.input.size};
  Outcome outcome{success(), checked.report};
  Moved moved;
  for (Checked part = checked; moved.bytes() < checked.input.size;) {
    const std::uint64_t rest = checked.input.size - moved.bytes();
    Tuner::Choice choice = tuner_.choose(kind, rest);
    // Parts meet at whole pages, of which none is written in two ways then.
    const std::uint64_t end = align_down(part.input.file_offset + choice.bytes, kPartAlign);
    if (choice.bytes < rest && end > part.input.file_offset) choice.bytes = end - part.input.file_offset;
    part.input.size = choice.bytes;
    // Threads run dry together where chunks are many.
    const std::uint64_t chunk = chunk_for(part);
    const Plan plan_of_part = plan_for(part, choice.trial ? std::min(chunk, kShareMin) : chunk);
    const auto start = std::chrono::steady_clock::now();
    Transfer transfer(part.input, plan_of_part, pool);
    workers_.run(transfer, std::min(choice.threads, threads_for(checked, plan)) - 1, checked.memory.device);
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
    moved.add(transfer);
    outcome.status = transfer.status();
    if (!outcome.status.ok() || transfer.bytes() < choice.bytes) break;
    const auto wall_ns = static_cast<std::uint64_t>(took.count());
    tuner_.learn(kind, choice, {choice.bytes, wall_ns, transfer.cpu_ns()});
    // Trials are slower than what they settle.
    if (!choice.trial && transfer.bounced_bytes() == choice.bytes) {
      checked.path->learn({choice.bytes, checked.input.size, wall_ns, true});
    }
    part.input.memory += choice.bytes;
    part.input.file_offset += choice.bytes;
  }
  tell(moved, outcome.report);
  return outcome;
}

bool Session::is_tuned(const Checked& checked, const Plan& plan) const {
  return checked.prepared.tune_threads && !is_one_writer_at_a_time(checked.input.op, plan, checked.report.path);
}

unsigned Session::threads_for(const Checked& checked, const Plan& plan) const {
  const TransferInput& input = checked.input;
  // Two writers keep the inode's lock busy; more only spin on it (measured on ext4: sixteen took 2.6 times the CPU of
  // four, and were slower).
  const std::uint64_t most =
      is_one_writer_at_a_time(input.op, plan, checked.report.path) ? 2 : config_.workers + std::uint64_t{1};
  const std::uint64_t shares =
      config_.share_min == 0 ? UINT64_MAX : std::max<std::uint64_t>(input.size / config_.share_min, 1);
  return static_cast<unsigned>(std::min<std::uint64_t>(
      {input.size / kShareMin + 1, most, config_.threads_max, checked.prepared.threads_max, shares}));
}

}  // namespace penstock::core
