// A stream of ours in one context, with events as its markers. CudaDevice opens them. Every call enters the context,
// which costs about as much as a call itself: whoever has several things to do says so in one (copy_many,
// copy_and_wait).
#pragma once

#include <vector>

#include "device/cuda_device.h"

namespace penstock::core {

class CudaCopyQueue final : public CopyQueue {
 public:
  explicit CudaCopyQueue(CudaDevice& device) : device_(device), api_(device.api()) {}
  ~CudaCopyQueue() override;

  Status open(unsigned markers);
  Status copy_to_device(void* device_address, const void* host, std::size_t size) override;
  Status copy_to_host(void* host, const void* device_address, std::size_t size) override;
  // By one kernel where the copies are small and it can be had.
  Status copy_many(std::span<const Copy> copies, Direction direction) override;
  Status copy_and_wait(const Copy& copy, Direction direction) override;
  Status record(unsigned marker) override;
  Result<bool> reached(unsigned marker) override;
  Status wait(unsigned marker, bool spin) override;

 private:
  template <typename Call>
  Status in_context(const char* step, Call call) const {
    const ContextScope scope(api_, device_.context());
    return cuda_status(scope.entered() ? call() : scope.result(), step);
  }
  cuda::CUresult open_stream();
  cuda::CUresult queue(const Copy& copy, Direction direction);
  cuda::CUresult drain();
  cuda::CUevent event_of(unsigned marker) const;

  CudaDevice& device_;
  const cuda::CudaApi& api_;
  cuda::CUstream stream_ = nullptr;
  std::vector<cuda::CUevent> events_;
};

}  // namespace penstock::core
