// SPDX-License-Identifier: Apache-2.0

#include "bench/versus/gpu.h"

#include <cstdlib>
#include <cstring>

#include "bench/versus/calls.h"
#include "bench/versus/failure.h"

namespace penstock::versus {
namespace {

class StandIn final : public Gpu {
 public:
  explicit StandIn(const Calls& calls) : calls_(calls) {
    if (!calls.is_penstock()) throw Failure(calls.name + ": only Penstock's library has memory that stands in", kUsage);
  }
  std::string name() const override { return "host memory standing in for a GPU"; }
  void enter() const override {}
  char* allocate(std::size_t size) override {
    void* memory = nullptr;
    check(calls_.device_alloc(session(), 0, size, &memory));
    return static_cast<char*>(memory);
  }
  char* allocate_pinned(std::size_t size) override {
    void* memory = std::aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    if (memory == nullptr) throw Failure("no memory for " + std::to_string(size) + " bytes");
    return static_cast<char*>(memory);
  }
  void to_device(char* device, const char* host, std::size_t size) const override {
    check(calls_.device_upload(session(), device, host, size));
  }
  void to_host(char* host, const char* device, std::size_t size) const override {
    check(calls_.device_download(session(), host, device, size));
  }
  void* open_stream() const override { return const_cast<StandIn*>(this); }
  void close_stream(void*) const override {}
  void copy_to_device(char* device, const char* host, std::size_t size, void*) const override {
    std::memcpy(device, host, size);
  }
  // On the stand-in, deregistering waits for its streams.
  void wait(void* stream) const override {
    const auto handle = static_cast<CUstream>(stream);
    if (calls_.register_stream(handle, 0).err == CU_FILE_SUCCESS) (void)calls_.deregister_stream(handle);
  }
  std::unique_ptr<Gpu> other(unsigned) const override { return std::make_unique<StandIn>(calls_); }

 private:
  static void check(const penstock_status& status) {
    if (status.code != 0) throw Failure(std::string("could not ") + status.step);
  }
  // The driver is opened after this object is created, and never closed.
  penstock_session* session() const {
    if (session_ == nullptr) session_ = calls_.opened_session();
    return session_;
  }

  const Calls& calls_;
  mutable penstock_session* session_ = nullptr;
};

}  // namespace

std::unique_ptr<Gpu> open_stand_in(const Calls& calls) { return std::make_unique<StandIn>(calls); }

}  // namespace penstock::versus
