// SPDX-License-Identifier: Apache-2.0

// EXPERIMENTAL, as nvidia_export.h. A client of NVIDIA's kernel driver for one GPU: the driver's resource manager (RM)
// imports memory that CUDA has exported, and its unified memory (UVM) makes pages of it, which are mapped into the
// process. Every step is reported. NvidiaExport owns one and calls it under a lock; it calls no CUDA. The driver's
// private interface (nvidia_ioctl.h) is used nowhere else.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "device/cuda/nvidia_kernel.h"

namespace penstock::core {

class NvidiaClient {
 public:
  // The objects made for one piece of exported memory; null or 0 if their step was not reached.
  struct Mapping {
    std::size_t size = 0;
    nvidia::Handle memory = 0;  // The number by which RM knows the memory for this client.
    std::byte* reserved = nullptr;
    std::byte* pages = nullptr;  // The addresses of UVM's range.
    std::byte* mapped = nullptr;
  };

  // The kernel and the observer must outlive it.
  NvidiaClient(NvidiaKernel& kernel, const NvidiaVersions& versions, const NvidiaObserver& observer)
      : kernel_(kernel), versions_(versions), observer_(observer) {}
  // unmap() comes before. Closes the descriptors, which ends the RM client and the UVM address space with everything
  // that is left in them. A forked child ends nothing so, since the parent has the descriptors open.
  ~NvidiaClient();
  NvidiaClient(const NvidiaClient&) = delete;
  NvidiaClient& operator=(const NvidiaClient&) = delete;

  // Asks the driver everything that can be asked without memory. Call it once, and map() only if it succeeded. Refuses
  // drivers whose interface is not known here, and asks them nothing.
  Status start(const std::array<std::uint8_t, 16>& uuid);
  // Maps `size` bytes of exported memory, and closes its descriptor. After a failure, unmap() undoes what was made.
  Status map(int exported, std::size_t size, Mapping& made);
  // Undoes the steps, the last one first. Transfers that the kernel has under way in the pages end before.
  void unmap(const Mapping& made);
  // The status of the step by which UVM has refused to make pages; ok if it has not. Do not ask it again: some drivers
  // keep the memory that was shown to them.
  const Status& refused() const { return refused_; }

 private:
  Status check_version() const;
  Status register_gpu(const std::array<std::uint8_t, 16>& uuid);
  Status import_memory(int exported, Mapping& made);
  Status ensure_device(std::uint32_t instance);
  Status make_pages(Mapping& made);
  Status ask_for_pages(const Mapping& made) const;
  void free_pages(const Mapping& made) const;
  void forget(nvidia::Handle memory) const;

  Status done(const char* name, const NvidiaStep& step) const { return report(observer_, name, step); }
  Result<int> open_node(const char* name, const char* path) const;
  template <typename Parameters>
  Status rm(const char* name, unsigned number, Parameters& parameters) const;
  template <typename Parameters>
  Status rm_control(const char* name, std::uint32_t command, Parameters& parameters) const;
  template <typename Parameters>
  Status uvm(const char* name, unsigned long request, Parameters& parameters) const;

  NvidiaKernel& kernel_;
  const NvidiaVersions versions_;
  const NvidiaObserver& observer_;
  int rm_fd_ = -1;
  int uvm_fd_ = -1;
  nvidia::Handle client_ = 0;
  nvidia::Uuid uuid_ = {};
  nvidia::Handle device_ = 0;  // RM's device, made when the first export shows its number.
  std::uint32_t device_instance_ = 0;
  nvidia::Handle last_handle_ = 0;
  Status refused_ = success();
};

}  // namespace penstock::core
