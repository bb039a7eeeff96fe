// SPDX-License-Identifier: Apache-2.0

// A fact that /proc and /sys may not show: yes, no or unknown.
#pragma once

#include <cstdint>

namespace penstock::core {

enum class Tristate : std::uint8_t { no, yes, unknown };

constexpr const char* tristate_name(Tristate value) {
  return value == Tristate::no ? "no" : value == Tristate::yes ? "yes" : "unknown";
}

}  // namespace penstock::core
