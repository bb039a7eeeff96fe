// SPDX-License-Identifier: Apache-2.0

// The calls of CUDA's driver that gdsio makes itself: pinned memory, memory of cuMemCreate, streams, and copies on
// them. The driver is loaded as the library loads it (device/cuda/cuda_api.h), so that the tool builds and starts
// without CUDA. Failures are thrown, with exit code 77 if there is no driver.
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

  // Opens the session's device `gpu`, in its primary context. Null if that is no GPU of CUDA's.
  static std::unique_ptr<CudaDriver> open(penstock_session* session, unsigned gpu);
  ~CudaDriver();

  // Makes the device's context current on the calling thread. Each thread calls this before any other method.
  void enter() const;

  Arena pinned_host(std::size_t size) const;
  // Makes memory with cuMemCreate and maps it. `session` does the uploads.
  Arena virtual_memory(penstock_session* session, std::size_t size) const;

  Stream open_stream() const;
  void close_stream(Stream stream) const;  // Waits for the stream first.
  void wait(Stream stream) const;
  void copy_to_device(void* to, const void* from, std::size_t size, Stream stream) const;
  void copy_to_host(void* to, const void* from, std::size_t size, Stream stream) const;

 private:
  // Finds the GPU by its UUID: a session's ordinals need not be the driver's.
  explicit CudaDriver(const unsigned char* uuid);
  void require_success(int result, const char* call) const;

  const core::cuda::CudaApi& api_;
  int device_ = 0;
  void* context_ = nullptr;
};

}  // namespace penstock::tools
