// SPDX-License-Identifier: Apache-2.0

#include "engine/shared_flight.h"

#include <ctime>

namespace penstock::core {
namespace {

constexpr std::size_t kPollMax = 16;

std::uint64_t thread_cpu_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace

void SharedFlight::work() {
  Result<ChannelPool::Loan> channel = pool_.borrow(is_long_);
  if (channel.ok()) {
    move_chunks(**channel);
    return;
  }
  stop_.store(true, std::memory_order_relaxed);
  const MutexLock lock(progress_mutex_);
  progress_.fail_at(progress_.begin(), channel.status());
}

bool SharedFlight::help() {
  if (!has_work()) return false;
  const ChannelPool::Loan channel = pool_.try_borrow(is_long_);
  if (channel) move_chunks(*channel);
  return static_cast<bool>(channel);
}

std::optional<std::uint64_t> SharedFlight::next_turn() {
  if (stop_.load(std::memory_order_relaxed)) return std::nullopt;
  const std::uint64_t turn = next_.fetch_add(1, std::memory_order_relaxed);
  return turn < chunk_count_ ? std::optional(turn) : std::nullopt;
}

// Moves chunks through a channel with one chunk in flight, which is the shortest way for each.
void SharedFlight::run_chunks(Channel& channel, Progress& own) {
  TakenShare taken = share();
  while (has_work() && channel.has_room() && taken.take()) {
    const std::optional<std::uint64_t> turn = next_turn();
    if (!turn) break;
    own.add(channel.move_and_wait(flight_.request, flight_.in_turn(*turn)));
    taken.give_back(1);
    if (!own.goes_on()) stop_.store(true, std::memory_order_relaxed);
  }
}

void SharedFlight::pipe_chunks(Channel& channel, Progress& own) {
  Completion completions[kPollMax];
  TakenShare taken = share();
  for (;;) {
    while (has_work() && channel.has_room() && taken.take()) {
      const std::optional<std::uint64_t> turn = next_turn();
      if (turn) channel.submit(flight_.request, flight_.in_turn(*turn), 0);
      else taken.give_back(1);
    }
    if (channel.is_idle()) break;
    const unsigned count = channel.poll(completions, true);
    taken.give_back(count);
    for (unsigned i = 0; i < count; ++i) own.add(completions[i]);
    if (!own.goes_on()) stop_.store(true, std::memory_order_relaxed);
  }
}

void SharedFlight::move_rest() {
  progress_mutex_.assume_held();  // No other thread works on it any more.
  const bool is_read = flight_.request.op == Op::read;
  if (is_read && progress_.end() < progress_.reached() && !progress_.has_failed()) read_gap_again();
  flight_.end_middle(progress_);
  if (!flight_.has_next()) return;
  const Result<ChannelPool::Loan> channel = pool_.borrow(is_long_);
  if (channel.ok()) flight_.run(**channel);
  else flight_.fail(channel.status());
}

// If a file is cut and grows again during a read, threads that read the middle at that moment see the file end before
// bytes that other threads have read behind it. The bytes are in the user's memory already, so the gap is read once
// more: then they count, unless the file is still short.
void SharedFlight::read_gap_again() {
  const Result<ChannelPool::Loan> channel = pool_.borrow(is_long_);
  if (!channel.ok()) return;
  for (std::uint64_t turn = turn_at(progress_.end()); turn < chunk_count_; ++turn) {
    const Completion again = (**channel).move_and_wait(flight_.request, flight_.in_turn(turn));
    progress_.go_on_to(again.file_offset + again.bytes);
    if (!again.status.ok() || again.bytes < again.size) {
      progress_.add(again);
      return;
    }
  }
  progress_.go_on_to(UINT64_MAX);
}

// The turn of the chunk that contains the position, or begins there.
std::uint64_t SharedFlight::turn_at(std::uint64_t position) const {
  std::uint64_t first = 0;
  for (std::uint64_t count = chunk_count_; count > 1;) {
    const std::uint64_t half = count / 2;
    if (plan_.in_turn(first + half).file_offset <= position) first += half;
    count -= half;
  }
  return first;
}

void SharedFlight::move_chunks(Channel& channel) {
  const std::uint64_t cpu_before = thread_cpu_ns();
  Progress own(flight_.request.file_offset, flight_.request.size);
  if (pool_.shape().depth == 1) run_chunks(channel, own);
  else pipe_chunks(channel, own);
  channel.forget_file(0);
  const MutexLock lock(progress_mutex_);
  cpu_ns_ += thread_cpu_ns() - cpu_before;
  progress_.merge(own);
  if (!channel.is_broken()) return;
  // The chunks that nobody has taken yet are left.
  if (const std::optional<std::uint64_t> turn = next_turn())
    progress_.fail_at(flight_.in_turn(*turn).file_offset, channel.hooks().broken_by());
  stop_.store(true, std::memory_order_relaxed);
}

}  // namespace penstock::core
