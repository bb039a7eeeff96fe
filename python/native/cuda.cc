// SPDX-License-Identifier: Apache-2.0

#include "python/native/cuda.h"

#include <dlfcn.h>

#include "python/native/symbol.h"

namespace penstock::python {
namespace {

// From CUDA's documented driver API.
constexpr int kPointerAttributeContext = 1;
constexpr int kPointerAttributeMemoryType = 2;
constexpr int kPointerAttributeDeviceOrdinal = 9;

struct Driver {
  int (*pointer_get_attributes)(unsigned count, int* attributes, void** data, std::uintptr_t pointer) = nullptr;
  int (*device_get)(int* device, int ordinal) = nullptr;
  int (*primary_retain)(void** context, int device) = nullptr;
  int (*primary_release)(int device) = nullptr;
  int (*context_push)(void* context) = nullptr;
  int (*context_pop)(void** context) = nullptr;
  int (*stream_synchronize)(void* stream) = nullptr;
  bool complete = false;
};

Driver load_driver() {
  Driver driver;
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return driver;
  driver.complete = find(library, "cuPointerGetAttributes", driver.pointer_get_attributes) &&
                    find(library, "cuDeviceGet", driver.device_get) &&
                    find(library, "cuDevicePrimaryCtxRetain", driver.primary_retain) &&
                    find(library, "cuDevicePrimaryCtxRelease_v2", driver.primary_release) &&
                    find(library, "cuCtxPushCurrent_v2", driver.context_push) &&
                    find(library, "cuCtxPopCurrent_v2", driver.context_pop) &&
                    find(library, "cuStreamSynchronize", driver.stream_synchronize);
  return driver;
}

// Looked up until it is found: the program may load the driver later.
const Driver* driver() {
  static const Driver* known = nullptr;
  if (known != nullptr) return known;
  const Driver found = load_driver();
  if (!found.complete) return nullptr;
  static const Driver complete = found;
  known = &complete;
  return known;
}

int wait_in(const Driver& cuda, void* context, void* stream) {
  if (const int result = cuda.context_push(context); result != 0) return result;
  const int result = cuda.stream_synchronize(stream);
  void* popped = nullptr;
  (void)cuda.context_pop(&popped);
  return result;
}

// Memory of a pool or of cuMemMap() has no context: uses the GPU's primary one, like the runtimes.
int wait_in_primary(const Driver& cuda, int ordinal, void* stream) {
  int device = 0;
  void* context = nullptr;
  if (const int result = cuda.device_get(&device, ordinal); result != 0) return result;
  if (const int result = cuda.primary_retain(&context, device); result != 0) return result;
  const int result = wait_in(cuda, context, stream);
  (void)cuda.primary_release(device);
  return result;
}

}  // namespace

int wait_for_stream(std::uint64_t number, const void* memory) {
  const Driver* const cuda = driver();
  if (cuda == nullptr) return 0;
  void* const stream = reinterpret_cast<void*>(static_cast<std::uintptr_t>(number));
  void* context = nullptr;
  unsigned type = 0;
  int ordinal = 0;
  int attributes[] = {kPointerAttributeContext, kPointerAttributeMemoryType, kPointerAttributeDeviceOrdinal};
  void* found[] = {&context, &type, &ordinal};
  const auto pointer = reinterpret_cast<std::uintptr_t>(memory);
  if (const int result = cuda->pointer_get_attributes(3, attributes, found, pointer); result != 0) return result;
  if (type == 0) return cuda->stream_synchronize(stream);  // The driver does not know this memory.
  return context != nullptr ? wait_in(*cuda, context, stream) : wait_in_primary(*cuda, ordinal, stream);
}

}  // namespace penstock::python
