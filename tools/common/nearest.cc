// SPDX-License-Identifier: Apache-2.0

#include "tools/common/nearest.h"

#include <fmt/format.h>

#include <algorithm>

namespace penstock::tools {
namespace {

constexpr std::size_t kLettersASlip = 3, kSlipsMost = 3, kLettersMost = 64;

// The number of slips (see nearest()) between two words.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t other = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, other});
      const bool changed_places = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (changed_places) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  if (word.size() > kLettersMost) return "";
  std::string best;
  std::size_t least = std::min(kSlipsMost, word.size() / kLettersASlip) + 1;
  for (const std::string& each : known) {
    if (const std::size_t slips = distance(word, each); slips < least) {
      least = slips;
      best = each;
    }
  }
  return best;
}

std::string proposal(std::string_view word, const std::vector<std::string>& known) {
  const std::string meant = nearest(word, known);
  return meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant);
}

}  // namespace penstock::tools
