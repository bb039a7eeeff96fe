// SPDX-License-Identifier: Apache-2.0

// A kernel of ours in one context: loaded when it is first wanted, by one thread; no other waits for it. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "base/mutex.h"
#include "device/cuda/cuda_api.h"

namespace penstock::core {

class CudaKernel {
 public:
  // `text` makes the kernel's PTX, once. `ordinal` is the driver's.
  CudaKernel(const cuda::CudaApi& api, int ordinal, const char* name, std::function<std::string()> text)
      : api_(api), ordinal_(ordinal), name_(name), text_(std::move(text)) {}

  // In the context that is current. Null where it cannot be had, or is being loaded by another thread. Page-locked host
  // memory has the same address for it. `on_load` is called once, where loading went well.
  cuda::CUfunction function(const std::function<void()>& on_load = {});

 private:
  cuda::CUfunction load() const;

  const cuda::CudaApi& api_;
  const int ordinal_;
  const char* const name_;
  const std::function<std::string()> text_;
  Mutex loading_;  // Lets one thread load it.
  std::atomic<bool> tried_{false};
  std::atomic<cuda::CUfunction> function_{nullptr};
};

}  // namespace penstock::core
