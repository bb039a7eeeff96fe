// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/cuda_copy_queue.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "base/invariant.h"
#include "checksum/crc32c.h"
#include "device/cuda/checksum_kernel.h"
#include "device/cuda/scatter_kernel.h"

namespace penstock::core {
namespace {

using namespace cuda;

using namespace std::chrono_literals;

// Some milliseconds of polling: after that another program has the GPU.
constexpr unsigned kLooksForOneCopy = 1u << 14;
// The limit of polls for a long copy is about twice its time alone: if it has not ended by then, other copies use the
// link, and polling would keep a CPU busy for each. A shorter copy ends sooner than a thread wakes up.
constexpr std::size_t kLongCopy = 1u << 20;
constexpr std::size_t kBytesOfLook = 8192;
constexpr unsigned kLooksForSignal = 1u << 11;  // About 100 microseconds.
constexpr unsigned kLooksForEvent = 16;  // Each poll takes the driver's lock, which other threads need to queue copies.
// A lost context never signals, so the driver is polled after so many polls of the signal.
constexpr unsigned kLooksToAnError = 256;
// A copy that has still not ended is polled between timed sleeps: a timer wakes the thread sooner than the driver's
// interrupt, and for less CPU. Eight threads that fetched 2 MiB each, in pieces, reached 39.0 to 39.8 GB/s at 0.066 CPU
// s/GB with events, and 48.0 to 48.3 at 0.036 with timed sleeps; 16 that copied a mebibyte, 42.2 to 42.7 and 44.9 to
// 45.5 (one H100, 2026-11-25). Four threads that bounced 16 MiB each reached 29.7 to 35.3 GB/s with events, and 39.5 to
// 43.8 with timed sleeps; one thread that registered and fetched showed no difference (H100s, 2026-11-26).
constexpr timespec kSleep{0, 20'000};  // In practice about 70 us.
constexpr auto kSleepsFor = 5ms;
constexpr unsigned kSleepsOfLongWait = 3;

CUdeviceptr address_of(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

const char* step_of(Direction direction) {
  return direction == Direction::to_device ? "copy to the GPU" : "copy from the GPU";
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

CudaCopyQueue::~CudaCopyQueue() {
  const ContextScope scope(api_, device_.context());
  if (!scope.entered() || stream_ == nullptr) return;
  api_.cuStreamSynchronize(stream_);  // The host memory of its copies may be freed right after this.
  for (const Marker& marker : markers_) api_.cuEventDestroy(marker.event);
  api_.cuStreamDestroy(stream_);
  if (signal_ != nullptr) device_.scatter().signals().give_back(*signal_);
}

Status CudaCopyQueue::open(unsigned markers) {
  return in_context("open a copy queue", [&] {
    CUresult result = open_stream();
    markers_.reserve(markers);
    while (result == CUDA_SUCCESS && markers_.size() < markers) {
      CUevent event = nullptr;
      result = api_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
      if (result == CUDA_SUCCESS) markers_.push_back({.event = event});
    }
    return result;
  });
}

// Opens a stream of the highest priority, so that a kernel that makes small copies begins between two blocks of the
// user's, and not behind the last one. It makes no difference to copy engines.
CUresult CudaCopyQueue::open_stream() {
  int least = 0;
  int greatest = 0;
  const bool has_priorities = api_.cuStreamCreateWithPriority != nullptr && api_.cuCtxGetStreamPriorityRange != nullptr;
  if (has_priorities && api_.cuCtxGetStreamPriorityRange(&least, &greatest) == CUDA_SUCCESS && greatest < least) {
    return api_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, greatest);
  }
  return api_.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING);
}

CUresult CudaCopyQueue::queue(const Copy& copy, Direction direction) {
  if (copy.size == 0) return CUDA_SUCCESS;
  ends_with_signal_ = false;
  const CUdeviceptr on_device = address_of(copy.device_address);
  return direction == Direction::to_device ? api_.cuMemcpyHtoDAsync(on_device, copy.host, copy.size, stream_)
                                           : api_.cuMemcpyDtoHAsync(copy.host, on_device, copy.size, stream_);
}

Status CudaCopyQueue::copy_on_device(void* to, const void* from, std::size_t size) {
  constexpr const char* kStep = "copy within the GPU's memory";
  if (size == 0) return success();
  if (api_.cuMemcpyDtoDAsync == nullptr) return failure(Code::unsupported, kStep);
  ends_with_signal_ = false;
  return in_context(kStep, [&] { return api_.cuMemcpyDtoDAsync(address_of(to), address_of(from), size, stream_); });
}

Status CudaCopyQueue::copy_many(std::span<const Copy> copies, Direction direction) {
  return in_context(copies.size() == 1 ? step_of(direction) : "make small copies to or from the GPU", [&] {
    CUresult result = CUDA_SUCCESS;
    while (result == CUDA_SUCCESS && !copies.empty()) {
      const auto some = copies.first(std::min(copies.size(), ScatterList::kPiecesMax));
      copies = copies.subspan(some.size());
      if (scatter(some, direction)) continue;
      for (std::size_t i = 0; result == CUDA_SUCCESS && i < some.size(); ++i) result = queue(some[i], direction);
    }
    return result;
  });
}

bool CudaCopyQueue::scatter(std::span<const Copy> copies, Direction direction) {
  const std::uint32_t number = std::max(sent_ + 1, 1u);
  if (!device_.scatter().launch(stream_, copies, direction, signal_, number)) return false;
  ends_with_signal_ = signal_ != nullptr;
  if (ends_with_signal_) sent_ = number;
  return true;
}

Status CudaCopyQueue::copy_and_wait(const Copy& copy, Direction direction) {
  return in_context(step_of(direction), [&] {
    const CUresult result = queue(copy, direction);
    return result == CUDA_SUCCESS ? drain(copy.size) : result;
  });
}

// Once a few streams are held, no kernel starts.
Status CudaCopyQueue::checksum(std::span<ChecksumBlock> blocks, std::optional<void*> stream, bool hashed) {
  constexpr const char* kStep = "make checksums on the GPU";
  if (is_any_cuda_stream_busy(api_)) return failure(Code::unsupported, kStep);
  const ContextScope scope(api_, device_.context());
  if (!scope.entered()) return cuda_status(scope.result(), kStep);
  const CUstream there = stream ? static_cast<CUstream>(*stream) : stream_;
  if (const Status status = stream ? check_followed(there) : success(); !status.ok()) return status;
  const CUfunction kernel = device_.checksum_kernel().function();
  const CUfunction hashing = hashed ? device_.hash_kernel().function() : nullptr;
  if (kernel == nullptr || (hashed && hashing == nullptr)) return failure(Code::unsupported, kStep);
  std::uint32_t bytes = 0, seed = 0;
  for (ChecksumBlock& block : blocks) {
    if (block.bytes != bytes) seed = crc32c_of_zeros(bytes = block.bytes);
    block.sum = seed;
  }
  ends_with_signal_ = false;
  CUresult result = launch(kernel, blocks, there);
  if (result == CUDA_SUCCESS && hashed) result = launch(hashing, blocks, there);
  if (result == CUDA_SUCCESS && stream) result = wait_behind(there);
  return cuda_status(result, kStep);
}

CUresult CudaCopyQueue::launch(CUfunction kernel, std::span<ChecksumBlock> blocks, CUstream there) {
  CUdeviceptr array = address_of(blocks.data());
  void* parameters[] = {&array};
  return api_.cuLaunchKernel(kernel, static_cast<unsigned>(blocks.size()), 1, 1, kChecksumThreads, 1, 1, 0, there,
                             parameters, nullptr);
}

Status CudaCopyQueue::follow(void* stream) {
  constexpr const char* kStep = "use the stream";
  const ContextScope scope(api_, device_.context());
  if (!scope.entered()) return cuda_status(scope.result(), kStep);
  const auto there = static_cast<CUstream>(stream);
  const Status status = check_followed(there);
  return status.ok() ? cuda_status(wait_behind(there), kStep) : status;
}

Status CudaCopyQueue::check_followed(CUstream stream) const {
  return api_.cuStreamWaitEvent == nullptr ? failure(Code::unsupported, "use the stream")
                                           : check_not_captured(api_, stream);
}

CUresult CudaCopyQueue::wait_behind(CUstream stream) {
  const CUevent event = markers_.front().event;
  ends_with_signal_ = false;
  const CUresult result = api_.cuEventRecord(event, stream);
  return result == CUDA_SUCCESS ? api_.cuStreamWaitEvent(stream_, event, 0) : result;
}

// Polls up to a limit, then between timed sleeps; sleeps from the start if the last long wait took long, unless this
// copy is short. Returns false if that was not enough: then another program has the GPU.
template <typename There>
bool CudaCopyQueue::await(There there, std::size_t looks, bool is_short) {
  if (there()) return true;
  const bool sleeps_first = sleeps_first_ && !is_short;
  for (std::size_t i = 0; !sleeps_first && i < looks; ++i) {
    relax();
    if (there()) return true;
  }
  const auto end = std::chrono::steady_clock::now() + kSleepsFor;
  bool is_there = false;
  unsigned sleeps = 0;
  for (; !is_there && std::chrono::steady_clock::now() < end; ++sleeps) {
    ::clock_nanosleep(CLOCK_MONOTONIC, 0, &kSleep, nullptr);
    is_there = there();
  }
  if (!is_short) sleeps_first_ = !sleeps_first || sleeps >= kSleepsOfLongWait;
  return is_there;
}

// Without an event there is one driver call less, and less work for the GPU. A thread that must sleep after all waits
// for an event, since the driver's own wait for a stream spins.
CUresult CudaCopyQueue::drain(std::size_t bytes) {
  CUresult result = CUDA_ERROR_NOT_READY;
  const auto is_over = [&] {
    result = api_.cuStreamQuery(stream_);
    return result != CUDA_ERROR_NOT_READY;
  };
  const bool is_short = bytes < kLongCopy;
  if (await(is_over, is_short ? kLooksForOneCopy : bytes / kBytesOfLook, is_short)) return result;
  if (markers_.empty()) return api_.cuStreamSynchronize(stream_);
  result = api_.cuEventRecord(markers_.front().event, stream_);
  return result == CUDA_SUCCESS ? api_.cuEventSynchronize(markers_.front().event) : result;
}

Status CudaCopyQueue::record(unsigned marker) {
  Marker& mark = marker_at(marker);
  mark.number = ends_with_signal_ ? sent_ : 0;
  if (mark.number != 0) return success();
  return in_context("mark the GPU's progress", [&] { return api_.cuEventRecord(mark.event, stream_); });
}

// Asks the driver now and then, because a kernel that died never signals.
Result<bool> CudaCopyQueue::signalled(std::uint32_t number) {
  if (signal_->has_come(number)) return true;
  if (++looks_ % kLooksToAnError != 0) return false;
  const Status status = in_context("ask for the GPU's progress", [&] {
    const CUresult result = api_.cuStreamQuery(stream_);
    return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
  });
  if (!status.ok()) return status;
  return signal_->has_come(number);
}

Result<bool> CudaCopyQueue::reached(unsigned marker) {
  const Marker& mark = marker_at(marker);
  if (mark.number != 0) return signalled(mark.number);
  bool done = true;
  const Status status = in_context("ask for the GPU's progress", [&] {
    const CUresult result = api_.cuEventQuery(mark.event);
    done = result != CUDA_ERROR_NOT_READY;
    return done ? result : CUDA_SUCCESS;
  });
  if (!status.ok()) return status;
  return done;
}

// A thread that must sleep after all waits for the marker's event, recorded behind all current work of the stream.
Status CudaCopyQueue::wait_for_signal(const Marker& mark, bool spin) {
  const auto has_come = [&] { return signal_->has_come(mark.number); };
  if (await(has_come, spin ? kLooksForOneCopy : kLooksForSignal, spin)) return success();
  return in_context("wait for the GPU", [&] {
    const CUresult result = api_.cuEventRecord(mark.event, stream_);
    return result == CUDA_SUCCESS ? api_.cuEventSynchronize(mark.event) : result;
  });
}

Status CudaCopyQueue::wait(unsigned marker, bool spin) {
  const Marker& mark = marker_at(marker);
  if (mark.number != 0) return wait_for_signal(mark, spin);
  return in_context("wait for the GPU", [&] {
    CUresult result = CUDA_ERROR_NOT_READY;
    const auto is_over = [&] {
      result = api_.cuEventQuery(mark.event);
      return result != CUDA_ERROR_NOT_READY;
    };
    return await(is_over, spin ? kLooksForOneCopy : kLooksForEvent, spin) ? result
                                                                          : api_.cuEventSynchronize(mark.event);
  });
}

CudaCopyQueue::Marker& CudaCopyQueue::marker_at(unsigned marker) {
  PENSTOCK_INVARIANT(marker < markers_.size());
  return markers_[marker];
}

}  // namespace penstock::core
