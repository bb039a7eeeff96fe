// SPDX-License-Identifier: Apache-2.0

// Users' streams of the CUDA driver. One home per context, created at the first request on one of its streams. It loads
// a small copy kernel, because copies of held streams must not use the copy engines (stream_home.h).
#pragma once

#include "device/cuda/cuda_scope.h"
#include "device/stream_home.h"

namespace penstock::core {

class CudaStreamHome final : public StreamHome, private StreamWork {
 public:
  // The home is of no use before open().
  CudaStreamHome(const cuda::CudaApi& api, const CudaContext& context);

  // Loads what streams need and tries it on a new stream. The context must be current. After a failure with another
  // status than `unsupported`, as of a GPU that is short of memory, it may be called again, and goes on from there.
  Status open();
  // The latest status of open(): unless ok, this home is of no use.
  const Status& status() const { return status_; }

  bool has_words() const override { return has_words_; }
  bool reaches(const PointerFacts& memory, const void* base) const override;
  // Asks only about streams that wait for no default stream: asking about that one could spoil a capture.
  bool is_through(void* stream) override;
  Status call(void* stream, void (*function)(void*), void* argument) override;
  Status copy(void* stream, const StreamBlock& block, const StreamCopy& what, std::uint64_t size_max) override;
  // Uses the copy engine, whose launch takes half the time, and which reaches the link's full rate.
  Status copy_at_once(void* stream, const StreamBlock& block, const StreamCopy& what) override;
  Status wait(void* stream, const StreamBlock& block, const std::uint32_t& word, std::uint32_t value) override;
  Status write(void* stream, const StreamBlock& block, const std::uint32_t& word, std::uint32_t value) override;
  void set(std::uint32_t& word, std::uint32_t value) override;
  Status drain(void* stream) override;

  const CudaContext& context() const { return context_; }
  // The fate of the context: it is lost with its GPU, or gone, also where another one has its address now.
  enum class Fate : std::uint8_t { alive, lost, gone };
  Fate fate() const;
  bool is_gone() const { return fate() == Fate::gone; }
  bool is_idle() { return memory().is_idle(1); }
  bool is_of(const cuda::CudaApi& api) const { return api.cuLaunchHostFunc == api_.cuLaunchHostFunc; }

 private:
  template <typename Call>
  Status in_context(const char* step, Call call) const {
    const ContextScope scope(api_, context_);
    return cuda_status(scope.entered() ? call() : scope.result(), step);
  }
  Status load();
  const void* pages_context() const override { return has_one_address() ? context_.handle : nullptr; }
  // True if page-locked memory has the same address on the device, as nearly everywhere.
  bool has_one_address() const { return own_block_ != nullptr && own_block_->device_address(nullptr) == 0; }
  Status pin(void* memory, std::size_t size, std::uint64_t& shift) override;
  cuda::CUresult launch(void* stream, const StreamBlock& block, const StreamCopy& what, std::uint64_t size_max) const;
  Status rehearse();

  const cuda::CudaApi api_;  // A copy: the set that loaded it may be gone before the home.
  const CudaContext context_;
  int ordinal_ = 0;
  cuda::CUmodule module_ = nullptr;
  cuda::CUfunction copy_ = nullptr;
  const StreamBlock* own_block_ = nullptr;
  bool has_words_ = false;
  Status status_;
};

// True if a stream may still be held for a request of ours, or have one before it.
bool is_any_cuda_stream_busy(const cuda::CudaApi& api);

// Returns when all streams of the context have done the work queued so far, or with an error. Spoils no capture where a
// word of device memory is free.
cuda::CUresult drain_cuda_streams(const cuda::CudaApi& api, const CudaContext& context);

// Fails with `unsupported` while the stream's work is being captured, or cannot be told. Its context must be current.
Status check_not_captured(const cuda::CudaApi& api, cuda::CUstream stream);

// The home of a stream by its handle; a default stream's is that of the caller's current context. Fails with
// `unsupported` while the stream's work is being captured, which the call does not spoil, and with the driver's
// "invalid context" for a default stream without a current context.
Result<StreamHome*> find_cuda_stream_home(const cuda::CudaApi& api, void* stream);

}  // namespace penstock::core
