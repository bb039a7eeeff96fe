// SPDX-License-Identifier: Apache-2.0

// EXPERIMENTAL: written from the driver's published interface, and never yet run on a machine where it works. GPU
// memory of our own allocation, mapped into the process as pages that storage's DMA engines reach (PCI_P2PDMA), without
// a kernel module beside NVIDIA's: CUDA allocates and exports it, the driver's resource manager (RM) imports it for us,
// and its unified memory (UVM) makes pages of it. CudaDevice calls it for its own allocations; memory of other
// allocators needs adopt().
//
// It needs an administrator's settings (static BAR1, no write combining), a kernel with CONFIG_PCI_P2PDMA, and a driver
// whose interface is known here. If anything is missing, the Status names the step that refused. A mapping does not
// prove that transfers work: test one first. Do not access the mapping by CPU, since a lost GPU raises SIGBUS. A forked
// child loses the mappings; there, everything is refused and nothing is undone, since the objects behind the
// descriptors belong to the parent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "base/mutex.h"
#include "base/process.h"
#include "base/status.h"
#include "device/cuda/cuda_scope.h"
#include "device/cuda/nvidia_ioctl.h"
#include "device/cuda/nvidia_kernel.h"

namespace penstock::core {

class NvidiaExport {
 public:
  struct Setup {
    const cuda::CudaApi& api;
    CudaContext context;  // The context of the GPU; it must outlive this object.
    int ordinal = 0;
    std::array<std::uint8_t, 16> uuid = {};
    NvidiaVersions versions = NvidiaVersions::read();
    NvidiaKernel& kernel = NvidiaKernel::real();
    // Called after every step of making or undoing a mapping, whether it succeeded or not. It must not call this
    // object.
    std::function<void(const char* name, const NvidiaStep&)> observer = nullptr;
  };
  struct Piece {
    void* device_address = nullptr;  // For kernels and copies.
    std::byte* mapped = nullptr;     // For O_DIRECT and io_uring; never in one request together with host memory.
    std::size_t size = 0;            // Rounded up to the GPU's pages.
  };

  // Asks the driver everything that can be asked without memory.
  static Result<std::unique_ptr<NvidiaExport>> open(const Setup& setup);
  ~NvidiaExport();
  NvidiaExport(const NvidiaExport&) = delete;
  NvidiaExport& operator=(const NvidiaExport&) = delete;

  // These three are thread-safe. Once UVM has refused to make pages, every later attempt is refused without asking it,
  // because some drivers keep the memory that was shown to them.
  Result<Piece> allocate(std::size_t size);
  // Waits for the work of the context's streams, and for transfers that the kernel still has under way in the piece.
  // Must not be called on a thread that a stream waits for.
  void release(const Piece& piece);
  // Adopts memory that others allocated with cuMemCreate, with a POSIX descriptor as handle type, and mapped with
  // cuMemMap. The piece is the mapping that contains the whole buffer. drop() of the same address undoes an adoption,
  // and must come before the memory's owner unmaps it. A buffer that is already adopted is refused, and drop() of any
  // other does nothing.
  Result<Piece> adopt(const void* device_address, std::size_t size);
  void drop(const void* device_address);
  // The piece that contains a device address; a null piece if there is none.
  Piece find(const void* device_address) const;

 private:
  // The objects made for one allocation; null or -1 if their step was not reached.
  struct Export {
    cuda::CUmemGenericAllocationHandle allocation = 0;
    bool has_allocation = false;
    cuda::CUdeviceptr address = 0;
    bool is_mapped_on_device = false;
    std::size_t size = 0;
    nvidia::Handle memory = 0;  // The number by which our RM client knows it.
    std::byte* reserved = nullptr;
    std::byte* pages = nullptr;  // The addresses of UVM's range.
    std::byte* mapped = nullptr;
    bool is_foreign = false;              // Others allocated it.
    std::set<cuda::CUdeviceptr> buffers;  // The buffers for which it was adopted.
  };

  explicit NvidiaExport(const Setup& setup) : setup_(setup), kernel_(setup.kernel), api_(setup.api) {}

  bool is_inherited() const { return fork_count() != forks_; }
  Status start();
  Status check_versions();
  Status register_gpu();
  Status build(std::size_t size, Export& made) REQUIRES(mutex_);
  Status allocate_on_device(std::size_t size, Export& made);
  Status look_at_foreign(const void* device_address, std::size_t size, Export& made);
  Status share(Export& made) REQUIRES(mutex_);
  std::map<cuda::CUdeviceptr, Export>::iterator holder(const void* device_address) REQUIRES(mutex_);
  Status import_memory(int fd, Export& made) REQUIRES(mutex_);
  Status ensure_device(std::uint32_t instance) REQUIRES(mutex_);
  Status make_pages(Export& made) REQUIRES(mutex_);
  Status ask_for_pages(const Export& made);
  void undo(const Export& made) REQUIRES(mutex_);
  void free_pages(const Export& made);
  void forget(nvidia::Handle memory) REQUIRES(mutex_);
  static Piece piece_of(const Export& made) {
    return {reinterpret_cast<void*>(static_cast<std::uintptr_t>(made.address)), made.mapped, made.size};
  }

  Status done(const char* name, const NvidiaStep& step) const;
  Status cuda_step(const char* name, cuda::CUresult result) const { return done(name, {cuda_status(result, name)}); }
  Result<int> open_node(const char* name, const char* path) const;
  template <typename Parameters>
  Status rm(const char* name, unsigned number, Parameters& parameters) const;
  template <typename Parameters>
  Status rm_control(const char* name, std::uint32_t command, Parameters& parameters) const;
  template <typename Parameters>
  Status uvm(const char* name, unsigned long request, Parameters& parameters) const;

  const Setup setup_;
  NvidiaKernel& kernel_;
  const cuda::CudaApi& api_;
  const std::uint32_t forks_ = fork_count();
  int rm_fd_ = -1;
  int uvm_fd_ = -1;
  nvidia::Handle client_ = 0;
  nvidia::Uuid uuid_ = {};

  mutable SharedMutex mutex_;
  nvidia::Handle device_ GUARDED_BY(mutex_) = 0;  // RM's device, made when the first export shows its number.
  std::uint32_t device_instance_ GUARDED_BY(mutex_) = 0;
  nvidia::Handle last_handle_ GUARDED_BY(mutex_) = 0;
  Status refused_ GUARDED_BY(mutex_) = success();  // UVM has refused, for good.
  std::map<cuda::CUdeviceptr, Export> exports_ GUARDED_BY(mutex_);
};

}  // namespace penstock::core
