// SPDX-License-Identifier: Apache-2.0

// A list of registrations, the least recently used first. The list's owner guards it. Each registration holds its own
// links: taking one out needs no search and no allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/device.h"
#include "storage/page_mapping.h"

namespace penstock::core {

class Extent;

// File pages registered with a device. The thread that evicts it owns it, and no longer needs the file or the extent.
struct Registration {
  Extent* extent = nullptr;  // May be gone once the registration is evicted.
  DevicePages* device = nullptr;
  std::uint64_t begin = 0;  // Offset in the file.
  PageMapping mapping;
  bool writable = false;
  std::uint64_t used_at = 0;  // The list's copy of the last use, by which it sorts.

 private:
  friend class RegistrationList;
  Registration* older_ = nullptr;
  Registration* newer_ = nullptr;
};

class RegistrationList {
 public:
  RegistrationList() = default;
  RegistrationList(const RegistrationList&) = delete;
  RegistrationList& operator=(const RegistrationList&) = delete;
  ~RegistrationList();

  std::size_t size() const { return size_; }
  Registration* oldest() const { return oldest_; }  // Null if the list is empty.
  static Registration* next(const Registration& one) { return one.newer_; }

  // Inserts it in order of use. Fast for recently used ones.
  void insert(std::unique_ptr<Registration> one);
  std::unique_ptr<Registration> take(Registration& one);
  std::unique_ptr<Registration> take_oldest() { return oldest_ == nullptr ? nullptr : take(*oldest_); }
  void take_all(RegistrationList& other);

 private:
  Registration* oldest_ = nullptr;
  Registration* newest_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace penstock::core
