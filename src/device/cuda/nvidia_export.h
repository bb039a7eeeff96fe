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
#include <map>
#include <memory>
#include <set>

#include "base/mutex.h"
#include "base/process.h"
#include "base/status.h"
#include "device/cuda/cuda_scope.h"
#include "device/cuda/nvidia_client.h"

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
    // It must not call this object.
    NvidiaObserver observer = nullptr;
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
    NvidiaClient::Mapping mapping;
    bool is_foreign = false;              // Others allocated it.
    std::set<cuda::CUdeviceptr> buffers;  // The buffers for which it was adopted.
  };

  explicit NvidiaExport(const Setup& setup)
      : setup_(setup), api_(setup.api), client_(setup_.kernel, setup_.versions, setup_.observer) {}

  bool is_inherited() const { return fork_count() != forks_; }
  Status start();
  Status build(std::size_t size, Export& made) REQUIRES(mutex_);
  Status allocate_on_device(std::size_t size, Export& made);
  Status look_at_foreign(const void* device_address, std::size_t size, Export& made);
  Status share(Export& made) REQUIRES(mutex_);
  std::map<cuda::CUdeviceptr, Export>::iterator holder(const void* device_address) REQUIRES(mutex_);
  void undo(const Export& made) REQUIRES(mutex_);
  static Piece piece_of(const Export& made) {
    return {reinterpret_cast<void*>(static_cast<std::uintptr_t>(made.address)), made.mapping.mapped, made.size};
  }

  Status done(const char* name, const NvidiaStep& step) const { return report(setup_.observer, name, step); }
  Status cuda_step(const char* name, cuda::CUresult result) const { return done(name, {cuda_status(result, name)}); }

  const Setup setup_;
  const cuda::CudaApi& api_;
  const std::uint32_t forks_ = fork_count();

  mutable SharedMutex mutex_;
  NvidiaClient client_ GUARDED_BY(mutex_);
  std::map<cuda::CUdeviceptr, Export> exports_ GUARDED_BY(mutex_);
};

}  // namespace penstock::core
