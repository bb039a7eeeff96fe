// SPDX-License-Identifier: Apache-2.0

// A separate file, since cufile.h defines some CUDA numbers as macros if CUDA's headers are missing.
#include <cstdint>

#include "bench/versus/failure.h"
#include "bench/versus/gpu.h"
#include "device/cuda/cuda_api.h"

namespace penstock::versus {
namespace {

using namespace core::cuda;

CUdeviceptr address_of(const char* device) { return reinterpret_cast<std::uintptr_t>(device); }

class Cuda final : public Gpu {
 public:
  explicit Cuda(int ordinal);
  std::string name() const override { return name_; }
  void enter() const override { check(api_.cuCtxSetCurrent(context_), "cuCtxSetCurrent"); }
  char* allocate(std::size_t size) override {
    CUdeviceptr memory = 0;
    check(api_.cuMemAlloc(&memory, size), "cuMemAlloc");
    return reinterpret_cast<char*>(static_cast<std::uintptr_t>(memory));
  }
  char* allocate_pinned(std::size_t size) override {
    void* memory = nullptr;
    check(api_.cuMemHostAlloc(&memory, size, 0), "cuMemHostAlloc");
    return static_cast<char*>(memory);
  }
  void to_device(char* device, const char* host, std::size_t size) const override {
    check(api_.cuMemcpyHtoD(address_of(device), host, size), "cuMemcpyHtoD");
  }
  void to_host(char* host, const char* device, std::size_t size) const override {
    check(api_.cuMemcpyDtoH(host, address_of(device), size), "cuMemcpyDtoH");
  }
  void* open_stream() const override {
    CUstream stream = nullptr;
    check(api_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    return stream;
  }
  void close_stream(void* stream) const override {
    check(api_.cuStreamDestroy(static_cast<CUstream>(stream)), "cuStreamDestroy");
  }
  void copy_to_device(char* device, const char* host, std::size_t size, void* stream) const override {
    check(api_.cuMemcpyHtoDAsync(address_of(device), host, size, static_cast<CUstream>(stream)), "cuMemcpyHtoDAsync");
  }
  void wait(void* stream) const override {
    check(api_.cuStreamSynchronize(static_cast<CUstream>(stream)), "cuStreamSynchronize");
  }
  std::unique_ptr<Gpu> other(unsigned ordinal) const override {
    return std::make_unique<Cuda>(static_cast<int>(ordinal));
  }

 private:
  void check(CUresult result, const char* call) const {
    if (result != CUDA_SUCCESS) throw Failure(std::string(call) + " failed: " + api_.describe(result));
  }

  CudaApi api_ = {};
  std::string name_;
  CUcontext context_ = nullptr;
};

Cuda::Cuda(int ordinal) {
  std::string why_not;
  if (!api_.load(kDriverLibrary, &why_not)) throw Failure("there is no GPU here: " + why_not, kNotApplicable);
  if (!api_.has_program_calls()) {
    throw Failure(std::string("there is no GPU here: ") + kDriverLibrary + " is too old", kNotApplicable);
  }
  CUdevice device = 0;
  char name[96] = "";
  if (api_.cuInit(0) != CUDA_SUCCESS || api_.cuDeviceGet(&device, ordinal) != CUDA_SUCCESS) {
    throw Failure("there is no GPU " + std::to_string(ordinal) + " here: the CUDA driver shows none", kNotApplicable);
  }
  check(api_.cuDeviceGetName(name, sizeof name, device), "cuDeviceGetName");
  check(api_.cuDevicePrimaryCtxRetain(&context_, device), "cuDevicePrimaryCtxRetain");
  name_ = name;
  enter();
}

}  // namespace

std::unique_ptr<Gpu> open_cuda() { return std::make_unique<Cuda>(0); }

}  // namespace penstock::versus
