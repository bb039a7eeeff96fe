// SPDX-License-Identifier: Apache-2.0

// One of the library's kernels in one context. One thread loads it when it is first wanted; no other thread waits for
// that. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "base/mutex.h"
#include "device/cuda/cuda_api.h"

namespace penstock::core {

class CudaKernel {
 public:
  // `text` makes the kernel's PTX, and is called once. `ordinal` is the driver's.
  CudaKernel(const cuda::CudaApi& api, int ordinal, const char* name, std::function<std::string()> text)
      : api_(api), ordinal_(ordinal), name_(name), text_(std::move(text)) {}

  // The kernel in the current context. Null if it cannot be loaded, or another thread is loading it. Page-locked host
  // memory has the same address for the kernel. `on_load` is called once, after a successful load.
  cuda::CUfunction function(const std::function<void()>& on_load = {});

 private:
  cuda::CUfunction load() const;

  const cuda::CudaApi& api_;
  const int ordinal_;
  const char* const name_;
  const std::function<std::string()> text_;
  Mutex loading_;  // Held by the thread that loads it.
  std::atomic<bool> tried_{false};
  std::atomic<cuda::CUfunction> function_{nullptr};
};

}  // namespace penstock::core
