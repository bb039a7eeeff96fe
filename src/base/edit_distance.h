// SPDX-License-Identifier: Apache-2.0

// How far apart two names are: for telling who misspelt one what was probably meant.
#pragma once

#include <cstddef>
#include <string_view>

namespace penstock::core {

// Letters to change, add or leave out.
std::size_t edit_distance(std::string_view one, std::string_view other);

}  // namespace penstock::core
