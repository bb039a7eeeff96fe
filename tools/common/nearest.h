// SPDX-License-Identifier: Apache-2.0

// Finds the word that the user probably meant. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace penstock::tools {

// The known word that is the fewest slips away. A slip is a letter too many, too few or different. Two are allowed, and
// three in a word of nine letters or more; "" if no word is so near.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// True if `word` is a part of the text, in capitals or not. A part of fewer than three letters tells nothing.
bool contains(std::string_view text, std::string_view word);

// "; did you mean '--depth'?": the nearest word, else up to five that contain this one; or "".
std::string proposal(std::string_view word, const std::vector<std::string>& known);
// The same, and if it is "", the variable whose name is near.
std::string proposal_or_variable(std::string_view word, const std::vector<std::string>& known);

}  // namespace penstock::tools
