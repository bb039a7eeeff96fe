// SPDX-License-Identifier: Apache-2.0

// Finds the word that the user probably meant. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace penstock::tools {

// The known word that is the fewest slips away. A slip is a letter too many, too few or different, or two neighbouring
// letters that changed places. One slip is allowed for each three letters, three at most; "" if no word is so near.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// "; did you mean '--depth'?", or "".
std::string proposal(std::string_view word, const std::vector<std::string>& known);

}  // namespace penstock::tools
