// SPDX-License-Identifier: Apache-2.0

// How the core reports failure: small values, no exceptions, no allocation.
//
// A Status names the domain its number belongs to and the step that failed; the sentence for people is made where it is
// shown (describe() below, cufile/ for cuFile's numbers), never where the failure happens. Everything here is trivially
// copyable, so that completions can contain a Status.
#pragma once

#include <cerrno>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/invariant.h"

namespace penstock::core {

// Penstock's own failures. Numbers are stable: they are part of include/penstock/penstock.h.
enum class Code : std::int32_t {
  ok = 0,
  invalid_argument = 1,    // A null pointer, an unknown enumerator, an impossible size.
  negative_offset = 2,     // A file or buffer offset below zero.
  not_registered = 3,      // The handle or pointer is not (or no longer) registered.
  already_registered = 4,  // The same descriptor or base pointer is registered already.
  unsupported_file = 5,    // Neither a regular file nor a block device.
  unsupported_flags = 6,   // Open flags with which positioned I/O cannot work (O_APPEND, O_PATH).
  not_readable = 7,        // A read on a write-only descriptor.
  not_writable = 8,        // A write on a read-only descriptor.
  bad_pointer = 9,         // Neither host nor device knows memory at the pointer.
  out_of_range = 10,       // Past the end of a registered buffer.
  no_device = 11,          // No such device, or its driver cannot be used.
  path_refused = 12,       // The path demanded by configuration cannot move this request.
  unaligned_write = 13,    // The write needs a buffered descriptor beside the O_DIRECT one, and none could be opened.
  no_progress = 14,        // Repeated short transfers.
  out_of_memory = 15,      // No memory for bounce buffers.
  limit = 16,              // A named limit is reached (handles, queues, depth).
  closed = 17,             // The session is closed or closing.
  unsupported = 18,        // Not possible on this kernel, device or build.
  device_lost = 19,        // The device context was destroyed.
  past_allocation = 20,    // Past the end of an allocation.
  bad_setting = 21,        // A configuration value that makes no sense.
  denied = 22,             // The configuration's denylist names the file and allows no fallback.
  no_direct_path = 23,     // The configuration allows only direct paths, and this build has none.
  descriptor_lost = 24,    // The library's own descriptor of the file was closed by others.
  canceled = 25,           // Canceled before it began.
  timed_out = 26,          // Its deadline passed before it began.
  bad_stripe = 27,         // A striped object's manifest or member is not what it should be.
};

enum class Domain : std::uint8_t {
  penstock,  // code is a Code
  os,        // code is an errno
  driver,    // code is a number of a device driver; `driver` says which
};

struct [[nodiscard]] Status {
  // The failed step as a verb phrase ("read from the file"): a literal, or a text that is kept (kept_text.h).
  const char* step = "";
  std::int32_t code = 0;
  Domain domain = Domain::penstock;
  std::uint8_t driver = 0;  // In Domain::driver: the driver's number in the table of providers (device/); else 0.

  constexpr bool ok() const { return code == 0; }
  constexpr bool is(Code wanted) const {
    return domain == Domain::penstock && code == static_cast<std::int32_t>(wanted);
  }
  constexpr bool is_errno(int wanted) const { return domain == Domain::os && code == wanted; }
};
static_assert(std::is_trivially_copyable_v<Status>);

constexpr Status success() { return {}; }
constexpr Status failure(Code code, const char* step) {
  return {step, static_cast<std::int32_t>(code), Domain::penstock};
}
constexpr Status os_failure(int error_number, const char* step) { return {step, error_number, Domain::os}; }
constexpr Status driver_failure(std::uint8_t driver, int result, const char* step) {
  return {step, result, Domain::driver, driver};
}

// True if a flush has told that bytes could not be written. It tells so once: the next one succeeds without them
// (fsync(2)).
constexpr bool may_have_lost_bytes(const Status& flush) {
  return flush.is_errno(EIO) || flush.is_errno(ENOSPC) || flush.is_errno(EDQUOT);
}

// Makes one sentence of the step, the cause and, if there is one, the remedy. `driver` is the name of the driver whose
// number this is, if known.
std::string describe(const Status& status, const char* driver = "");

// A value, or the Status that says why there is none. Asking a failed Result for its value breaks an invariant.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Status status) : state_(std::in_place_index<1>, status) {}

  bool ok() const { return state_.index() == 0; }
  Status status() const { return ok() ? success() : *std::get_if<1>(&state_); }
  T& value() { return *checked(); }
  const T& value() const { return *const_cast<Result*>(this)->checked(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }

 private:
  T* checked() {
    T* value = std::get_if<0>(&state_);
    PENSTOCK_INVARIANT(value != nullptr);
    return value;
  }

  std::variant<T, Status> state_;
};

}  // namespace penstock::core
