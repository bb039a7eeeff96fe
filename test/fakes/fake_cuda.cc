// A CUDA driver without a GPU: the calls of device/cuda_api.h and those its test makes, over plain memory, as a shared
// library to be opened in place of libcuda.so.1. It is stricter than the real one where that is lenient:
// - a copy lands only when its event or stream is waited for, or one for each query;
// - a stream or event is used with its own context current, and copies to memory of its own GPU only;
// - using one whose context is gone aborts once another context was made, where the real driver crashes;
// - while a graph is captured, what the real driver refuses is refused, and spoils the capture.
// Built with PENSTOCK_FAKE_CUDA_11 it lacks what drivers before CUDA 12 lack. The variable PENSTOCK_FAKE_CUDA_INIT
// gives the result of cuInit; fake_cuda_shut_down() is what the end of the process does to a real driver.
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <vector>

#include "device/cuda_api.h"

using namespace penstock::core::cuda;

struct penstock::core::cuda::CUctx_st {
  unsigned long long id;
  int device;
  bool alive;
};
struct Owned {
  CUcontext context;
  unsigned long long id;
};  // What a stream or event keeps of its context.
struct Copy {
  void* to;
  const void* from;
  std::size_t size;
};
struct penstock::core::cuda::CUstream_st {
  Owned owner;
  std::deque<Copy> pending;
  std::size_t landed;
};
struct penstock::core::cuda::CUevent_st {
  Owned owner;
  CUstream stream;
  std::size_t target;
};

namespace {

struct Block {
  std::size_t size;
  CUcontext context;
  int device;
  unsigned type;
  unsigned managed;
  std::size_t mapped;
};
constexpr int kDevices = 2;
constexpr CUresult kCapturing = 900, kCaptureSpoiled = 901, kAlreadyRegistered = 712, kNotRegistered = 713;

struct World {
  std::recursive_mutex mutex;
  CUctx_st contexts[16] = {};  // The first of them are the primary ones.
  unsigned long long last_id = 0;
  std::map<CUdeviceptr, Block> blocks;
  std::deque<CUstream_st> streams;  // Never shrink: a stale handle must stay readable for us to notice it.
  std::deque<CUevent_st> events;
  bool down = false, capturing = false, spoiled = false;
};
World& world() {
  static World* const one = new World;
  return *one;
}
thread_local std::vector<CUcontext> stack;
thread_local int capture_mode = 0;

CUcontext current() { return stack.empty() ? nullptr : stack.back(); }
CUresult check(const Owned& owner) {
  const bool alive = owner.context->alive && owner.context->id == owner.id;
  if (!alive && world().last_id > owner.id) std::abort();
  if (!alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return current() == owner.context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
CUresult outside_capture() {
  if (!world().capturing || capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  world().spoiled = true;
  return kCapturing;
}
CUresult need_context() {
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return current()->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}
void land(CUstream stream, std::size_t target) {
  for (; stream->landed < target; ++stream->landed, stream->pending.pop_front()) {
    std::memcpy(stream->pending.front().to, stream->pending.front().from, stream->pending.front().size);
  }
}
auto find(CUdeviceptr address) {
  auto after = world().blocks.upper_bound(address);
  if (after == world().blocks.begin()) return world().blocks.end();
  --after;
  return address - after->first < after->second.size ? after : world().blocks.end();
}
CUresult add(CUdeviceptr* address, std::size_t size, Block block) {
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  void* const memory = size >> 46 ? nullptr : std::calloc(1, size);
  if (memory == nullptr) return 2;
  world().blocks[*address = reinterpret_cast<CUdeviceptr>(memory)] = block;
  return CUDA_SUCCESS;
}
CUresult queue(CUdeviceptr device_side, const Copy& copy, CUstream stream) {
  if (const CUresult result = check(stream->owner)) return result;
  const auto block = find(device_side);
  if (block == world().blocks.end() || device_side + copy.size > block->first + block->second.mapped)
    return CUDA_ERROR_INVALID_VALUE;
  if (block->second.device != stream->owner.context->device) return CUDA_ERROR_INVALID_VALUE;
  stream->pending.push_back(copy);
  return CUDA_SUCCESS;
}
// Memory of the current context, as the driver tells it.
Block here(std::size_t size, unsigned type, unsigned managed = 0) {
  return {size, current(), current()->device, type, managed, size};
}
CUcontext revive(CUcontext context, int device) {
  *context = {++world().last_id, device, true};
  return context;
}
void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

}  // namespace

// A table of calls: kept dense, to be read as one.
// clang-format off
#define CALL(name, ...) extern "C" [[gnu::visibility("default")]] CUresult name(__VA_ARGS__)
#define ENTER const std::lock_guard lock(world().mutex); if (world().down) return CUDA_ERROR_DEINITIALIZED
#define REQUIRE(call) if (const CUresult required = (call)) return required

CALL(fake_cuda_shut_down) { world().down = true; return 0; }
CALL(cuInit, unsigned) {
  ENTER; const char* result = std::getenv("PENSTOCK_FAKE_CUDA_INIT"); return result ? std::atoi(result) : 0;
}
CALL(cuGetErrorName, CUresult result, const char** name) {
  *name = result == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR"; return 0;
}
CALL(cuGetErrorString, CUresult, const char** text) { *text = "as the fake driver was told"; return 0; }
CALL(cuDeviceGetCount, int* count) { ENTER; *count = kDevices; return 0; }
CALL(cuDeviceGet, CUdevice* device, int ordinal) { ENTER; *device = ordinal; return ordinal < kDevices ? 0 : 101; }
CALL(cuDeviceGetName, char* name, int, CUdevice) { ENTER; std::strcpy(name, "Fake GPU"); return 0; }
CALL(cuDeviceGetPCIBusId, char* id, int, CUdevice device) {
  ENTER; std::strcpy(id, device ? "00000000:AC:00.0" : "0000:AB:00.0"); return 0;
}
CALL(cuDeviceTotalMem_v2, std::size_t* bytes, CUdevice) { ENTER; *bytes = std::size_t{8} << 30; return 0; }
CALL(cuDevicePrimaryCtxRetain, CUcontext* context, CUdevice device) {
  ENTER; *context = &world().contexts[device]; if (!(*context)->alive) revive(*context, device); return 0;
}
CALL(cuDevicePrimaryCtxReset_v2, CUdevice device) { ENTER; world().contexts[device].alive = false; return 0; }
CALL(cuCtxCreate_v2, CUcontext* context, unsigned, CUdevice device) {
  ENTER;
  for (CUctx_st* slot = world().contexts + kDevices; slot != std::end(world().contexts); ++slot) {
    if (!slot->alive) return stack.push_back(*context = revive(slot, device)), 0;
  }
  return 2;
}
CALL(cuCtxDestroy_v2, CUcontext context) {
  ENTER; context->alive = false;
  std::erase_if(world().blocks, [&](const auto& each) {
    const bool gone = each.second.context == context;
    if (gone && each.second.type == CU_MEMORYTYPE_DEVICE) std::free(pointer(each.first));
    return gone;
  });
  if (current() == context) stack.pop_back();
  return 0;
}
CALL(cuCtxGetCurrent, CUcontext* context) { ENTER; *context = current(); return 0; }
CALL(cuCtxPushCurrent_v2, CUcontext context) { ENTER; stack.push_back(context); return 0; }
CALL(cuCtxPopCurrent_v2, CUcontext* context) { ENTER; *context = current(); stack.pop_back(); return 0; }
CALL(cuCtxGetApiVersion, CUcontext context, unsigned* version) {
  ENTER; *version = 3020; return context->alive ? 0 : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}
#ifdef PENSTOCK_FAKE_CUDA_11
CALL(cuDeviceGetUuid, char* uuid, CUdevice device) { ENTER; std::memset(uuid, 0x11 + device, 16); return 0; }
#else
CALL(cuDeviceGetUuid_v2, char* uuid, CUdevice device) { ENTER; std::memset(uuid, 0x11 + device, 16); return 0; }
CALL(cuCtxGetId, CUcontext context, unsigned long long* id) {
  ENTER; *id = context->id; return context->alive ? 0 : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}
#endif
CALL(cuThreadExchangeStreamCaptureMode, int* mode) { std::swap(*mode, capture_mode); return 0; }
CALL(cuStreamBeginCapture_v2, CUstream, int) { ENTER; world().capturing = true; world().spoiled = false; return 0; }
CALL(cuStreamEndCapture, CUstream, void**) {
  ENTER; world().capturing = false; return world().spoiled ? kCaptureSpoiled : 0;
}
CALL(cuMemAlloc_v2, CUdeviceptr* address, std::size_t size) {
  ENTER; REQUIRE(outside_capture()); REQUIRE(need_context());
  return add(address, size, here(size, CU_MEMORYTYPE_DEVICE));
}
CALL(cuMemAllocManaged, CUdeviceptr* address, std::size_t size, unsigned) {
  ENTER; REQUIRE(need_context()); return add(address, size, here(size, CU_MEMORYTYPE_DEVICE, 1));
}
CALL(cuMemHostAlloc, CUdeviceptr* address, std::size_t size, unsigned) {
  ENTER; REQUIRE(need_context()); return add(address, size, here(size, CU_MEMORYTYPE_HOST));
}
CALL(cuMemAllocAsync, CUdeviceptr* address, std::size_t size, CUstream stream) {
  ENTER; return add(address, size, {size, nullptr, stream->owner.context->device, CU_MEMORYTYPE_DEVICE, 0, size});
}
CALL(cuMemAddressReserve, CUdeviceptr* address, std::size_t size, std::size_t, CUdeviceptr, unsigned long long) {
  ENTER; return add(address, size, {size, nullptr, -2, CU_MEMORYTYPE_DEVICE, 0, 0});
}
CALL(cuMemCreate, unsigned long long* handle, std::size_t, const int* properties, unsigned long long) {
  ENTER; *handle = static_cast<unsigned long long>(properties[3]); return 0;
}
CALL(cuMemMap, CUdeviceptr address, std::size_t size, std::size_t, unsigned long long handle, unsigned long long) {
  ENTER; auto& block = world().blocks.at(address); block.mapped = size; block.device = static_cast<int>(handle);
  return 0;
}
CALL(cuMemSetAccess, CUdeviceptr, std::size_t, const int*, std::size_t) { ENTER; return 0; }
CALL(cuMemFree_v2, CUdeviceptr address) {
  ENTER; REQUIRE(outside_capture());
  return world().blocks.erase(address) ? (std::free(pointer(address)), 0) : CUDA_ERROR_INVALID_VALUE;
}
CALL(cuMemFreeHost, CUdeviceptr address) { return cuMemFree_v2(address); }
CALL(cuMemHostRegister_v2, CUdeviceptr address, std::size_t size, unsigned) {
  ENTER; REQUIRE(outside_capture()); REQUIRE(need_context());
  return world().blocks.insert({address, here(size, CU_MEMORYTYPE_HOST)}).second ? 0 : kAlreadyRegistered;
}
CALL(cuMemHostUnregister, CUdeviceptr address) {
  ENTER; REQUIRE(outside_capture()); return world().blocks.erase(address) ? 0 : kNotRegistered;
}
CALL(cuPointerGetAttributes, unsigned count, int* attributes, void** values, CUdeviceptr address) {
  ENTER;
  const auto found = find(address);
  const bool known = found != world().blocks.end();
  Block block = known ? found->second : Block{0, nullptr, -2, 0, 0, 0};
  const CUdeviceptr base = known ? found->first : 0;
  if (address - base >= block.mapped) block.context = nullptr, block.device = -2, block.type = 0;
  const std::map<int, std::pair<const void*, std::size_t>> answers = {
      {CU_POINTER_ATTRIBUTE_CONTEXT, {&block.context, 8}}, {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, {&block.type, 4}},
      {CU_POINTER_ATTRIBUTE_IS_MANAGED, {&block.managed, 1}}, {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, {&block.device, 4}},
      {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, {&base, 8}}, {CU_POINTER_ATTRIBUTE_RANGE_SIZE, {&block.size, 8}}};
  for (unsigned i = 0; i < count; ++i) {
    const auto& [value, bytes] = answers.at(attributes[i]);
    std::memcpy(values[i], value, bytes);
  }
  return 0;
}
CALL(cuMemcpyHtoDAsync_v2, CUdeviceptr to, const void* from, std::size_t size, CUstream stream) {
  ENTER; return queue(to, {pointer(to), from, size}, stream);
}
CALL(cuMemcpyDtoHAsync_v2, void* to, CUdeviceptr from, std::size_t size, CUstream stream) {
  ENTER; return queue(from, {to, pointer(from), size}, stream);
}
CALL(cuStreamCreate, CUstream* stream, unsigned) {
  ENTER; REQUIRE(need_context());
  *stream = &world().streams.emplace_back(CUstream_st{{current(), current()->id}, {}, 0}); return 0;
}
CALL(cuStreamSynchronize, CUstream stream) {
  ENTER; REQUIRE(outside_capture()); REQUIRE(check(stream->owner));
  return land(stream, stream->landed + stream->pending.size()), 0;
}
CALL(cuStreamDestroy_v2, CUstream stream) { ENTER; return check(stream->owner); }
CALL(cuEventCreate, CUevent* event, unsigned) {
  ENTER; REQUIRE(need_context());
  *event = &world().events.emplace_back(CUevent_st{{current(), current()->id}, nullptr, 0}); return 0;
}
CALL(cuEventRecord, CUevent event, CUstream stream) {
  ENTER; REQUIRE(check(event->owner)); REQUIRE(check(stream->owner)); event->stream = stream;
  event->target = stream->landed + stream->pending.size(); return 0;
}
CALL(cuEventQuery, CUevent event) {
  ENTER;
  REQUIRE(outside_capture());
  REQUIRE(check(event->owner));
  if (event->stream == nullptr || event->stream->landed >= event->target) return 0;
  return land(event->stream, event->stream->landed + 1), CUDA_ERROR_NOT_READY;
}
CALL(cuEventSynchronize, CUevent event) {
  ENTER; REQUIRE(outside_capture()); REQUIRE(check(event->owner));
  if (event->stream != nullptr) land(event->stream, event->target);
  return 0;
}
CALL(cuEventDestroy_v2, CUevent event) { ENTER; return check(event->owner); }
// clang-format on
