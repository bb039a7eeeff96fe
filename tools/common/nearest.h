// SPDX-License-Identifier: Apache-2.0

// The word that was probably meant. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace penstock::tools {

// The known word that is the fewest slips away: a letter too many, too few or another one, or two that changed places.
// One slip for each three letters counts, at most three; "" if no word is so near.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// "; did you mean '--depth'?", or "".
std::string proposal(std::string_view word, const std::vector<std::string>& known);

}  // namespace penstock::tools
