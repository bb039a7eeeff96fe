// SPDX-License-Identifier: Apache-2.0

#include "bench/versus/gpu.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "bench/versus/failure.h"

namespace penstock::versus {
namespace {

constexpr unsigned kNonBlocking = 1;

class Cuda final : public Gpu {
 public:
  Cuda();
  std::string name() const override { return name_; }
  void enter() const override { check(set_current_(context_), "cuCtxSetCurrent"); }
  char* allocate(std::size_t size) override {
    void* memory = nullptr;
    check(allocate_(&memory, size), "cuMemAlloc");
    return static_cast<char*>(memory);
  }
  char* allocate_pinned(std::size_t size) override {
    void* memory = nullptr;
    check(pin_(&memory, size, 0), "cuMemHostAlloc");
    return static_cast<char*>(memory);
  }
  void to_device(char* device, const char* host, std::size_t size) const override {
    check(to_device_(device, host, size), "cuMemcpyHtoD");
  }
  void to_host(char* host, const char* device, std::size_t size) const override {
    check(to_host_(host, device, size), "cuMemcpyDtoH");
  }
  void* open_stream() const override {
    void* stream = nullptr;
    check(stream_create_(&stream, kNonBlocking), "cuStreamCreate");
    return stream;
  }
  void close_stream(void* stream) const override { check(stream_destroy_(stream), "cuStreamDestroy"); }
  void copy_to_device(char* device, const char* host, std::size_t size, void* stream) const override {
    check(to_device_async_(device, host, size, stream), "cuMemcpyHtoDAsync");
  }
  void wait(void* stream) const override { check(stream_wait_(stream), "cuStreamSynchronize"); }

 private:
  static void check(int result, const char* call) {
    if (result != 0) throw Failure(std::string(call) + " failed with CUDA error " + std::to_string(result));
  }

  std::string name_;
  void* context_ = nullptr;
  int (*set_current_)(void* context);
  int (*allocate_)(void** memory, std::size_t size);
  int (*pin_)(void** memory, std::size_t size, unsigned flags);
  int (*to_device_)(void* device, const void* host, std::size_t size);
  int (*to_host_)(void* host, const void* device, std::size_t size);
  int (*to_device_async_)(void* device, const void* host, std::size_t size, void* stream);
  int (*stream_create_)(void** stream, unsigned flags);
  int (*stream_destroy_)(void* stream);
  int (*stream_wait_)(void* stream);
};

Cuda::Cuda() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) throw Failure("there is no GPU here: libcuda.so.1 cannot be loaded", kNotApplicable);
  const auto bind = [driver](const char* name, auto& function) {
    void* found = ::dlsym(driver, name);
    if (found == nullptr) throw Failure(std::string("libcuda.so.1 lacks ") + name, kNotApplicable);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
  int (*init)(unsigned);
  int (*get)(int*, int);
  int (*get_name)(char*, int, int);
  int (*retain)(void**, int);
  bind("cuInit", init);
  bind("cuDeviceGet", get);
  bind("cuDeviceGetName", get_name);
  bind("cuDevicePrimaryCtxRetain", retain);
  bind("cuCtxSetCurrent", set_current_);
  bind("cuMemAlloc_v2", allocate_);
  bind("cuMemHostAlloc", pin_);
  bind("cuMemcpyHtoD_v2", to_device_);
  bind("cuMemcpyDtoH_v2", to_host_);
  bind("cuMemcpyHtoDAsync_v2", to_device_async_);
  bind("cuStreamCreate", stream_create_);
  bind("cuStreamDestroy_v2", stream_destroy_);
  bind("cuStreamSynchronize", stream_wait_);
  int device = 0;
  char name[96] = "";
  if (const int result = init(0) != 0 ? 1 : get(&device, 0); result != 0) {
    throw Failure("there is no GPU here: the CUDA driver shows none", kNotApplicable);
  }
  check(get_name(name, sizeof name, device), "cuDeviceGetName");
  check(retain(&context_, device), "cuDevicePrimaryCtxRetain");
  name_ = name;
  enter();
}

class StandIn final : public Gpu {
 public:
  explicit StandIn(const Calls& calls) : calls_(calls) {
    if (!calls.is_penstock()) throw Failure(calls.name + ": only Penstock's library has memory that stands in", kUsage);
  }
  std::string name() const override { return "host memory standing in for a GPU"; }
  void enter() const override {}
  char* allocate(std::size_t size) override {
    void* memory = nullptr;
    check(calls_.device_alloc(calls_.session(), 0, size, &memory));
    return static_cast<char*>(memory);
  }
  char* allocate_pinned(std::size_t size) override {
    void* memory = std::aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    if (memory == nullptr) throw Failure("no memory for " + std::to_string(size) + " bytes");
    return static_cast<char*>(memory);
  }
  void to_device(char* device, const char* host, std::size_t size) const override {
    check(calls_.device_upload(calls_.session(), device, host, size));
  }
  void to_host(char* host, const char* device, std::size_t size) const override {
    check(calls_.device_download(calls_.session(), host, device, size));
  }
  void* open_stream() const override { return const_cast<StandIn*>(this); }
  void close_stream(void*) const override {}
  void copy_to_device(char* device, const char* host, std::size_t size, void*) const override {
    std::memcpy(device, host, size);
  }
  void wait(void*) const override {}

 private:
  static void check(const penstock_status& status) {
    if (status.code != 0) throw Failure(std::string("could not ") + status.step);
  }
  const Calls& calls_;
};

}  // namespace

std::unique_ptr<Gpu> open_cuda() { return std::make_unique<Cuda>(); }
std::unique_ptr<Gpu> open_stand_in(const Calls& calls) { return std::make_unique<StandIn>(calls); }

}  // namespace penstock::versus
