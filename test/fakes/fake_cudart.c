// SPDX-License-Identifier: Apache-2.0

// The calls of CUDA's runtime that fio's engine libcufile and NIXL's plugins make, over the program's libcuda.so.1.
// NVIDIA's own runtime asks its driver for tables that the driver without a GPU has not.
#include <stddef.h>

typedef int Result;  // 0, or the driver's error; the runtime's numbers are others.
typedef unsigned long long Address;

Result cuInit(unsigned flags);
Result cuDeviceGet(int* device, int number);
Result cuDevicePrimaryCtxRetain(void** context, int device);
Result cuCtxSetCurrent(void* context);
Result cuMemAlloc_v2(Address* made, size_t size);
Result cuMemFree_v2(Address memory);
Result cuMemsetD8_v2(Address memory, unsigned char value, size_t size);
Result cuMemcpyHtoD_v2(Address to, const void* from, size_t size);
Result cuMemcpyDtoH_v2(void* to, Address from, size_t size);
Result cuGetErrorName(Result error, const char** name);

enum { kToDevice = 1, kToHost = 2, kInvalidValue = 1 };

Result cudaSetDevice(int number) {
  int device = 0;
  void* context = NULL;
  Result result = cuInit(0);
  if (result == 0) result = cuDeviceGet(&device, number);
  if (result == 0) result = cuDevicePrimaryCtxRetain(&context, device);
  return result == 0 ? cuCtxSetCurrent(context) : result;
}

Result cudaMalloc(void** made, size_t size) { return cuMemAlloc_v2((Address*)made, size); }
Result cudaFree(void* memory) { return cuMemFree_v2((Address)memory); }
Result cudaMemset(void* memory, int value, size_t size) {
  return cuMemsetD8_v2((Address)memory, (unsigned char)value, size);
}

Result cudaMemcpy(void* to, const void* from, size_t size, int kind) {
  if (kind == kToHost) return cuMemcpyDtoH_v2(to, (Address)from, size);
  return kind == kToDevice ? cuMemcpyHtoD_v2((Address)to, from, size) : kInvalidValue;
}

const char* cudaGetErrorName(Result error) {
  const char* name = NULL;
  return cuGetErrorName(error, &name) == 0 ? name : "unknown";
}

const char* cudaGetErrorString(Result error) { return cudaGetErrorName(error); }
