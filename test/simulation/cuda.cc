// SPDX-License-Identifier: Apache-2.0

// The CUDA driver of a simulated machine (gpu.h): the calls of device/cuda/cuda_api.h, which the library finds in this
// program. Of a context, a stream and an event it tells as the real one, and it refuses what that refuses.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <utility>

#include "device/cuda/checksum_kernel.h"
#include "device/cuda/copy_kernel.h"
#include "device/cuda/hash_kernel.h"
#include "device/device.h"
#include "simulation/dmabufs.h"
#include "simulation/ends.h"
#include "simulation/gpu.h"
#include "simulation/vendor.h"

namespace penstock::core::cuda {
struct CUctx_st {};
struct CUmod_st {};
struct CUfunc_st {
  const char* name;
  penstock::simulation::GpuWork::Kind kind;
};
struct CUevent_st {
  penstock::simulation::GpuStream* stream = nullptr;
  std::uint64_t target = 0;
};
}  // namespace penstock::core::cuda

namespace {

using namespace penstock;
using namespace penstock::simulation;
using namespace penstock::core::cuda;

constexpr CUresult kNotInitialized = 3, kInvalidDevice = 101, kInvalidHandle = 400, kNotFound = 500,
                   kNotSupported = 801, kNotRegistered = 713;
constexpr Nanoseconds kLookMax = 3000;  // That a question about a stream takes.

CUctx_st context;
CUmod_st module;
CUfunc_st kernels[] = {{core::kScatterKernelName, GpuWork::Kind::scatter},
                       {core::kCopyKernelName, GpuWork::Kind::copy_as_told},
                       {core::kChecksumKernelName, GpuWork::Kind::checksum},
                       {core::kHashKernelName, GpuWork::Kind::hash}};
auto& events = *new std::deque<CUevent_st>;  // They outlive the destructors of exit().

// Of a thread: how often the one context was pushed, and how its captures go on.
thread_local unsigned depth = 0;
thread_local int capture_mode = 0;

// A call that goes to the GPU.
CUresult enter(bool may_be_refused = false) {
  if (ends().is_exiting_here()) scheduler().fail("exit() calls the driver of a GPU");
  if (!gpu().is_there()) return kNotInitialized;
  scheduler().point(Call::ring);
  if (const CUresult error = gpu().trouble(may_be_refused); error != CUDA_SUCCESS) return error;
  return depth > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

// A call that needs no GPU fails only once the driver is shut down.
CUresult look() {
  if (ends().is_exiting_here()) scheduler().fail("exit() calls the driver of a GPU");
  if (!gpu().is_there()) return kNotInitialized;
  return gpu().loss() == CUDA_ERROR_DEINITIALIZED ? CUDA_ERROR_DEINITIALIZED : CUDA_SUCCESS;
}

GpuStream& stream_of(CUstream handle) {
  const bool is_default = reinterpret_cast<std::uintptr_t>(handle) <= 2;
  GpuStream& stream = is_default ? gpu().default_stream() : *reinterpret_cast<GpuStream*>(handle);
  if (stream.is_gone) scheduler().fail("a stream is used that was destroyed");
  return stream;
}

CUresult give(CUstream handle, GpuWork work) {
  gpu().give(stream_of(handle), std::move(work));
  return CUDA_SUCCESS;
}

CUresult give_copy(CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream handle) {
  for (const CUdeviceptr address : {to, from}) {
    if (gpu().owns(address) && !gpu().is_reached(address, size)) return CUDA_ERROR_INVALID_VALUE;
  }
  return give(handle, {.kind = GpuWork::Kind::copy, .to = to, .from = from, .size = size});
}

CUresult give_word(GpuWork::Kind kind, CUstream handle, CUdeviceptr word, std::uint32_t value) {
  if (!gpu().has_words()) return kNotSupported;
  if (word % 4 != 0 || !gpu().is_reached(word, 4)) return CUDA_ERROR_INVALID_VALUE;
  return give(handle, {.kind = kind, .to = word, .value = value});
}

CUresult is_through(const GpuStream& stream, std::uint64_t target) {
  scheduler().spend(scheduler().random().below(kLookMax));
  return stream.landed >= target ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult wait_for(const GpuStream& stream, std::uint64_t target) {
  gpu().wait_for(stream, target);
  return gpu().loss();
}

CUresult open_stream(CUstream* made, unsigned flags) {
  if (const CUresult error = enter(true); error != CUDA_SUCCESS) return error;
  *made = reinterpret_cast<CUstream>(gpu().open_stream((flags & CU_STREAM_NON_BLOCKING) == 0));
  return CUDA_SUCCESS;
}

std::uint64_t address_of(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

void tell(int attribute, void* value, CUdeviceptr wanted) {
  const auto found = gpu().find(wanted);
  const bool is_known = gpu().knows(found);
  const auto put = [&](auto told) { std::memcpy(value, &told, sizeof told); };
  const unsigned type = !is_known ? 0 : found->second.is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: return put(is_known ? &context : nullptr);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: return put(type);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return put(std::uint8_t{0});
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return put(is_known ? 0 : -2);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return put(is_known ? found->first : 0);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return put(is_known ? found->second.size : 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: return put(is_known ? found->second.number : 0);
    default: return put(std::uint64_t{0});
  }
}

}  // namespace

extern "C" {

// The library looks for drivers and for NVIDIA's libcufile here: a machine that has them is not to be seen.
void* dlopen(const char* name, int flags) {
  static const auto really = REAL(dlopen);
  if (name == nullptr) return really(nullptr, flags);
  const bool is_driver = std::strcmp(name, kDriverLibrary) == 0;
  if (is_driver && gpu().is_there()) return really(nullptr, flags);
  // Its calls of the C library come to the simulation first.
  const bool is_vendors = vendor().is_there() && std::strcmp(name, Vendor::library()) == 0;
  return is_vendors ? really(name, flags & ~RTLD_DEEPBIND) : really("/none", flags);
}

}  // extern "C"

#define CALL(name, ...) extern "C" [[gnu::visibility("default")]] CUresult name(__VA_ARGS__)
#define LOOK \
  if (const CUresult refused = look()) return refused
#define ENTER(may_be_refused) \
  if (const CUresult refused = enter(may_be_refused)) return refused

// A table of calls: kept dense, to be read as one.
// clang-format off
CALL(cuInit, unsigned) { LOOK; return 0; }
CALL(cuGetErrorName, CUresult result, const char** name) {
  *name = result == CUDA_ERROR_NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR"; return 0;
}
CALL(cuGetErrorString, CUresult, const char** text) { *text = "as the simulation has it"; return 0; }
CALL(cuDeviceGetCount, int* count) { LOOK; *count = 1; return 0; }
CALL(cuDeviceGet, CUdevice* device, int ordinal) { LOOK; *device = ordinal; return ordinal == 0 ? 0 : kInvalidDevice; }
CALL(cuDeviceGetName, char* name, int, CUdevice) { LOOK; std::strcpy(name, "NVIDIA H100 simulated"); return 0; }
CALL(cuDeviceGetUuid_v2, char* uuid, CUdevice) { LOOK; std::memset(uuid, 0x77, 16); return 0; }
CALL(cuDeviceGetPCIBusId, char* id, int, CUdevice) { LOOK; std::strcpy(id, "00000000:AB:00.0"); return 0; }
CALL(cuDeviceTotalMem_v2, std::size_t* bytes, CUdevice) { LOOK; *bytes = std::size_t{8} << 30; return 0; }
CALL(cuDeviceGetAttribute, int* value, int attribute, CUdevice) {
  LOOK;
  constexpr int kHas[] = {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED,
                          CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
                          CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS};
  const bool is_about_addresses = attribute == CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM;
  *value = is_about_addresses ? gpu().has_one_address_space()
                              : std::find(std::begin(kHas), std::end(kHas), attribute) != std::end(kHas);
  return 0;
}

CALL(cuDevicePrimaryCtxRetain, CUcontext* made, CUdevice) {
  LOOK; *made = &context; return gpu().loss();
}
CALL(cuCtxGetId, CUcontext, unsigned long long* id) { LOOK; *id = 1; return 0; }
CALL(cuCtxGetCurrent, CUcontext* current) { LOOK; *current = depth > 0 ? &context : nullptr; return 0; }
CALL(cuCtxPushCurrent_v2, CUcontext) { LOOK; ++depth; return 0; }
CALL(cuCtxPopCurrent_v2, CUcontext* popped) {
  LOOK; if (depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  --depth; *popped = &context; return 0;
}
CALL(cuCtxGetApiVersion, CUcontext, unsigned* version) { LOOK; *version = 13000; return 0; }
CALL(cuCtxGetDevice, CUdevice* device) { LOOK; *device = 0; return depth > 0 ? 0 : CUDA_ERROR_INVALID_CONTEXT; }
CALL(cuCtxGetStreamPriorityRange, int* least, int* greatest) { LOOK; *least = 0; *greatest = -5; return 0; }
CALL(cuThreadExchangeStreamCaptureMode, int* mode) { std::swap(*mode, capture_mode); return 0; }
CALL(cuPointerSetAttribute, const void*, int, CUdeviceptr) { ENTER(false); return 0; }

CALL(cuMemAlloc_v2, CUdeviceptr* made, std::size_t size) {
  ENTER(true); *made = gpu().allocate(size); return *made != 0 ? 0 : 2;
}
// Waits for all streams of the context, those that have nothing to do with the memory too.
CALL(cuMemFree_v2, CUdeviceptr memory) {
  ENTER(false);
  gpu().wait_for_all();
  if (gpu().is_lost()) return gpu().loss();
  return gpu().free(memory) ? 0 : CUDA_ERROR_INVALID_VALUE;
}
CALL(cuMemHostRegister_v2, void* memory, std::size_t size, unsigned flags) {
  ENTER(true); return gpu().add_host(memory, size, (flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0);
}
CALL(cuMemHostUnregister, void* memory) {
  ENTER(false);
  if (!gpu().remove_host(memory)) return kNotRegistered;
  gpu().wait_for_held();
  return gpu().loss();
}
CALL(cuMemHostGetDevicePointer_v2, CUdeviceptr* on_device, void* host, unsigned) {
  ENTER(true);
  *on_device = address_of(host);
  return gpu().knows(gpu().find(*on_device)) ? 0 : CUDA_ERROR_INVALID_VALUE;
}
CALL(cuMemGetHandleForAddressRange, void* made, CUdeviceptr memory, std::size_t size, int type, unsigned long long) {
  ENTER(true);
  const int fd = type == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD ? dmabufs().export_memory(memory, size) : -1;
  std::memcpy(made, &fd, sizeof fd);
  return fd >= 0 ? 0 : kNotSupported;
}
// It may tell of an error that came before, as the real one.
CALL(cuPointerGetAttributes, unsigned count, int* attributes, void** values, CUdeviceptr wanted) {
  LOOK;
  scheduler().point(Call::ring);
  if (gpu().is_lost() && !gpu().tells_of_memory_when_lost()) return gpu().loss();
  for (unsigned i = 0; i < count; ++i) tell(attributes[i], values[i], wanted);
  return 0;
}

CALL(cuMemcpyHtoDAsync_v2, CUdeviceptr to, const void* from, std::size_t size, CUstream stream) {
  ENTER(true); return gpu().owns(to) ? give_copy(to, address_of(from), size, stream) : CUDA_ERROR_INVALID_VALUE;
}
CALL(cuMemcpyDtoHAsync_v2, void* to, CUdeviceptr from, std::size_t size, CUstream stream) {
  ENTER(true); return gpu().owns(from) ? give_copy(address_of(to), from, size, stream) : CUDA_ERROR_INVALID_VALUE;
}
CALL(cuMemcpyDtoDAsync_v2, CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream stream) {
  ENTER(true);
  return gpu().owns(to) && gpu().owns(from) ? give_copy(to, from, size, stream) : CUDA_ERROR_INVALID_VALUE;
}

CALL(cuStreamCreate, CUstream* made, unsigned flags) { return open_stream(made, flags); }
CALL(cuStreamCreateWithPriority, CUstream* made, unsigned flags, int) { return open_stream(made, flags); }
CALL(cuStreamQuery, CUstream handle) {
  ENTER(false); const GpuStream& stream = stream_of(handle); return is_through(stream, stream.end());
}
CALL(cuStreamSynchronize, CUstream handle) {
  ENTER(false); const GpuStream& stream = stream_of(handle); return wait_for(stream, stream.end());
}
CALL(cuStreamDestroy_v2, CUstream handle) { ENTER(false); stream_of(handle).is_gone = true; return 0; }
CALL(cuStreamGetCtx, CUstream handle, CUcontext* made) { LOOK; stream_of(handle); *made = &context; return 0; }
CALL(cuStreamIsCapturing, CUstream, int* status) { ENTER(false); *status = 0; return 0; }
CALL(cuStreamGetFlags, CUstream handle, unsigned* flags) {
  LOOK; *flags = stream_of(handle).waits_for_default ? 0 : CU_STREAM_NON_BLOCKING; return 0;
}
CALL(cuLaunchHostFunc, CUstream handle, void (*function)(void*), void* argument) {
  ENTER(false);
  return give(handle, {.kind = GpuWork::Kind::call, .function = function, .argument = argument});
}
CALL(cuStreamWaitValue32_v2, CUstream handle, CUdeviceptr word, std::uint32_t value, unsigned) {
  ENTER(false); return give_word(GpuWork::Kind::wait, handle, word, value);
}
CALL(cuStreamWriteValue32_v2, CUstream handle, CUdeviceptr word, std::uint32_t value, unsigned) {
  ENTER(false); return give_word(GpuWork::Kind::write, handle, word, value);
}
CALL(cuStreamWaitEvent, CUstream handle, CUevent event, unsigned) {
  ENTER(false);
  GpuWork work;
  if (event->stream != nullptr) work.after.emplace_back(event->stream, event->target);
  return give(handle, std::move(work));
}

// Loading waits for every stream that is held.
CALL(cuModuleLoadData, CUmodule* made, const void*) {
  ENTER(true); gpu().wait_for_held(); *made = &module; return gpu().loss();
}
CALL(cuModuleGetFunction, CUfunction* function, CUmodule, const char* name) {
  ENTER(false);
  for (CUfunc_st& kernel : kernels) if (std::strcmp(kernel.name, name) == 0) { *function = &kernel; return 0; }
  return kNotFound;
}
CALL(cuLaunchKernel, CUfunction function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
     unsigned, CUstream stream, void** parameters, void**) {
  ENTER(true);
  if (blocks == 0 || threads == 0 || threads > 1024) return CUDA_ERROR_INVALID_VALUE;
  GpuWork work{.kind = function->kind};
  if (work.kind == GpuWork::Kind::scatter) {
    const auto* const pieces = static_cast<const core::ScatterList*>(parameters[0])->pieces;
    work.pieces = {pieces, pieces + blocks};
    work.end = *static_cast<const core::ScatterEnd*>(parameters[1]);
  } else {
    work.to = work.from = *static_cast<CUdeviceptr*>(parameters[0]);
    work.size = blocks * sizeof(core::ChecksumBlock);
  }
  return give(stream, std::move(work));
}

CALL(cuEventCreate, CUevent* event, unsigned) { ENTER(true); *event = &events.emplace_back(); return 0; }
CALL(cuEventRecord, CUevent event, CUstream handle) {
  ENTER(false);
  GpuStream& stream = stream_of(handle);
  if (stream.is_default) gpu().give(stream, {});  // Behind the other streams.
  *event = {&stream, stream.end()};
  return 0;
}
CALL(cuEventQuery, CUevent event) {
  ENTER(false); return event->stream == nullptr ? 0 : is_through(*event->stream, event->target);
}
CALL(cuEventSynchronize, CUevent event) {
  ENTER(false); return event->stream == nullptr ? 0 : wait_for(*event->stream, event->target);
}
CALL(cuEventDestroy_v2, CUevent) { ENTER(false); return 0; }
// clang-format on
