// SPDX-License-Identifier: Apache-2.0

// penstock.DeviceMemory: memory of one of a session's devices, for programs that have no other way to allocate it.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>

#include "python/native/session.h"

namespace penstock::python {

class DeviceMemory {
 public:
  DeviceMemory(std::shared_ptr<SessionHandle> session, std::uint32_t device, std::uint64_t size);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* data() const { return data_; }
  std::uint64_t size() const { return size_; }
  bool is_closed() const { return session_->is_closed(); }
  std::uint32_t device() const { return device_; }
  void upload(nanobind::handle source, std::uint64_t offset);
  nanobind::bytes download(std::uint64_t offset, std::int64_t size);

 private:
  void check_range(std::uint64_t offset, std::uint64_t size) const;

  const std::shared_ptr<SessionHandle> session_;
  const std::uint32_t device_;
  const std::uint64_t size_;
  void* data_ = nullptr;
};

}  // namespace penstock::python
