// SPDX-License-Identifier: Apache-2.0

// The progress of streams: dependencies, the threads that run them, and waiting.
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <span>

#include "checksum/crc32c.h"
#include "checksum/hash64.h"
#include "device/device.h"
#include "fakes/fake_cuda/driver_state.h"

namespace penstock::fake_cuda {
namespace {

constexpr auto kPause = std::chrono::microseconds(100);
#ifdef PENSTOCK_FAKE_CUDA_11
constexpr unsigned kCallThreadsMax = 1;
#else
constexpr unsigned kCallThreadsMax = 1024;  // As measured: one that waits does not keep others from running.
#endif
constexpr unsigned kHeldForKernels = 8;  // From so many held streams on, no kernel runs,
constexpr unsigned kHeldForCopies = 4;   // and with so many copies behind holds, no copy of that direction.

bool has_reached(const Work& wait) {
  const auto* word = static_cast<std::uint32_t*>(pointer(wait.to));
  const std::uint32_t seen = std::atomic_ref(*const_cast<std::uint32_t*>(word)).load(std::memory_order_acquire);
  return static_cast<std::int32_t>(seen - wait.value) >= 0;
}

bool is_crowded_out(const Work& work) {
  unsigned held = 0;
  for (const CUstream_st& stream : driver().streams) {
    if (!is_held(stream)) continue;
    const bool counts =
        work.is_kernel() || std::any_of(stream.pending.begin(), stream.pending.end(), [&](const Work& behind) {
          return behind.kind == Work::Kind::copy && behind.to_device == work.to_device;
        });
    held += counts ? 1 : 0;
  }
  return held >= (work.is_kernel() ? kHeldForKernels : kHeldForCopies);
}

bool is_reached(CUdeviceptr memory, std::size_t size) {
  const auto block = find(memory);
  return block != driver().blocks.end() && memory + size <= block->first + block->second.mapped;
}

void do_work(const Work& work) {
  const bool is_on_device = work.kind == Work::Kind::copy || work.kind == Work::Kind::fill;
  const bool comes_from_device = work.kind == Work::Kind::copy && !work.to_device;
  if (is_on_device && !is_reached(comes_from_device ? work.from : work.to, work.size)) std::abort();
  if (work.kind == Work::Kind::copy) std::memmove(pointer(work.to), pointer(work.from), work.size);
  if (work.kind == Work::Kind::fill) std::memset(pointer(work.to), static_cast<int>(work.value), work.size);
  for (const ScatterPiece& piece : work.pieces) {
    if (!is_reached(piece.to, piece.size) || !is_reached(piece.from, piece.size)) std::abort();
    std::memcpy(pointer(piece.to), pointer(piece.from), piece.size);
  }
  if (work.kind == Work::Kind::checksum) {
    if (!is_reached(work.to, work.size)) std::abort();
    const std::span blocks(static_cast<core::ChecksumBlock*>(pointer(work.to)),
                           work.size / sizeof(core::ChecksumBlock));
    for (core::ChecksumBlock& block : blocks) {
      if (!is_reached(reinterpret_cast<CUdeviceptr>(block.address), block.bytes)) std::abort();
      const std::span<const std::byte> bytes(static_cast<const std::byte*>(block.address), block.bytes);
      if (work.value != 0) {
        block.hash = core::Hash64::of_block(bytes);
      } else {
        block.sum ^= core::crc32c(bytes) ^ core::crc32c_of_zeros(bytes.size());  // As the kernel does.
      }
    }
  }
  const auto write = [](CUdeviceptr to, std::uint64_t value) {
    std::atomic_ref(*static_cast<std::uint32_t*>(pointer(to))).store(static_cast<std::uint32_t>(value));
  };
  if (work.kind == Work::Kind::write) write(work.to, work.value);
  if (work.end.word != 0) {
    if (!is_reached(work.end.word, 4) || !is_reached(work.end.counter, 4)) std::abort();
    write(work.end.word, work.end.value);
  }
  if (work.kind == Work::Kind::kernel) {
    auto* descriptor = static_cast<CUdeviceptr*>(pointer(work.from));
    const auto at = [&](int i) { return std::atomic_ref(descriptor[i]).load(std::memory_order_relaxed); };
    const CUdeviceptr to = at(0), from = at(1), size = at(2);
    if (size > 0) std::memcpy(pointer(to), pointer(from), size);
  }
}

bool keep_going() {
  bool any = false;
  for (CUstream_st& stream : driver().streams) {
    const auto live = [](const Work& work) { return work.goes_by_itself(); };
    while (std::any_of(stream.pending.begin(), stream.pending.end(), live) && step(&stream)) any = true;
  }
  return any;
}

bool has_live_work() {
  return std::any_of(driver().streams.begin(), driver().streams.end(), [](const CUstream_st& stream) {
    return std::any_of(stream.pending.begin(), stream.pending.end(),
                       [](const Work& work) { return work.goes_by_itself(); });
  });
}

// The GPU.
void* run_streams(void*) {
  std::unique_lock lock(driver().mutex);
  for (;;) {
    if (keep_going()) driver().changed.notify_all();
    else if (has_live_work()) driver().changed.wait_for(lock, kPause);
    else driver().changed.wait(lock);
  }
}

void start_thread(void* (*body)(void*)) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (::pthread_create(&thread, nullptr, body, nullptr) != 0) std::abort();
  ::pthread_detach(thread);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// A thread of the driver's for host functions. Where all are busy, the last one brings another.
void* run_calls(void*) {
  in_call = true;
  std::unique_lock lock(driver().mutex);
  for (;;) {
    driver().changed.wait(lock, [] { return !driver().calls.empty(); });
    const CUstream stream = driver().calls.front();
    driver().calls.pop_front();
    const Work call = stream->pending.front();
    if (++driver().busy_call_threads == driver().call_threads && driver().call_threads < kCallThreadsMax) {
      ++driver().call_threads;
      start_thread(run_calls);
    }
    lock.unlock();
    call.function(pointer(call.to));
    lock.lock();
    --driver().busy_call_threads;
    stream->calling = false;
    stream->pending.pop_front();
    ++stream->landed;
    driver().changed.notify_all();
  }
}

void start_threads() {
  if (std::exchange(driver().threads_started, true)) return;
  driver().call_threads = 1;
  start_thread(run_streams);
  start_thread(run_calls);
}

// Each context has a default stream; each thread another one of its own.
CUstream default_stream(bool of_thread) {
  using Key = std::pair<CUcontext, unsigned long long>;
  static thread_local std::map<Key, CUstream> of_this_thread;
  CUstream& stream = (of_thread ? of_this_thread : driver().legacy_streams)[Key{current(), current()->id}];
  if (stream == nullptr) stream = &driver().streams.emplace_back(CUstream_st{.owner = {current(), current()->id}});
  return stream;
}

CUstream legacy_of(const CUstream_st& stream) {
  const auto found = driver().legacy_streams.find({stream.owner.context, stream.owner.id});
  return found == driver().legacy_streams.end() ? nullptr : found->second;
}

// The default stream waits for the context's blocking streams, and they for it.
void add_turns(CUstream_st& stream, Work& work) {
  const CUstream legacy = legacy_of(stream);
  const auto add = [&](CUstream other) {
    if (other != &stream && !other->pending.empty()) work.after.emplace_back(other, other->end());
  };
  if (legacy == &stream) {
    for (CUstream_st& other : driver().streams) {
      const bool same = other.owner.context == stream.owner.context && other.owner.id == stream.owner.id;
      if (same && other.blocking) add(&other);
    }
  } else if (legacy != nullptr && stream.blocking) {
    add(legacy);
  }
}

}  // namespace

bool is_held(const CUstream_st& stream) {
  if (stream.pending.empty() || stream.calling) return false;
  return stream.pending.front().kind == Work::Kind::wait && !has_reached(stream.pending.front());
}

CUstream resolve(CUstream handle, CUresult& result) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number > 2) {
    result = check(handle->owner);
    return result == CUDA_SUCCESS ? handle : nullptr;
  }
  result = need_context();
  return result == CUDA_SUCCESS ? default_stream(number == 2) : nullptr;
}

CUresult enqueue(CUstream handle, Work work) {
  CUresult result = CUDA_SUCCESS;
  const CUstream stream = resolve(handle, result);
  if (stream == nullptr) return result;
  if (driver().fail_at > 0 && --driver().fail_at == 0) return CUDA_ERROR_INVALID_VALUE;
  REQUIRE(need_memory());
  if (stream->capturing) return CUDA_SUCCESS;  // It is a node of the graph, which nobody runs.
  const bool captured_beside = std::any_of(driver().streams.begin(), driver().streams.end(), [&](const auto& other) {
    return other.capturing && other.blocking && other.owner.context == stream->owner.context;
  });
  if (stream == legacy_of(*stream) && captured_beside) {
    driver().spoiled = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  add_turns(*stream, work);
  if (work.goes_by_itself()) start_threads();
  stream->pending.push_back(std::move(work));
  driver().changed.notify_all();
  return CUDA_SUCCESS;
}

bool step(CUstream stream) {
  if (stream->pending.empty() || stream->calling) return false;
  const Work& work = stream->pending.front();
  for (const auto& [other, target] : work.after) {
    if (other->landed < target) return step(other);
  }
  if (work.kind == Work::Kind::call) {
    stream->calling = true;
    driver().calls.push_back(stream);
    driver().changed.notify_all();
    return false;
  }
  if (work.kind == Work::Kind::wait && !has_reached(work)) return false;
  if ((work.is_kernel() || work.kind == Work::Kind::copy) && is_crowded_out(work)) return false;
  do_work(work);
  stream->pending.pop_front();
  ++stream->landed;
  return true;
}

void drive(CUstream stream, std::size_t target, std::unique_lock<std::mutex>& lock) {
  while (stream->landed < target) {
    if (!step(stream)) driver().changed.wait_for(lock, kPause);
  }
}

void drive_all(CUcontext context, std::unique_lock<std::mutex>& lock) {
  for (std::size_t i = 0; i < driver().streams.size(); ++i) {
    CUstream_st& stream = driver().streams[i];
    if (stream.owner.context == context && stream.owner.id == context->id) drive(&stream, stream.end(), lock);
  }
}

// Drops the pending work of its streams, except a call that has begun.
void forget_context(CUcontext context, std::unique_lock<std::mutex>& lock) {
  context->alive = false;
  const auto is_ours = [&](const CUstream_st& stream) {
    return stream.owner.context == context && stream.owner.id == context->id;
  };
  driver().changed.wait(lock, [&] {
    return std::none_of(driver().streams.begin(), driver().streams.end(),
                        [&](const CUstream_st& stream) { return is_ours(stream) && stream.calling; });
  });
  for (CUstream_st& stream : driver().streams) {
    if (!is_ours(stream)) continue;
    stream.landed += stream.pending.size();
    stream.pending.clear();
  }
  std::erase_if(driver().blocks, [&](const auto& each) {
    const bool gone = each.second.context == context;
    if (gone && each.second.type == CU_MEMORYTYPE_DEVICE) give_back_pages(each.first, each.second.size);
    return gone;
  });
}

}  // namespace penstock::fake_cuda
