// SPDX-License-Identifier: Apache-2.0

#include "k8s/rules.h"

#include <algorithm>

#include "base/edit_distance.h"
#include "k8s/rule_rows.h"

namespace penstock::tools::k8s {

std::span<const Rule> rules() { return kRules; }

const Rule* find_rule(std::string_view id) {
  const auto* found =
      std::find_if(std::begin(kRules), std::end(kRules), [&](const Rule& rule) { return rule.id == id; });
  return found == std::end(kRules) ? nullptr : found;
}

std::string_view rule_near(std::string_view id) {
  constexpr std::size_t kLongest = 40;
  if (id.size() > kLongest) return "";
  const auto* best = std::min_element(std::begin(kRules), std::end(kRules), [&](const Rule& one, const Rule& other) {
    return core::edit_distance(id, one.id) < core::edit_distance(id, other.id);
  });
  return core::edit_distance(id, best->id) <= std::max<std::size_t>(2, id.size() / 3) ? best->id : "";
}

}  // namespace penstock::tools::k8s
