// SPDX-License-Identifier: Apache-2.0

// Judges how a path stands, why, and what is to be done, all from its needs.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/invariant.h"
#include "core/paths.h"
#include "facts/codes.h"
#include "facts/outlook.h"

namespace penstock::facts {
namespace {

bool is_of(const Finding& need, Standing standing) {
  switch (standing) {
    case Standing::closed: return need.state == State::fail;
    case Standing::off: return need.is_switch;
    case Standing::unknown: return need.state == State::unknown;
    case Standing::usable: break;
  }
  return need.state == State::warn;
}

}  // namespace

bool is_direct_path(int path) {
  const bool is_known = path >= 0 && path < static_cast<int>(core::kPathCount);
  return is_known && core::traits_of(static_cast<core::PathId>(path)).direct;
}

const char* standing_name(Standing standing) {
  constexpr const char* kNames[] = {"usable", "off", "unknown", "closed"};
  return kNames[static_cast<std::size_t>(standing)];
}

std::ptrdiff_t PathOutlook::count(Standing standing) const {
  return std::count_if(needs.begin(), needs.end(), [&](auto& need) { return is_of(need, standing); });
}

Standing PathOutlook::standing() const {
  for (const Standing standing : {Standing::closed, Standing::off, Standing::unknown}) {
    if (count(standing) > 0) return standing;
  }
  return Standing::usable;
}

bool PathOutlook::is_once_set() const { return standing() == Standing::off && doubt() == nullptr; }

const Finding* PathOutlook::reason() const {
  const Standing now = standing();
  const auto found = std::find_if(needs.begin(), needs.end(), [&](auto& one) { return is_of(one, now); });
  return found == needs.end() ? nullptr : &*found;
}

const Finding* PathOutlook::doubt() const {
  const auto found = std::find_if(needs.begin(), needs.end(), [](auto& one) { return is_of(one, Standing::unknown); });
  return standing() != Standing::off || found == needs.end() ? nullptr : &*found;
}

std::string PathOutlook::sentence() const {
  if (reason() == nullptr) return "";
  if (doubt() == nullptr) return reason()->sentence;
  return fmt::format("{}; whether it works once it is on is unknown: {}", reason()->sentence, doubt()->sentence);
}

std::string PathOutlook::remedy() const {
  if (reason() == nullptr) return "";
  if (doubt() == nullptr || doubt()->remedy.empty()) return reason()->remedy;
  return fmt::format("First: {} Then: {}", doubt()->remedy, reason()->remedy);
}

std::string PathOutlook::reason_name() const {
  const Finding* const first = reason();
  if (first == nullptr) return penstock_reason_name(PENSTOCK_REASON_NONE);
  const Code* const known = code_named(first->code);
  if (known == nullptr || known->reason.empty()) return first->code;
  return std::string(path == PENSTOCK_PATH_VENDOR && !known->of_vendor.empty() ? known->of_vendor : known->reason);
}

const PathOutlook& Outlook::of(int path) const {
  const auto found = std::find_if(paths.begin(), paths.end(), [&](auto& one) { return one.path == path; });
  PENSTOCK_INVARIANT(found != paths.end());
  return *found;
}

const PathOutlook* Outlook::first_usable() const {
  const auto moves = [](const PathOutlook& one) { return one.path != PENSTOCK_PATH_HOST && one.is_usable(); };
  const auto found = std::find_if(paths.begin(), paths.end(), moves);
  return found == paths.end() ? nullptr : &*found;
}

const PathOutlook* Outlook::best_direct() const {
  const PathOutlook* best = nullptr;
  for (const PathOutlook& one : paths) {
    if (!is_direct_path(one.path) || one.standing() == Standing::closed) continue;
    if (best == nullptr || one.standing() < best->standing()) best = &one;
  }
  return best;
}

const PathOutlook& Outlook::by_nvidia_fs() const {
  const PathOutlook &own = of(PENSTOCK_PATH_NVFS), &vendor = of(PENSTOCK_PATH_VENDOR);
  return vendor.standing() <= own.standing() ? vendor : own;
}

}  // namespace penstock::facts
