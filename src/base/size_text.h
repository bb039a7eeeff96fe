// SPDX-License-Identifier: Apache-2.0

// Sizes as people read them, in binary units.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::core {

std::string size_text(std::uint64_t bytes);  // "1.50 GiB", "4 KiB", "17 B"

}  // namespace penstock::core
