// SPDX-License-Identifier: Apache-2.0

// NVIDIA's own libcufile.so.0, loaded by an absolute path and called through pointers. It has the same SONAME and
// symbols as Penstock's library, so it is never loaded by name, its own calls bind to itself first, and Penstock's own
// library is refused. There is one for each path in a process, shared by sessions; its driver is open as long as it
// lives. It is never unloaded, because threads of its own may run in it. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "base/status.h"
#include "path/pipeline/self_test.h"
#include "path/vendor/foreign_call.h"
#include "path/vendor/vendor_rules.h"

namespace penstock::core {

// The absolute path of the library in the first of the CUDA toolkit's usual places that has it, newest toolkit first;
// or "". `root` is the root of these places.
std::string find_vendor_library(const std::string& root);

// The file that the rules name, or else the one found in the usual places.
std::string vendor_file(const VendorRules& rules);

// Judges the file without loading it: vendor_library_missing, vendor_is_ourselves if the file holds this code, or none.
Reason look_at_vendor_file(const std::string& path);

// Judges, also without loading the library, if it may be direct on this machine, or why not.
Reason vendor_outlook(const VendorRules& rules);

class VendorLibrary {
 public:
  // Returns null on failure, with the reason: vendor_library_missing, vendor_is_ourselves, vendor_incomplete, or
  // vendor_refused with the number of its error if its driver does not open. ETIMEDOUT if that takes longer than
  // `patience`, ECHILD in a process that was forked after the library had been loaded.
  static std::shared_ptr<VendorLibrary> open(const std::string& path, std::chrono::milliseconds patience,
                                             Proof& why_not);
  ~VendorLibrary();
  VendorLibrary(const VendorLibrary&) = delete;
  VendorLibrary& operator=(const VendorLibrary&) = delete;

  // Failures carry an errno, or from 5001 on a number of the library's own, both in the operating system's domain. The
  // caller has entered the memory's device (Device::run_inside). `call` tracks when the library is entered and left.
  Result<void*> register_file(int fd, ForeignCall* call = nullptr);
  void deregister_file(void* handle);
  Result<std::size_t> read(void* handle, std::byte* memory, std::size_t size, std::uint64_t offset,
                           ForeignCall* call = nullptr);
  Result<std::size_t> write(void* handle, const std::byte* memory, std::size_t size, std::uint64_t offset,
                            ForeignCall* call = nullptr);

  // One of its calls never returned: from now on no file can be registered, and open files stay open.
  void give_up() { is_given_up_.store(true); }
  bool is_given_up() const { return is_given_up_.load(); }

 private:
  struct Calls;
  VendorLibrary(const Calls& calls, bool owns_driver);

  const std::unique_ptr<const Calls> calls_;
  const bool owns_driver_;
  const std::uint32_t forks_;
  std::atomic<bool> is_given_up_{false};
};

}  // namespace penstock::core
