// SPDX-License-Identifier: Apache-2.0

// The memory through which a sub-command moves data: a device's, or page-aligned host memory of any kind. It has one
// owner; the session that device memory belongs to must outlive it. Uploads and downloads that fail throw a Failure.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <utility>

#include "penstock/penstock.h"

namespace penstock::tools {

class Arena {
 public:
  static Arena on_device(penstock_session* session, unsigned gpu, std::size_t size);
  static Arena on_host(std::size_t size);
  // Takes over memory that was made elsewhere; `release` gives it back. `session` is null if the CPU can reach it.
  Arena(std::byte* data, std::size_t size, penstock_session* session, std::function<void()> release)
      : data_(data), size_(size), session_(session), release_(std::move(release)) {}
  Arena(Arena&& other) noexcept
      : data_(other.data_), size_(other.size_), session_(other.session_),
        release_(std::exchange(other.release_, nullptr)) {}
  Arena& operator=(Arena&&) = delete;
  ~Arena() {
    if (release_) release_();
  }

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  void upload(std::size_t offset, std::span<const std::byte> bytes);
  void download(std::size_t offset, std::span<std::byte> bytes) const;

 private:
  std::byte* data_;
  std::size_t size_;
  penstock_session* session_;
  std::function<void()> release_;
};

}  // namespace penstock::tools
