// SPDX-License-Identifier: Apache-2.0

// Streams, events, kernels, and what is queued on them.
#include <cstdlib>
#include <cstring>
#include <utility>

#include "device/device.h"
#include "fakes/fake_cuda/driver_state.h"

namespace penstock::core::cuda {
struct CUmod_st {};
struct CUfunc_st {};
}  // namespace penstock::core::cuda

namespace penstock::fake_cuda {
namespace {

#ifdef PENSTOCK_FAKE_CUDA_11
constexpr bool kOld = true;
#else
constexpr bool kOld = false;
#endif

// A copy between the host and memory of the stream's own GPU.
CUresult queue_on_device(CUdeviceptr on_device, Work work, CUstream handle) {
  CUresult result = CUDA_SUCCESS;
  const CUstream stream = resolve(handle, result);
  if (stream == nullptr) return result;
  const auto block = find(on_device);
  if (block == driver().blocks.end() || on_device + work.size > block->first + block->second.mapped)
    return CUDA_ERROR_INVALID_VALUE;
  if (block->second.device != stream->owner.context->device) return CUDA_ERROR_INVALID_VALUE;
  return enqueue(handle, std::move(work));
}

CUresult make_stream(CUstream* made, unsigned flags, int priority) {
  REQUIRE(need_context());
  REQUIRE(need_memory());
  *made = &driver().streams.emplace_back(CUstream_st{
      .owner = {current(), current()->id}, .blocking = (flags & CU_STREAM_NON_BLOCKING) == 0, .priority = priority});
  return CUDA_SUCCESS;
}

CUresult queue_word(Work::Kind kind, CUstream stream, CUdeviceptr word, std::uint32_t value) {
  const char* allowed = std::getenv("PENSTOCK_FAKE_CUDA_WORDS");
  if (kOld || (allowed != nullptr && *allowed == '0')) return kNotSupported;
  const auto block = find(word);
  if (word % 4 != 0 || block == driver().blocks.end() || block->second.mapped == 0) return CUDA_ERROR_INVALID_VALUE;
  return enqueue(stream, {.kind = kind, .to = word, .value = value});
}

CUmod_st module;
CUfunc_st copy_kernel;
CUfunc_st scatter_kernel;
CUfunc_st checksum_kernel;
CUfunc_st hash_kernel;

CUresult launch_scatter(unsigned pieces, CUstream stream, void** parameters) {
  const auto* all = static_cast<const ScatterList*>(parameters[0])->pieces;
  Work work{.kind = Work::Kind::scatter, .pieces = {all, all + pieces}};
  work.end = *static_cast<const core::ScatterEnd*>(parameters[1]);
  ++driver().scatters;
  return enqueue(stream, std::move(work));
}

CUresult launch_checksum(bool hashed, unsigned blocks, CUstream stream, void** parameters) {
  ++driver().checksums;
  const auto at = *static_cast<CUdeviceptr*>(parameters[0]);
  const std::size_t size = blocks * sizeof(core::ChecksumBlock);
  return enqueue(stream, {.kind = Work::Kind::checksum, .to = at, .size = size, .value = hashed});
}

const std::pair<const char*, CUfunction> kKernels[] = {{kScatterKernelName, &scatter_kernel},
                                                       {"penstock_copy", &copy_kernel},
                                                       {"penstock_crc32c", &checksum_kernel},
                                                       {"penstock_hash64", &hash_kernel}};

}  // namespace
}  // namespace penstock::fake_cuda

using namespace penstock::fake_cuda;

// A table of calls: kept dense, to be read as one.
// clang-format off
CALL(cuMemcpyHtoDAsync_v2, CUdeviceptr to, const void* from, std::size_t size, CUstream stream) {
  ENTER; return queue_on_device(
    to, {.kind = Work::Kind::copy, .to = to, .from = address(from), .size = size, .to_device = true}, stream);
}
CALL(cuMemcpyDtoHAsync_v2, void* to, CUdeviceptr from, std::size_t size, CUstream stream) {
  ENTER;
  return queue_on_device(from, {.kind = Work::Kind::copy, .to = address(to), .from = from, .size = size}, stream);
}
CALL(cuMemcpyDtoDAsync_v2, CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream stream) {
  ENTER;
  const auto block = find(from);
  const bool is_there = block != driver().blocks.end() && from + size <= block->first + block->second.mapped;
  REQUIRE(is_there ? 0 : CUDA_ERROR_INVALID_VALUE);
  return queue_on_device(to, {.kind = Work::Kind::copy, .to = to, .from = from, .size = size, .to_device = true},
                         stream);
}
CALL(cuMemsetD8Async, CUdeviceptr to, unsigned char value, std::size_t size, CUstream stream) {
  ENTER; return queue_on_device(to, {.kind = Work::Kind::fill, .to = to, .size = size, .value = value}, stream);
}
CALL(cuStreamCreate, CUstream* stream, unsigned flags) { ENTER; return make_stream(stream, flags, 0); }
CALL(cuStreamCreateWithPriority, CUstream* stream, unsigned flags, int priority) {
  ENTER; return make_stream(stream, flags, priority);
}
CALL(cuStreamGetPriority, CUstream stream, int* priority) {
  ENTER; REQUIRE(check(stream->owner)); *priority = stream->priority; return 0;
}
CALL(cuStreamGetCtx, CUstream handle, CUcontext* context) {
  ENTER;
  if (reinterpret_cast<std::uintptr_t>(handle) <= 2) { REQUIRE(need_context()); *context = current(); return 0; }
  if (!handle->owner.context->alive && driver().last_id > handle->owner.id) std::abort();
  *context = handle->owner.context; return 0;
}
CALL(cuStreamGetFlags, CUstream stream, unsigned* flags) {
  ENTER; REQUIRE(check(stream->owner)); *flags = stream->blocking ? 0 : CU_STREAM_NON_BLOCKING; return 0;
}
CALL(cuStreamQuery, CUstream handle) {
  ENTER; REQUIRE(outside_capture()); CUresult result = 0; const CUstream stream = resolve(handle, result);
  if (stream == nullptr) return result;
  if (stream->pending.empty()) return 0;
  return step(stream), CUDA_ERROR_NOT_READY;
}
CALL(cuStreamSynchronize, CUstream handle) {
  ENTER; REQUIRE(outside_capture()); CUresult result = 0; const CUstream stream = resolve(handle, result);
  if (stream == nullptr) return result;
  if (stream->capturing) return driver().spoiled = true, kCapturing;
  if (reinterpret_cast<std::uintptr_t>(handle) < 2) REQUIRE(enqueue(handle, {}));  // Behind the other streams.
  return drive(stream, stream->end(), lock), 0;
}
CALL(cuStreamDestroy_v2, CUstream stream) { ENTER; return check(stream->owner); }
CALL(cuStreamWaitEvent, CUstream stream, CUevent event, unsigned) {
  ENTER; if (event->stream == nullptr) return 0;
  return enqueue(stream, {.after = {{event->stream, event->target}}});
}
CALL(cuLaunchHostFunc, CUstream stream, void (*function)(void*), void* argument) {
  ENTER; return enqueue(stream, {.kind = Work::Kind::call, .to = address(argument), .function = function});
}
// Drivers of CUDA 11.4 know the first version, which nobody allowed.
#ifdef PENSTOCK_FAKE_CUDA_11
#define cuStreamWaitValue32_v2 cuStreamWaitValue32
#define cuStreamWriteValue32_v2 cuStreamWriteValue32
#endif
CALL(cuStreamWaitValue32_v2, CUstream stream, CUdeviceptr word, std::uint32_t value, unsigned flags) {
  ENTER; if (flags != CU_STREAM_WAIT_VALUE_GEQ) return kNotSupported;
  return queue_word(Work::Kind::wait, stream, word, value);
}
CALL(cuStreamWriteValue32_v2, CUstream stream, CUdeviceptr word, std::uint32_t value, unsigned) {
  ENTER; return queue_word(Work::Kind::write, stream, word, value);
}
CALL(fake_cuda_refuse_modules, int refused) {
  const std::unique_lock lock(driver().mutex); driver().modules_refused = refused != 0; return 0;
}
CALL(fake_cuda_scatters) { const std::unique_lock lock(driver().mutex); return driver().scatters; }
CALL(fake_cuda_lookups) { const std::unique_lock lock(driver().mutex); return driver().lookups; }
CALL(fake_cuda_checksums) { const std::unique_lock lock(driver().mutex); return driver().checksums; }
CALL(cuModuleLoadData, CUmodule* made, const void* image) {
  ENTER; REQUIRE(outside_capture()); REQUIRE(need_context()); REQUIRE(need_memory());
  if (driver().modules_refused) return kNotSupported;
  *made = &module;
  return std::strstr(static_cast<const char*>(image), ".version") != nullptr ? 0 : 218;  // Invalid PTX.
}
CALL(cuModuleGetFunction, CUfunction* function, CUmodule, const char* name) {
  ENTER; REQUIRE(need_memory());
  for (const auto& [known, kernel] : kKernels) if (std::strcmp(name, known) == 0) { *function = kernel; return 0; }
  return kNotFound;
}
CALL(cuLaunchKernel, CUfunction function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
     unsigned, CUstream stream, void** parameters, void**) {
  ENTER; if (blocks == 0 || threads == 0 || threads > 1024) return CUDA_ERROR_INVALID_VALUE;
  if (function == &scatter_kernel) return launch_scatter(blocks, stream, parameters);
  if (function == &checksum_kernel) return launch_checksum(false, blocks, stream, parameters);
  if (function == &hash_kernel) return launch_checksum(true, blocks, stream, parameters);
  const CUdeviceptr descriptor = *static_cast<CUdeviceptr*>(parameters[0]);
  REQUIRE(find(descriptor) == driver().blocks.end() ? CUDA_ERROR_INVALID_VALUE : 0);
  return enqueue(stream, {.kind = Work::Kind::kernel, .from = descriptor});
}
CALL(cuEventCreate, CUevent* event, unsigned) {
  ENTER; REQUIRE(need_context());
  *event = &driver().events.emplace_back(CUevent_st{.owner = {current(), current()->id}}); return 0;
}
CALL(cuEventRecord, CUevent event, CUstream handle) {
  ENTER; REQUIRE(check(event->owner)); CUresult result = 0; const CUstream stream = resolve(handle, result);
  if (stream == nullptr) return result;
  if (reinterpret_cast<std::uintptr_t>(handle) < 2) REQUIRE(enqueue(handle, {}));  // Behind the other streams.
  event->stream = stream; event->target = stream->end(); return 0;
}
CALL(cuEventQuery, CUevent event) {
  ENTER; REQUIRE(outside_capture()); REQUIRE(check(event->owner));
  if (event->stream == nullptr || event->stream->landed >= event->target) return 0;
  return step(event->stream), CUDA_ERROR_NOT_READY;
}
CALL(cuEventSynchronize, CUevent event) {
  ENTER; REQUIRE(outside_capture()); REQUIRE(check(event->owner));
  if (event->stream != nullptr) drive(event->stream, event->target, lock);
  return 0;
}
CALL(cuEventDestroy_v2, CUevent event) { ENTER; return check(event->owner); }
// clang-format on
