// SPDX-License-Identifier: Apache-2.0

// A claim that files of /proc and /sys may leave open: yes, no or unknown.
#pragma once

#include <cstdint>

namespace penstock::core {

enum class Tristate : std::uint8_t { no, yes, unknown };

constexpr const char* tristate_name(Tristate value) {
  return value == Tristate::no ? "no" : value == Tristate::yes ? "yes" : "unknown";
}

}  // namespace penstock::core
