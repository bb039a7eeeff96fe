// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/cuda_streams.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/process.h"
#include "device/cuda/copy_kernel.h"
#include "device/cuda/cuda_allocation.h"

namespace penstock::core {
namespace {

using namespace cuda;

constexpr unsigned kThreads = 256;                  // Threads of a block.
constexpr unsigned kBlocksMax = 32;                 // Enough for the link; the rest of the GPU is the user's.
constexpr std::uint64_t kBytesOfBlock = 16u << 10;  // Four loads of sixteen bytes per thread.

CUstream as_stream(void* handle) { return static_cast<CUstream>(handle); }

// The default stream, and the driver's names for both kinds of it.
bool is_default(void* stream) { return reinterpret_cast<std::uintptr_t>(stream) <= 2; }

// True if the error means that a context was destroyed. One that is lost with its GPU is still there.
bool is_of_no_context(CUresult error) {
  return error == CUDA_ERROR_CONTEXT_IS_DESTROYED || error == CUDA_ERROR_INVALID_CONTEXT ||
         error == CUDA_ERROR_INVALID_VALUE;
}

// The driver's refusal of what it does for streams elsewhere. A shortage of memory tells nothing of what it supports.
Status supported_unless(CUresult refusal, const char* step) {
  if (refusal == CUDA_SUCCESS) return success();
  return refusal == CUDA_ERROR_OUT_OF_MEMORY ? cuda_failure(refusal, step) : failure(Code::unsupported, step);
}

// All homes of the process. A forked child starts with none: the contexts are its parent's.
class Homes {
 public:
  static Homes& of_process() {
    static std::atomic<Homes*> current{nullptr};
    Homes* homes = current.load(std::memory_order_acquire);
    if (homes != nullptr && homes->forks_ == fork_count()) return *homes;
    auto* const fresh = new Homes;
    if (current.compare_exchange_strong(homes, fresh)) return *fresh;
    delete fresh;
    return *homes;
  }

  // Cheap, since nearly every process has no home.
  static bool is_any_made() { return any_made_.load(std::memory_order_acquire); }

  // `context` is the current one.
  Result<StreamHome*> find_or_add(const CudaApi& api, const CudaContext& context) {
    if (CudaStreamHome* home = find(api, context)) return usable(*home);
    // Creating a home loads a module, which may wait for the device: lookups of other homes do not wait for it.
    const MutexLock making(making_);
    if (CudaStreamHome* home = find(api, context)) return usable(*home);
    any_made_.store(true, std::memory_order_release);
    std::unique_ptr<CudaStreamHome>& made = find_or_begin(api, context);
    const Status status = made->open();
    // Whatever else failed, the next request tries again.
    if (!status.ok() && !status.is(Code::unsupported)) return status;
    const MutexLock lock(mutex_);
    // Frees the homes of destroyed contexts, unless a request was lost there: its memory must stay.
    std::erase_if(homes_, [&](const auto& home) { return home->is_of(api) && home->is_gone() && home->is_idle(); });
    homes_.reserve(homes_.size() + 1);
    homes_.push_back(std::move(made));
    std::erase(unfinished_, nullptr);
    return usable(*homes_.back());
  }

  bool is_any_busy(const CudaApi& api) {
    const MutexLock lock(mutex_);
    return std::any_of(homes_.begin(), homes_.end(), [&](const auto& home) {
      return home->is_of(api) && home->status().ok() && home->fate() == CudaStreamHome::Fate::alive &&
             !home->memory().is_quiet(1);
    });
  }

 private:
  CudaStreamHome* find(const CudaApi& api, const CudaContext& context) {
    const MutexLock lock(mutex_);
    for (const auto& home : homes_) {
      if (home->is_of(api) && home->context() == context && !home->is_gone()) return home.get();
    }
    return nullptr;
  }

  // The home of a context that could not be opened before, or a new one.
  std::unique_ptr<CudaStreamHome>& find_or_begin(const CudaApi& api, const CudaContext& context) REQUIRES(making_) {
    std::erase_if(unfinished_, [&](const auto& home) { return home->is_of(api) && home->is_gone(); });
    for (auto& home : unfinished_) {
      if (home->is_of(api) && home->context() == context) return home;
    }
    return unfinished_.emplace_back(std::make_unique<CudaStreamHome>(api, context));
  }

  static Result<StreamHome*> usable(CudaStreamHome& home) {
    if (!home.status().ok()) return home.status();
    return static_cast<StreamHome*>(&home);
  }

  static inline std::atomic<bool> any_made_{false};
  const std::uint32_t forks_ = fork_count();
  Mutex making_ ACQUIRED_BEFORE(mutex_);
  // They have pinned memory, which stays with their contexts.
  std::vector<std::unique_ptr<CudaStreamHome>> unfinished_ GUARDED_BY(making_);
  Mutex mutex_;
  std::vector<std::unique_ptr<CudaStreamHome>> homes_ GUARDED_BY(mutex_);
};

}  // namespace

CudaStreamHome::CudaStreamHome(const CudaApi& api, const CudaContext& context)
    : StreamHome(this), api_(api), context_(context) {}

// The block comes first: is_gone() asks for it.
Status CudaStreamHome::open() {
  if (own_block_ == nullptr) {
    const Result<StreamBlock*> block = memory().take(0, UINT64_MAX);
    if (!block.ok()) return status_ = block.status();
    own_block_ = *block;
  }
  status_ = load();
  if (status_.ok()) status_ = rehearse();
  return status_;
}

Status CudaStreamHome::load() {
  constexpr const char* kStep = "load the copy kernel for the stream's context";
  const Result<int> ordinal = current_ordinal(api_, kStep);
  if (!ordinal.ok()) return ordinal.status();
  ordinal_ = *ordinal;
  CUresult loaded = CUDA_SUCCESS;
  if (module_ == nullptr) loaded = api_.cuModuleLoadData(&module_, kCopyKernel);
  if (loaded == CUDA_SUCCESS) loaded = api_.cuModuleGetFunction(&copy_, module_, kCopyKernelName);
  return supported_unless(loaded, kStep);
}

// Before CUDA 12.0 only its page-locked memory distinguishes a context from a later one at its address.
CudaStreamHome::Fate CudaStreamHome::fate() const {
  unsigned long long id = 0;
  const CUresult asked = api_.identify(context_.handle, &id);
  if (asked != CUDA_SUCCESS) return is_of_no_context(asked) ? Fate::gone : Fate::lost;
  if (id != context_.id) return Fate::gone;
  if (context_.id != 0 || own_block_ == nullptr) return Fate::alive;
  unsigned type = 0;
  int attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void* value = &type;
  const CUdeviceptr pinned = reinterpret_cast<std::uintptr_t>(&own_block_->word(0));
  const CUresult told = api_.cuPointerGetAttributes(1, &attribute, &value, pinned);
  if (told != CUDA_SUCCESS) return is_of_no_context(told) ? Fate::gone : Fate::lost;
  return type == CU_MEMORYTYPE_HOST ? Fate::alive : Fate::gone;
}

// Launches everything once before any stream is held: the driver may load a kernel only at its first launch, and
// loading waits for the device. This does not wait; it keeps the block.
Status CudaStreamHome::rehearse() {
  constexpr const char* kStep = "try the copy kernel";
  const StreamBlock& block = *own_block_;
  CUstream own = nullptr;
  if (const Status status = cuda_status(api_.cuStreamCreate(&own, CU_STREAM_NON_BLOCKING), kStep); !status.ok()) {
    return status;
  }
  const CUresult launched = launch(own, block, block.copy(0), 1);
  const bool has_calls = api_.cuStreamWaitValue32 != nullptr && api_.cuStreamWriteValue32 != nullptr;
  Status words = has_calls ? wait(own, block, block.word(0), 0) : failure(Code::unsupported, kStep);
  if (words.ok()) words = write(own, block, block.acknowledged(), 0);
  has_words_ = words.ok();
  (void)api_.cuStreamDestroy(own);
  if (words.domain == Domain::driver && words.code == CUDA_ERROR_OUT_OF_MEMORY) return words;
  return supported_unless(launched, kStep);
}

// Asks the driver which GPU has the memory: PointerFacts has a session's number of the GPU, and this object outlives
// sessions.
bool CudaStreamHome::reaches(const PointerFacts&, const void* base) const {
  const CudaAllocation found = find_allocation(api_, base);
  if (found.managed != 0) return true;
  const bool is_near = found.type == CU_MEMORYTYPE_DEVICE && found.ordinal == ordinal_;
  return is_near && (found.context == nullptr || found.context == context_.handle);
}

bool CudaStreamHome::is_through(void* stream) {
  if (api_.cuStreamGetFlags == nullptr || is_default(stream)) return false;
  const ContextScope scope(api_, context_);
  unsigned flags = 0;
  return scope.entered() && api_.cuStreamGetFlags(as_stream(stream), &flags) == CUDA_SUCCESS &&
         (flags & CU_STREAM_NON_BLOCKING) != 0 && api_.cuStreamQuery(as_stream(stream)) == CUDA_SUCCESS;
}

Status CudaStreamHome::call(void* stream, void (*function)(void*), void* argument) {
  return in_context("queue a call on the stream",
                    [&] { return api_.cuLaunchHostFunc(as_stream(stream), function, argument); });
}

CUresult CudaStreamHome::launch(void* stream, const StreamBlock& block, const StreamCopy& what,
                                std::uint64_t size_max) const {
  CUdeviceptr descriptor = block.device_address(&what);
  void* parameters[] = {&descriptor};
  const std::uint64_t blocks = std::clamp<std::uint64_t>(size_max / kBytesOfBlock, 1, kBlocksMax);
  return api_.cuLaunchKernel(copy_, static_cast<unsigned>(blocks), 1, 1, kThreads, 1, 1, 0, as_stream(stream),
                             parameters, nullptr);
}

Status CudaStreamHome::copy(void* stream, const StreamBlock& block, const StreamCopy& what, std::uint64_t size_max) {
  return in_context("queue a copy on the stream", [&] { return launch(stream, block, what, size_max); });
}

// Without pages_context() no pages are lent, and the bytes are in the block.
Status CudaStreamHome::copy_at_once(void* stream, const StreamBlock& block, const StreamCopy& what) {
  if (what.size == 0) return success();
  if (!has_one_address()) return copy(stream, block, what, what.size);
  return in_context("queue a copy on the stream", [&] {
    return api_.cuMemcpyHtoDAsync(what.to, reinterpret_cast<const void*>(what.from), what.size, as_stream(stream));
  });
}

Status CudaStreamHome::wait(void* stream, const StreamBlock& block, const std::uint32_t& word, std::uint32_t value) {
  return in_context("let the stream wait", [&] {
    return api_.cuStreamWaitValue32(as_stream(stream), block.device_address(&word), value, CU_STREAM_WAIT_VALUE_GEQ);
  });
}

Status CudaStreamHome::write(void* stream, const StreamBlock& block, const std::uint32_t& word, std::uint32_t value) {
  return in_context("let the stream report", [&] {
    return api_.cuStreamWriteValue32(as_stream(stream), block.device_address(&word), value,
                                     CU_STREAM_WRITE_VALUE_DEFAULT);
  });
}

void CudaStreamHome::set(std::uint32_t& word, std::uint32_t value) {
  const std::atomic_ref shared(word);
  std::uint32_t now = shared.load(std::memory_order_relaxed);
  while (static_cast<std::int32_t>(value - now) > 0 && !shared.compare_exchange_weak(now, value)) {
  }
  shared.notify_all();
}

Status CudaStreamHome::drain(void* stream) {
  return in_context("wait for the stream", [&] { return api_.cuStreamSynchronize(as_stream(stream)); });
}

Status CudaStreamHome::pin(void* memory, std::size_t size, std::uint64_t& shift) {
  constexpr const char* kStep = "page-lock host memory for the stream";
  const ContextScope scope(api_, context_);
  if (!scope.entered()) return cuda_status(scope.result(), kStep);
  CUdeviceptr address = 0;
  const CUresult registered = api_.cuMemHostRegister(memory, size, CU_MEMHOSTREGISTER_DEVICEMAP);
  if (registered != CUDA_SUCCESS) return register_status(registered, kStep);
  const CUresult found = api_.cuMemHostGetDevicePointer(&address, memory, 0);
  if (found != CUDA_SUCCESS) (void)api_.cuMemHostUnregister(memory);  // The caller unmaps it.
  shift = address - reinterpret_cast<std::uintptr_t>(memory);
  return cuda_status(found, kStep);
}

bool is_any_cuda_stream_busy(const CudaApi& api) {
  return Homes::is_any_made() && Homes::of_process().is_any_busy(api);
}

// Memory from cuMemMap needs this: cuMemUnmap() does not wait, and a stream that then accesses the memory loses the
// context. cuMemFree() of any memory waits for all streams of its context, and does not spoil a capture, as
// cuCtxSynchronize() does (one H100, driver 580, 2026-11-26).
CUresult drain_cuda_streams(const CudaApi& api, const CudaContext& context) {
  const ContextScope scope(api, context);
  if (!scope.entered()) return scope.result();
  CUdeviceptr word = 0;
  const CUresult allocated = api.cuMemAlloc(&word, sizeof(std::uint32_t));
  if (allocated == CUDA_SUCCESS) return api.cuMemFree(word);
  return api.cuCtxSynchronize != nullptr ? api.cuCtxSynchronize() : allocated;
}

Status check_not_captured(const CudaApi& api, CUstream stream) {
  constexpr const char* kStep = "use the stream";
  if (api.cuStreamIsCapturing == nullptr) return failure(Code::unsupported, kStep);
  int status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult asked = api.cuStreamIsCapturing(stream, &status);
  // The default stream takes part in captures of the context's other streams.
  if (asked == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return failure(Code::unsupported, kStep);
  if (asked != CUDA_SUCCESS) return cuda_status(asked, kStep);
  return status == CU_STREAM_CAPTURE_STATUS_NONE ? success() : failure(Code::unsupported, kStep);
}

Result<StreamHome*> find_cuda_stream_home(const CudaApi& api, void* stream) {
  constexpr const char* kStep = "use the stream";
  if (!api.has_streams()) return failure(Code::unsupported, kStep);
  const OutsideCapture outside(api);
  CudaContext context;
  const CUresult found = is_default(stream) ? api.cuCtxGetCurrent(&context.handle)
                                            : api.cuStreamGetCtx(as_stream(stream), &context.handle);
  if (found != CUDA_SUCCESS) return cuda_failure(found, kStep);
  if (context.handle == nullptr) return cuda_failure(CUDA_ERROR_INVALID_CONTEXT, kStep);
  if (api.identify(context.handle, &context.id) != CUDA_SUCCESS) return failure(Code::device_lost, kStep);

  const ContextScope scope(api, context);
  if (!scope.entered()) return cuda_status(scope.result(), kStep);
  if (const Status status = check_not_captured(api, as_stream(stream)); !status.ok()) return status;
  return Homes::of_process().find_or_add(api, context);
}

}  // namespace penstock::core
