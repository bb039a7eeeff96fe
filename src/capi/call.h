// SPDX-License-Identifier: Apache-2.0

// What the C API's entry points share: how a call fails, and where it ends (boundary.h).
#pragma once

#include <utility>

#include "capi/boundary.h"
#include "capi/session_handle.h"

namespace penstock::core {

inline penstock_status failed(Code code, const char* step) { return to_public(failure(code, step)); }

// An exported call that returns a status.
template <typename Call>
penstock_status status_call(const char* step, Call&& call) {
  return boundary(std::forward<Call>(call), [&] { return failed(Code::out_of_memory, step); });
}

// One that returns a number of something.
template <typename Call>
auto count_call(Call&& call) {
  return boundary(std::forward<Call>(call), [] { return decltype(call()){}; });
}

// Another number may come to mean something.
inline Result<Op> op_of(int is_write) {
  if (is_write == 0) return Op::read;
  if (is_write == 1) return Op::write;
  return failure(Code::invalid_argument, "tell reading (0) from writing (1)");
}

// As much of a message as fits, with a zero behind. Returns how long that is.
std::size_t copy_text(const std::string& message, char* text, std::size_t capacity);

}  // namespace penstock::core
