// SPDX-License-Identifier: Apache-2.0

// A value, or a sentence for people that says why there is none. A Status has room only for a step that is known
// beforehand; but in a file with thousands of tensors, users must read which one is wrong and how. Only functions that
// run once for a file return it, since a sentence needs memory.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/invariant.h"

namespace penstock::core {

struct Fault {
  std::string text;          // Fit for a terminal and of limited length, whatever it quotes.
  bool is_shortage = false;  // There was no memory; it says nothing about the file.
};

// Asking for a missing value or fault breaks an invariant.
template <typename T>
class [[nodiscard]] Outcome {
 public:
  Outcome(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Outcome(Fault fault) : state_(std::in_place_index<1>, std::move(fault)) {}

  bool ok() const { return state_.index() == 0; }
  const Fault& fault() const {
    const Fault* fault = std::get_if<1>(&state_);
    PENSTOCK_INVARIANT(fault != nullptr);
    return *fault;
  }
  T& value() {
    T* value = std::get_if<0>(&state_);
    PENSTOCK_INVARIANT(value != nullptr);
    return *value;
  }
  const T& value() const { return const_cast<Outcome*>(this)->value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }

 private:
  std::variant<T, Fault> state_;
};

// The text is so short that it allocates no memory.
inline Fault no_memory() { return {"no memory left", true}; }

}  // namespace penstock::core
