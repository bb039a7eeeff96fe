// SPDX-License-Identifier: Apache-2.0

// Extents of one file that stay registered with a device, so that kernels of the program's read them by themselves
// (frontend/gpu_file.h). Filled by PathHooks::keep(); they are evicted only after release(). Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "path/pagecache/registration_cache.h"

namespace penstock::core {

class ResidentPages {
 public:
  // Registers no further extent once that is false.
  explicit ResidentPages(std::function<bool()> goes_on) : goes_on_(std::move(goes_on)) {}
  ResidentPages(const ResidentPages&) = delete;
  ResidentPages& operator=(const ResidentPages&) = delete;
  ~ResidentPages() { release(); }

  // The address of each extent of the file in this process; null if it is not registered.
  std::span<std::byte* const> addresses() const { return addresses_; }
  std::uint64_t bytes() const { return bytes_; }  // This many are registered.
  // No kernel may use the pages any more.
  void release();

  // Registers the extent that begins there, if its pages are in the page cache. False if it had been registered with
  // other pages, and was evicted: call it once more.
  bool add(RegistrationCache& cache, CachedFile& file, std::uint64_t begin, std::uint64_t bytes);

 private:
  const std::function<bool()> goes_on_;
  std::vector<Extent*> held_;
  std::vector<std::byte*> addresses_;  // By the extent's index.
  std::uint64_t bytes_ = 0;
};

}  // namespace penstock::core
