// SPDX-License-Identifier: Apache-2.0

#include "tools/common/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/edit_distance.h"
#include "facts/environment.h"

namespace penstock::tools {
namespace {

constexpr std::size_t kLettersOfAPart = 3, kLettersMost = 64, kProposalsMost = 5;

// A swap of two neighbouring letters is two slips.
std::size_t slips_allowed(std::string_view word) {
  return word.size() < 4 ? 0 : std::clamp<std::size_t>(word.size() / 3, 2, 3);
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char letter) { return std::tolower(letter); });
  return result;
}

std::vector<std::string> names_with(std::string_view word, const std::vector<std::string>& known) {
  std::vector<std::string> found;
  for (const std::string& each : known) {
    if (found.size() < kProposalsMost && contains(each, word)) found.push_back(each);
  }
  return found;
}

std::string question(std::string_view meant) { return fmt::format("; did you mean '{}'?", meant); }

}  // namespace

bool contains(std::string_view text, std::string_view word) {
  const bool is_telling = word.size() >= kLettersOfAPart && word.size() <= kLettersMost;
  return is_telling && lower(text).find(lower(word)) != std::string::npos;
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  if (word.size() > kLettersMost) return "";
  std::string best;
  std::size_t least = slips_allowed(word) + 1;
  for (const std::string& each : known) {
    if (const std::size_t slips = core::edit_distance(word, each); slips < least) {
      least = slips;
      best = each;
    }
  }
  return best;
}

std::string proposal(std::string_view word, const std::vector<std::string>& known) {
  std::vector<std::string> meant = {nearest(word, known)};
  if (meant.front().empty()) meant = names_with(word, known);
  return meant.empty() ? "" : question(fmt::format("{}", fmt::join(meant, "', '")));
}

std::string proposal_or_variable(std::string_view word, const std::vector<std::string>& known) {
  const std::string meant = proposal(word, known);
  const std::string variable = meant.empty() ? facts::nearest_setting(word) : "";
  return variable.empty() ? meant : question(variable);
}

}  // namespace penstock::tools
