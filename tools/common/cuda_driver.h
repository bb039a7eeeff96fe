// SPDX-License-Identifier: Apache-2.0

// The part of CUDA's driver that gdsio itself calls, beside what the library does: pinned memory, memory of
// cuMemCreate, streams, and copies on them. Loaded as the library loads it (device/cuda/cuda_api.h), so that the tool
// builds and starts without CUDA. Failures are thrown, with exit code 77 where there is no driver.
#pragma once

#include <cstddef>
#include <memory>

#include "tools/common/arena.h"

namespace penstock::core::cuda {
struct CudaApi;
}

namespace penstock::tools {

class CudaDriver {
 public:
  using Stream = void*;

  // On the session's device `gpu`, in its primary context; null where that is no GPU of CUDA's.
  static std::unique_ptr<CudaDriver> open(penstock_session* session, unsigned gpu);
  ~CudaDriver();

  // Makes the device's context the calling thread's. Before any of the others, on every thread.
  void enter() const;

  Arena pinned_host(std::size_t size) const;
  // Made with cuMemCreate and mapped. session: the library's, for uploads.
  Arena virtual_memory(penstock_session* session, std::size_t size) const;

  Stream open_stream() const;
  void close_stream(Stream stream) const;  // Waits for it.
  void wait(Stream stream) const;
  void copy_to_device(void* to, const void* from, std::size_t size, Stream stream) const;
  void copy_to_host(void* to, const void* from, std::size_t size, Stream stream) const;

 private:
  // By UUID: the session's ordinals need not be the driver's.
  explicit CudaDriver(const unsigned char* uuid);
  void require_success(int result, const char* call) const;

  const core::cuda::CudaApi& api_;
  int device_ = 0;
  void* context_ = nullptr;
};

}  // namespace penstock::tools
