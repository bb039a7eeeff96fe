// SPDX-License-Identifier: Apache-2.0

#include "device/host/host_streams.h"

#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "base/process.h"
#include "base/shortage.h"

namespace penstock::core {
namespace {

bool has_reached(const std::uint32_t& word, std::uint32_t value) {
  return static_cast<std::int32_t>(word - value) >= 0;
}

}  // namespace

HostStreamHome& HostStreamHome::of_process() {
  struct Made {
    HostStreamHome home;
    const std::uint32_t forks = fork_count();
  };
  static std::atomic<Made*> current{nullptr};
  Made* made = current.load(std::memory_order_acquire);
  if (made != nullptr && made->forks == fork_count()) return made->home;
  auto* const fresh = new Made;
  if (current.compare_exchange_strong(made, fresh)) return fresh->home;
  delete fresh;
  return made->home;
}

bool HostStreamHome::is_through(void* stream) {
  const MutexLock lock(mutex_);
  return streams_[stream].work.empty();
}

Status HostStreamHome::call(void* stream, void (*function)(void*), void* argument) {
  return add(stream, {.kind = Work::Kind::call, .function = function, .argument = argument});
}

Status HostStreamHome::copy(void* stream, const StreamBlock&, const StreamCopy& what, std::uint64_t) {
  return add(stream, {.kind = Work::Kind::copy, .copy = &what});
}

Status HostStreamHome::copy_at_once(void* stream, const StreamBlock&, const StreamCopy& what) {
  return add(stream, {.kind = Work::Kind::copy, .known = what});
}

Status HostStreamHome::wait(void* stream, const StreamBlock&, const std::uint32_t& word, std::uint32_t value) {
  return add(stream, {.kind = Work::Kind::wait, .word = const_cast<std::uint32_t*>(&word), .value = value});
}

Status HostStreamHome::write(void* stream, const StreamBlock&, const std::uint32_t& word, std::uint32_t value) {
  return add(stream, {.kind = Work::Kind::write, .word = const_cast<std::uint32_t*>(&word), .value = value});
}

Status HostStreamHome::add(void* handle, const Work& work) {
  const MutexLock lock(mutex_);
  const auto queue = [&]() -> Stream* {
    mutex_.assume_held();
    Stream& stream = streams_[handle];
    stream.work.push_back(work);
    return &stream;
  };
  Stream* const stream = unless_short_of_memory(queue, []() -> Stream* { return nullptr; });
  if (stream == nullptr) return failure(Code::out_of_memory, "queue work on the stream");
  go_on(*stream);
  return success();
}

void HostStreamHome::set(std::uint32_t& word, std::uint32_t value) {
  const MutexLock lock(mutex_);
  raise(word, value);
}

void HostStreamHome::raise(std::uint32_t& word, std::uint32_t value) {
  if (!has_reached(word, value)) std::atomic_ref(word).store(value, std::memory_order_release);
  std::atomic_ref(word).notify_all();
  for (auto& [handle, stream] : streams_) {
    const bool waited = !stream.work.empty() && stream.work.front().word == &word;
    if (waited) go_on(stream);
  }
}

Status HostStreamHome::drain(void* handle) {
  const MutexLock lock(mutex_);
  const Stream& stream = streams_[handle];
  wait_until_done(stream, stream.given());
  return success();
}

void HostStreamHome::drain_all() {
  const MutexLock lock(mutex_);
  std::vector<std::pair<const Stream*, std::uint64_t>> all;
  for (const auto& [handle, stream] : streams_) all.emplace_back(&stream, stream.given());
  for (const auto& [stream, given] : all) wait_until_done(*stream, given);
}

// Waits for the given amount of work: a stream that gets more all the time is never empty.
void HostStreamHome::wait_until_done(const Stream& stream, std::uint64_t given) {
  ++waiting_;
  while (stream.done < given) progress_.wait(mutex_);
  --waiting_;
}

// Does the stream's work. If another thread is doing it, leaves the rest to that thread.
void HostStreamHome::go_on(Stream& stream) {
  if (stream.busy) return;
  stream.busy = true;
  while (!stream.work.empty() && do_first(stream)) {
    stream.work.pop_front();
    ++stream.done;
    if (waiting_ > 0) progress_.notify_all();
  }
  stream.busy = false;
}

// False if the stream has to wait. Calls are made without the lock, because they may call this object.
bool HostStreamHome::do_first(Stream& stream) {
  const Work work = stream.work.front();
  switch (work.kind) {
    case Work::Kind::wait: return has_reached(*work.word, work.value);
    case Work::Kind::write: raise(*work.word, work.value); break;
    case Work::Kind::call: {
      const MutexUnlock unlock(mutex_);
      work.function(work.argument);
      break;
    }
    case Work::Kind::copy: copy_bytes(work.copy != nullptr ? *work.copy : work.known);
  }
  return true;
}

void HostStreamHome::copy_bytes(const StreamCopy& what) {
  auto* const to = reinterpret_cast<void*>(what.to);
  const auto* const from = reinterpret_cast<const void*>(what.from);
  if (what.size > 0 && !pages_.fetch(to, from, what.size)) std::memcpy(to, from, what.size);
}

Status HostStreamHome::pin(void*, std::size_t, std::uint64_t& shift) {
  shift = 0;
  return success();
}

}  // namespace penstock::core
