// SPDX-License-Identifier: Apache-2.0

#include "session/transfer.h"

#include <ctime>

namespace penstock::core {
namespace {

constexpr std::size_t kPollMax = 16;

std::uint64_t thread_cpu_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

void raise(std::atomic<std::uint64_t>& least, std::uint64_t value) {
  std::uint64_t known = least.load(std::memory_order_relaxed);
  while (known < value && !least.compare_exchange_weak(known, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

Task make_task(const TransferInput& input, Chunk chunk) {
  if (input.prefer_cached && chunk.way == Way::direct) {
    const Result<int> fd = input.file->descriptor(Way::buffered);
    if (fd.ok() && input.storage->is_resident(*fd, chunk.io_offset, chunk.io_size)) chunk.way = Way::buffered;
  }
  return {.op = input.op,
          .file = input.file,
          .memory = input.memory + chunk.buffer_offset,
          .token = input.token,
          .chunk = chunk};
}

void Transfer::work() {
  Result<ChannelPool::Loan> channel = pool_.borrow();
  if (channel.ok()) {
    move_chunks(**channel);
  } else {
    fail_at(input_.file_offset, channel.status());
  }
}

bool Transfer::help() {
  if (!has_work()) return false;
  const ChannelPool::Loan channel = pool_.try_borrow();
  if (channel) move_chunks(*channel);
  return static_cast<bool>(channel);
}

bool Transfer::submit_next(Channel& channel) {
  if (!channel.has_room() || stop_.load(std::memory_order_relaxed)) return false;
  std::uint64_t index;
  do {
    index = next_.fetch_add(1, std::memory_order_relaxed);
    if (index >= chunk_count_) return false;
  } while (plan_.is_head_or_tail(index));
  channel.submit(make_task(input_, plan_.chunk(index)));
  return true;
}

void Transfer::finish() {
  if (input_.op == Op::read && end_.load() < reached_.load() && failed_at_ == UINT64_MAX) read_gap_again();
  finish_head_and_tail();
}

// A file that is cut and grows again under a read ends, for those who read its middle just then, before what others
// read behind it. As the bytes there are in the user's memory already, the rest is read once more: then they count,
// unless the file is as short as before.
void Transfer::read_gap_again() {
  const Result<ChannelPool::Loan> channel = pool_.borrow();
  if (!channel.ok()) return;
  for (std::uint64_t index = chunk_at(end_.load()); index < chunk_count_ && !plan_.is_head_or_tail(index); ++index) {
    const Completion again = (**channel).run(make_task(input_, plan_.chunk(index)));
    end_.store(again.file_offset + again.bytes);
    if (!again.status.ok() || again.bytes < again.size) {
      take_in(again);
      return;
    }
  }
  end_.store(input_.file_offset + input_.size);
  stop_.store(false);
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
  if (chunk_count_ == 0 || !(plan_.is_head_or_tail(0) || plan_.is_head_or_tail(chunk_count_ - 1))) return;
  const Result<ChannelPool::Loan> channel = pool_.borrow();
  if (!channel.ok()) {
    fail_at(input_.file_offset, channel.status());
    return;
  }
  for (const std::uint64_t index : {std::uint64_t{0}, chunk_count_ - 1}) {
    if (plan_.is_head_or_tail(index) && !stop_.load()) take_in((**channel).run(make_task(input_, plan_.chunk(index))));
    if (chunk_count_ == 1) break;
  }
}

void Transfer::move_chunks(Channel& channel) {
  const std::uint64_t cpu_before = thread_cpu_ns();
  Completion completions[kPollMax];
  for (;;) {
    while (submit_next(channel)) {
    }
    if (channel.is_idle()) break;
    const unsigned count = channel.poll(completions, true);
    for (unsigned i = 0; i < count; ++i) take_in(completions[i]);
  }
  channel.forget_file(0);
  cpu_ns_.fetch_add(thread_cpu_ns() - cpu_before, std::memory_order_relaxed);
  if (channel.is_broken() && has_work()) fail_at(end_.load(), failure(Code::closed, "move the request's chunks"));
}

void Transfer::take_in(const Completion& completion) {
  if (completion.way == Way::direct) direct_bytes_.fetch_add(completion.bytes, std::memory_order_relaxed);
  if (completion.bounced != Reason::none) {
    bounced_bytes_.fetch_add(completion.bytes, std::memory_order_relaxed);
    bounced_reason_.store(completion.bounced, std::memory_order_relaxed);
  }
  const std::uint64_t position = completion.file_offset + completion.bytes;
  if (completion.bytes > 0) raise(reached_, position);
  if (!completion.status.ok()) fail_at(position, completion.status);
  else if (completion.bytes < completion.size) stop_at(position);
}

void Transfer::stop_at(std::uint64_t position) {
  stop_.store(true, std::memory_order_relaxed);
  std::uint64_t end = end_.load(std::memory_order_relaxed);
  while (position < end && !end_.compare_exchange_weak(end, position, std::memory_order_relaxed)) {
  }
}

// The failure nearest to the start is the one that counts: it is what a sequential transfer would have met.
void Transfer::fail_at(std::uint64_t position, const Status& status) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (position < failed_at_) {
      failed_at_ = position;
      status_ = status;
    }
  }
  stop_at(position);
}

}  // namespace penstock::core
