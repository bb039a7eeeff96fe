// SPDX-License-Identifier: Apache-2.0

// NVIDIA GPUs through the CUDA driver, which is loaded at run time (cuda_api.h). The session opens the set once; paths
// see only device.h. It prints nothing and makes no call at load or unload time.
//
// A CudaDevice is one context of one GPU: the primary context, or one that the user made and that owns the memory at
// hand. Primary contexts are retained on first use and never released, because at exit it is too late. Every call first
// checks that its context still lives, since the driver crashes on streams and events of one that is gone; then it is
// device_lost. Two cases cannot be noticed: a context destroyed during a call; and before CUDA 12.0 one that was
// destroyed and replaced by another at the same address.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "base/mutex.h"
#include "device/cuda/cuda_scatter.h"
#include "device/cuda/cuda_scope.h"
#include "device/cuda/cuda_streams.h"
#include "device/cuda/nvidia_export.h"
#include "device/device.h"

namespace penstock::core {

class CudaDeviceSet;

class CudaDevice final : public Device, public DeviceMemory, public DevicePages {
 public:
  using Context = CudaContext;

  // `ordinal` is the driver's.
  CudaDevice(CudaDeviceSet& set, unsigned ordinal, const Context& context, bool primary);

  const DeviceFacts& facts() const override { return facts_; }
  // Destroying the queue waits for its copies and releases its stream; the context may be gone by then.
  Result<std::unique_ptr<CopyQueue>> open_copy_queue(unsigned markers) override;
  // Always in the primary context, so that the registration outlives the user's contexts.
  Status register_host(void* memory, std::size_t size) override;
  bool unregister_host(void* memory) override;
  Status register_pages(const std::byte* memory, std::size_t size, bool writable) override;
  bool unregister_pages(const std::byte* memory) override;
  bool can_unregister_pages() override { return !is_any_cuda_stream_busy(api()); }
  bool can_register_pages() const override;
  const void* pages_context() const override { return context_.handle; }
  Result<void*> address_in_kernels(void* memory) override;
  Status wait_for_kernels() override;
  void make_copies_synchronous(const void* memory) override;
  Status settle_peer_writes() override;
  Status run_inside(const std::function<void()>& work) override;
  Result<void*> allocate(std::size_t size) override;
  void release(void* memory) override;
  bool allocates_mapped() const override { return exporter() != nullptr; }
  std::uint64_t offer(const PointerFacts& memory, const void* buffer, std::size_t size) override;
  void withdraw(const void* buffer) override;
  Result<UniqueFd> export_dmabuf(const void* memory, std::size_t size) override;
  std::uint64_t allocation_number(const void* memory) const override;

  const cuda::CudaApi& api() const;
  const Context& context() const { return context_; }
  bool is_primary() const { return primary_; }
  unsigned ordinal() const { return ordinal_; }
  // The scatter kernel of the copy queues.
  CudaScatter& scatter() { return scatter_; }
  CudaKernel& checksum_kernel() { return checksum_kernel_; }
  CudaKernel& hash_kernel() { return hash_kernel_; }
  bool alive() const { return core::is_alive(api(), context_); }

 private:
  NvidiaExport* exporter() const;
  int attribute(int which) const;

  CudaDeviceSet& set_;
  const unsigned ordinal_;
  const Context context_;
  const bool primary_;
  DeviceFacts facts_;
  CudaScatter scatter_;
  CudaKernel checksum_kernel_;
  CudaKernel hash_kernel_;
  std::atomic<bool> writes_settle_themselves_{false};  // True if the driver reports that the device orders such writes.
};

class CudaDeviceSet final : public DeviceSet {
 public:
  // Fails with no_device and a sentence in `why_not` where there is no driver, no GPU, or the driver does not start.
  static Result<std::unique_ptr<CudaDeviceSet>> open(std::string* why_not, const char* library = cuda::kDriverLibrary,
                                                     const DeviceTerms& terms = {});
  ~CudaDeviceSet() override;

  unsigned count() const override { return count_; }
  Result<Device*> device(unsigned place) override;
  Device* current() override;
  // Takes no lock and no memory, except for a new context. Memory of a user's context gets that context's device, or
  // the primary one once kContextsMax contexts are known. `device` is null for device memory only if its GPU's primary
  // context cannot be retained.
  PointerFacts describe(const void* pointer) override;
  Allocation allocation_of(const void* pointer) override;
  Result<StreamHome*> stream_home(void* stream) override { return find_cuda_stream_home(api_, stream); }

  const cuda::CudaApi& api() const { return api_; }
  const DeviceTerms& terms() const { return terms_; }
  // By the driver's ordinal, as all below.
  Result<CudaDevice*> primary(unsigned ordinal);
  // The exporter of a primary context; null if nothing is exported, or the driver refused, which is logged once.
  NvidiaExport* exporter(const CudaDevice& device);

 private:
  static constexpr std::size_t kContextsMax = 128;
  static constexpr std::size_t kExportersMax = 64;
  static constexpr std::size_t kPrimarySlots = 32;  // The number kept free of users' contexts.

  explicit CudaDeviceSet(const DeviceTerms& terms) : terms_(terms) {}
  CudaDevice* device_of(cuda::CUcontext handle, int ordinal);
  CudaDevice* find(const CudaDevice::Context& context) const;
  CudaDevice* find_primary(unsigned ordinal) const;
  void find_mapped(const void* pointer, int ordinal, PointerFacts& facts) const;
  CudaDevice* add_locked(unsigned ordinal, const CudaDevice::Context& context, bool primary) REQUIRES(adding_);

  const DeviceTerms terms_;
  cuda::CudaApi api_ = {};
  unsigned count_ = 0;
  Mutex adding_;
  std::size_t used_ GUARDED_BY(adding_) = 0;  // Slots of devices_.
  // Filled in order and never emptied, so it is read without a lock: the first null is the end.
  std::array<std::atomic<CudaDevice*>, kContextsMax> devices_ = {};
  struct Exporter {
    std::once_flag tried;
    std::unique_ptr<NvidiaExport> value;
    std::atomic<NvidiaExport*> ready{nullptr};
  };
  std::array<Exporter, kExportersMax> exporters_;  // By ordinal.
};

}  // namespace penstock::core
