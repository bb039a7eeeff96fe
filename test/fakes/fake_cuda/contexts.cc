// SPDX-License-Identifier: Apache-2.0

// Starting, devices, contexts and captures.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <thread>

#include "fakes/fake_cuda/driver_state.h"

namespace penstock::fake_cuda {

DriverState& driver() {
  static DriverState* const one = new DriverState;
  return *one;
}
thread_local std::vector<CUcontext> stack;
thread_local int capture_mode = 0;
thread_local bool in_call = false;

CUresult enter() {
  if (driver().down) return CUDA_ERROR_DEINITIALIZED;
  if (driver().process != ::getpid()) return kNotInitialized;
  return in_call ? kNotPermitted : CUDA_SUCCESS;
}

CUresult check(const Owned& owner) {
  const bool alive = owner.context->alive && owner.context->id == owner.id;
  if (!alive && driver().last_id > owner.id) std::abort();
  if (!alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return current() == owner.context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult outside_capture() {
  const bool concerned = driver().captures > 0 && driver().capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED;
  if (!concerned || capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  driver().spoiled = true;
  return kCapturing;
}

CUresult need_context() {
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return current()->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

namespace {

CUcontext revive(CUcontext context, int device) {
  *context = {++driver().last_id, device, true, 0};
  return context;
}

}  // namespace
}  // namespace penstock::fake_cuda

using namespace penstock::fake_cuda;

// A table of calls: kept dense, to be read as one.
// clang-format off
CALL(fake_cuda_shut_down) { driver().down = true; return 0; }
CALL(fake_cuda_fail_at, int nth) { const std::unique_lock lock(driver().mutex); driver().fail_at = nth; return 0; }
CALL(fake_cuda_short_at, int nth) { const std::unique_lock lock(driver().mutex); driver().short_at = nth; return 0; }
CALL(cuInit, unsigned) {
  if (driver().process != 0 && driver().process != ::getpid()) return kNotInitialized;
  const std::unique_lock lock(driver().mutex);
  if (driver().down) return CUDA_ERROR_DEINITIALIZED;
  if (const char* result = std::getenv("PENSTOCK_FAKE_CUDA_INIT")) return std::atoi(result);
  driver().process = ::getpid();
  return 0;
}
CALL(cuGetErrorName, CUresult result, const char** name) {
  *name = result == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR"; return 0;
}
CALL(cuGetErrorString, CUresult, const char** text) { *text = "as the fake driver was told"; return 0; }
CALL(cuDriverGetVersion, int* version) {
#ifdef PENSTOCK_FAKE_CUDA_11
  *version = 11040;
#else
  *version = 13000;
#endif
  return 0;
}
CALL(cuDeviceGetCount, int* count) { ENTER; *count = kDevices; return 0; }
CALL(cuDeviceGet, CUdevice* device, int ordinal) { ENTER; *device = ordinal; return ordinal < kDevices ? 0 : 101; }
CALL(cuDeviceGetName, char* name, int, CUdevice device) {
  ENTER;
  std::strcpy(name, device == 0 ? "Fake GPU" : "Fake GeForce");
  return 0;
}
CALL(cuDeviceGetPCIBusId, char* id, int size, CUdevice device) {
  ENTER;
  const char* const given = std::getenv("PENSTOCK_FAKE_CUDA_ADDRESS");
  const char* const first = given != nullptr ? given : "0000:AB:00.0";
  std::snprintf(id, static_cast<std::size_t>(size), "%s", device != 0 ? "00000000:AC:00.0" : first);
  return 0;
}
CALL(cuDeviceTotalMem_v2, std::size_t* bytes, CUdevice) { ENTER; *bytes = std::size_t{8} << 30; return 0; }
CALL(cuDeviceGetAttribute, int* value, int attribute, CUdevice) {
  ENTER; *value = attribute == 75 ? 9 : 1; return 0;  // Compute capability 9.1; everything else there is.
}
#ifdef PENSTOCK_FAKE_CUDA_11
CALL(cuDeviceGetUuid, char* uuid, CUdevice device) { ENTER; std::memset(uuid, 0x11 + device, 16); return 0; }
#else
CALL(cuDeviceGetUuid_v2, char* uuid, CUdevice device) { ENTER; std::memset(uuid, 0x11 + device, 16); return 0; }
CALL(cuCtxGetId, CUcontext context, unsigned long long* id) {
  ENTER; *id = context->id; return context->alive ? 0 : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}
#endif

CALL(cuDevicePrimaryCtxRetain, CUcontext* context, CUdevice device) {
  ENTER; *context = &driver().contexts[device];
  if (!(*context)->alive) revive(*context, device);
  return ++(*context)->users, 0;
}
CALL(cuDevicePrimaryCtxReset_v2, CUdevice device) { ENTER; forget_context(&driver().contexts[device], lock); return 0; }
CALL(cuDevicePrimaryCtxRelease_v2, CUdevice device) {
  ENTER; CUcontext context = &driver().contexts[device];
  if (!context->alive || context->users == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--context->users == 0) forget_context(context, lock);
  return 0;
}
CALL(cuCtxCreate_v2, CUcontext* context, unsigned, CUdevice device) {
  ENTER;
  for (CUctx_st* slot = driver().contexts + kDevices; slot != std::end(driver().contexts); ++slot) {
    if (!slot->alive) return stack.push_back(*context = revive(slot, device)), 0;
  }
  return 2;
}
CALL(cuCtxDestroy_v2, CUcontext context) {
  ENTER; forget_context(context, lock);
  if (current() == context) stack.pop_back();
  return 0;
}
CALL(cuCtxGetCurrent, CUcontext* context) { ENTER; *context = current(); return 0; }
CALL(cuCtxSetCurrent, CUcontext context) {
  ENTER; if (!stack.empty()) stack.pop_back();
  if (context != nullptr) stack.push_back(context);
  return 0;
}
CALL(cuCtxPushCurrent_v2, CUcontext context) { ENTER; stack.push_back(context); return 0; }
CALL(cuCtxPopCurrent_v2, CUcontext* context) {
  ENTER; REQUIRE(stack.empty() ? CUDA_ERROR_INVALID_CONTEXT : 0); *context = current(); stack.pop_back(); return 0;
}
CALL(cuCtxGetApiVersion, CUcontext context, unsigned* version) {
  ENTER; *version = 3020; return context->alive ? 0 : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}
CALL(cuCtxGetDevice, CUdevice* device) { ENTER; REQUIRE(need_context()); *device = current()->device; return 0; }
CALL(cuCtxGetStreamPriorityRange, int* least, int* greatest) {
  ENTER; REQUIRE(need_context()); *least = 0; *greatest = -5; return 0;
}
CALL(cuCtxSynchronize) {
  ENTER; REQUIRE(outside_capture()); REQUIRE(need_context());
  const auto is_captured = [](const auto& each) { return each.capturing && each.owner.context == current(); };
  const bool spoils = std::any_of(driver().streams.begin(), driver().streams.end(), is_captured);
  if (spoils) return driver().spoiled = true, kCapturing;
  return drive_all(current(), lock), 0;
}

CALL(cuThreadExchangeStreamCaptureMode, int* mode) { std::swap(*mode, capture_mode); return 0; }
CALL(cuStreamBeginCapture_v2, CUstream stream, int mode) {
  ENTER; REQUIRE(stream->capturing ? CUDA_ERROR_INVALID_VALUE : 0);
  if (driver().captures++ == 0) driver().spoiled = false, driver().capture_mode = mode;
  stream->capturing = true;
  return 0;
}
CALL(cuStreamEndCapture, CUstream stream, void** graph) {
  ENTER; REQUIRE(stream->capturing ? 0 : CUDA_ERROR_INVALID_VALUE);
  stream->capturing = false;
  --driver().captures;
  static int empty = 0;
  *graph = driver().spoiled ? nullptr : &empty;
  return driver().spoiled ? kCaptureSpoiled : 0;
}
CALL(cuStreamIsCapturing, CUstream handle, int* status) {
  ENTER; CUresult result = 0; const CUstream stream = resolve(handle, result);
  if (stream == nullptr) return result;
  const bool beside = std::any_of(driver().streams.begin(), driver().streams.end(), [&](const auto& other) {
    return other.capturing && other.blocking && other.owner.context == stream->owner.context;
  });
  if (reinterpret_cast<std::uintptr_t>(handle) < 2 && beside) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  *status = !stream->capturing ? 0 : driver().spoiled ? 2 : 1;
  return 0;
}
CALL(cuGraphDestroy, void*) { return 0; }
// clang-format on
