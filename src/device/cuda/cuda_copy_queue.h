// SPDX-License-Identifier: Apache-2.0

// One of our streams in one context. CudaDevice opens them. A marker is an event; after a launch of many small copies
// it is the number that the kernel signals, and waiting needs no driver call. Every call enters the context, which
// costs about as much as the call itself: callers with several copies pass them to one call (copy_many, copy_and_wait).
#pragma once

#include <vector>

#include "device/cuda/cuda_device.h"

namespace penstock::core {

class CudaCopyQueue final : public CopyQueue {
 public:
  explicit CudaCopyQueue(CudaDevice& device) : device_(device), api_(device.api()) {}
  ~CudaCopyQueue() override;

  Status open(unsigned markers);
  Status copy_on_device(void* to, const void* from, std::size_t size) override;
  // Moves each batch of small copies by one GPU kernel where it can.
  Status copy_many(std::span<const Copy> copies, Direction direction) override;
  Status copy_and_wait(const Copy& copy, Direction direction) override;
  // Launched on the program's stream itself, for which the queue's own stream then waits.
  Status checksum(std::span<ChecksumBlock> blocks, std::optional<void*> stream, bool hashed) override;
  Status follow(void* stream) override;  // Uses marker 0.
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
  cuda::CUresult drain(std::size_t bytes);
  // Fails with `unsupported` if the queue cannot follow the program's stream now. Its context is current.
  Status check_followed(cuda::CUstream stream) const;
  cuda::CUresult launch(cuda::CUfunction kernel, std::span<ChecksumBlock> blocks, cuda::CUstream there);
  // Has the queue's own stream wait for what that stream was given so far.
  cuda::CUresult wait_behind(cuda::CUstream stream);
  template <typename There>
  bool await(There there, std::size_t looks, bool is_short);
  bool scatter(std::span<const Copy> copies, Direction direction);
  Result<bool> signalled(std::uint32_t number);

  struct Marker {
    cuda::CUevent event = nullptr;
    std::uint32_t number = 0;  // The signal's number; 0: wait for the event.
  };
  Marker& marker_at(unsigned marker);
  Status wait_for_signal(const Marker& mark, bool spin);

  CudaDevice& device_;
  const cuda::CudaApi& api_;
  cuda::CUstream stream_ = nullptr;
  std::vector<Marker> markers_;
  CudaSignals::Signal* signal_ = nullptr;  // Taken at the first launch, if one is free.
  std::uint32_t sent_ = 0;                 // The number of the last launch with a signal.
  bool ends_with_signal_ = false;          // Nothing was queued after the signal.
  unsigned looks_ = 0;                     // Number of polls that found no signal.
  bool sleeps_first_ = false;              // The last wait for a long copy took long.
};

}  // namespace penstock::core
