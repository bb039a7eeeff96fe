// SPDX-License-Identifier: Apache-2.0

// Size classes of requests, for quantities that are measured for each size: by the tuner, and by the registration
// cache.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace penstock::core {

// Twelve classes: less than a mebibyte, then one for each power of two, the last for a gibibyte and more.
constexpr unsigned kSizeClasses = 12;

constexpr unsigned size_class(std::uint64_t bytes) {
  return std::min(static_cast<unsigned>(std::bit_width(bytes >> 20)), kSizeClasses - 1);
}

}  // namespace penstock::core
