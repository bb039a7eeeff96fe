// SPDX-License-Identifier: Apache-2.0

// The distance between two names, to suggest the name that was probably meant by a misspelt one.
#pragma once

#include <cstddef>
#include <string_view>

namespace penstock::core {

// The number of letters to change, add or leave out.
std::size_t edit_distance(std::string_view one, std::string_view other);

}  // namespace penstock::core
