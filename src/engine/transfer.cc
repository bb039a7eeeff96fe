// SPDX-License-Identifier: Apache-2.0

#include "engine/transfer.h"

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

Task make_task(const RoutedRequest& input, const Token& token, Chunk chunk) {
  if (input.prefer_cached && chunk.way == Way::direct) {
    const Result<int> fd = input.file->descriptor(Way::buffered);
    if (fd.ok() && input.storage->is_resident(*fd, chunk.io_offset, chunk.io_size)) chunk.way = Way::buffered;
  }
  return {.op = input.op,
          .file = input.file,
          .memory = input.memory.after(chunk.buffer_offset),
          .token = token,
          .chunk = chunk};
}

void Transfer::work() {
  Result<ChannelPool::Loan> channel = pool_.borrow();
  if (channel.ok()) {
    move_chunks(**channel);
    return;
  }
  stop_.store(true, std::memory_order_relaxed);
  const MutexLock lock(progress_mutex_);
  progress_.fail_at(input_.file_offset, channel.status());
}

bool Transfer::help() {
  if (!has_work()) return false;
  const ChannelPool::Loan channel = pool_.try_borrow();
  if (channel) move_chunks(*channel);
  return static_cast<bool>(channel);
}

std::optional<Task> Transfer::next_task() {
  if (stop_.load(std::memory_order_relaxed)) return std::nullopt;
  std::uint64_t index;
  do {
    index = next_.fetch_add(1, std::memory_order_relaxed);
    if (index >= chunk_count_) return std::nullopt;
  } while (plan_.is_head_or_tail(index));
  return make_task(input_, token_, plan_.chunk(index));
}

bool Transfer::submit_next(Channel& channel) {
  if (!channel.has_room()) return false;
  const std::optional<Task> task = next_task();
  if (task) channel.submit(*task);
  return task.has_value();
}

// Through a channel that has one chunk in flight: the shortest way for each.
void Transfer::run_chunks(Channel& channel, Progress& own) {
  while (const std::optional<Task> task = channel.has_room() ? next_task() : std::nullopt) {
    own.take_in(channel.run(*task));
    if (!own.goes_on()) stop_.store(true, std::memory_order_relaxed);
  }
}

void Transfer::pipe_chunks(Channel& channel, Progress& own) {
  Completion completions[kPollMax];
  for (;;) {
    while (submit_next(channel)) {
    }
    if (channel.is_idle()) break;
    const unsigned count = channel.poll(completions, true);
    for (unsigned i = 0; i < count; ++i) own.take_in(completions[i]);
    if (!own.goes_on()) stop_.store(true, std::memory_order_relaxed);
  }
}

void Transfer::finish() {
  progress_mutex_.assume_held();  // Nobody else works on it any more.
  if (input_.op == Op::read && progress_.end() < progress_.reached() && !progress_.has_failed()) read_gap_again();
  finish_head_and_tail();
}

// A file that is cut and grows again under a read ends, for those who read its middle just then, before what others
// read behind it. As the bytes there are in the user's memory already, the rest is read once more: then they count,
// unless the file is as short as before.
void Transfer::read_gap_again() {
  const Result<ChannelPool::Loan> channel = pool_.borrow();
  if (!channel.ok()) return;
  for (std::uint64_t index = chunk_at(progress_.end()); index < chunk_count_ && !plan_.is_head_or_tail(index);
       ++index) {
    const Completion again = (**channel).run(make_task(input_, token_, plan_.chunk(index)));
    progress_.go_on_to(again.file_offset + again.bytes);
    if (!again.status.ok() || again.bytes < again.size) {
      progress_.take_in(again);
      return;
    }
  }
  progress_.go_on_to(input_.file_offset + input_.size);
}

// The chunk in which the position lies, or that begins there.
std::uint64_t Transfer::chunk_at(std::uint64_t position) const {
  std::uint64_t first = 0;
  for (std::uint64_t count = chunk_count_; count > 1;) {
    const std::uint64_t half = count / 2;
    if (plan_.chunk(first + half).file_offset <= position) first += half;
    count -= half;
  }
  return first;
}

void Transfer::finish_head_and_tail() {
  if (chunk_count_ == 0 || !plan_.has_head_or_tail()) return;
  const Result<ChannelPool::Loan> channel = pool_.borrow();
  if (!channel.ok()) {
    progress_.fail_at(input_.file_offset, channel.status());
    return;
  }
  for (const std::uint64_t index : {std::uint64_t{0}, chunk_count_ - 1}) {
    if (plan_.is_head_or_tail(index) && progress_.goes_on()) {
      progress_.take_in((**channel).run(make_task(input_, token_, plan_.chunk(index))));
    }
    if (chunk_count_ == 1) break;
  }
}

void Transfer::move_chunks(Channel& channel) {
  const std::uint64_t cpu_before = thread_cpu_ns();
  Progress own = progress_of(input_);
  if (pool_.shape().depth == 1) run_chunks(channel, own);
  else pipe_chunks(channel, own);
  channel.forget_file(0);
  const MutexLock lock(progress_mutex_);
  cpu_ns_ += thread_cpu_ns() - cpu_before;
  progress_.merge(own);
  if (channel.is_broken() && has_work()) {
    stop_.store(true, std::memory_order_relaxed);
    progress_.fail_at(progress_.end(), failure(Code::closed, "move the request's chunks"));
  }
}

}  // namespace penstock::core
