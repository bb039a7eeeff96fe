// SPDX-License-Identifier: Apache-2.0

// Judges how a path stands, why, and what is to be done, all from its needs.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
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

bool is_before_all(const Finding& need) {
  const std::string_view code = need.code;
  return need.state == State::fail && (need.is_of_hardware || code == "gpu" || code == "settings");
}

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

bool PathOutlook::is_beyond_repair() const {
  return std::any_of(needs.begin(), needs.end(), [](auto& need) {
    return need.state == State::fail && (need.is_of_hardware || need.remedy.empty());
  });
}

const Finding* PathOutlook::reason() const {
  const Standing now = standing();
  const auto found = std::find_if(needs.begin(), needs.end(), [&](auto& one) { return is_of(one, now); });
  return found == needs.end() ? nullptr : &*found;
}

const Finding* PathOutlook::doubt() const {
  const auto found = std::find_if(needs.begin(), needs.end(), [](auto& one) { return is_of(one, Standing::unknown); });
  return standing() != Standing::off || found == needs.end() ? nullptr : &*found;
}

std::vector<const Finding*> PathOutlook::steps() const {
  std::vector<const Finding*> steps;
  const auto first = std::find_if(needs.begin(), needs.end(), is_before_all);
  if (first != needs.end()) return {&*first};
  const Standing now = standing();
  if (now == Standing::usable) return steps;
  for (const Standing kind : {Standing::closed, Standing::unknown, Standing::off}) {
    for (const Finding& one : needs) {
      if (is_of(one, kind)) steps.push_back(&one);
    }
  }
  return steps;
}

std::string PathOutlook::sentence() const {
  if (reason() == nullptr) return "";
  if (standing() == Standing::closed) {
    const Finding* const least = steps().front();
    const bool is_told = least == reason() || !least->is_of_hardware;
    return is_told ? reason()->sentence
                   : fmt::format("{}; besides, no setting helps: {}", reason()->sentence, least->sentence);
  }
  if (standing() != Standing::off) return reason()->sentence;
  std::string text;
  for (const Finding& one : needs) {
    if (one.is_switch) text += (text.empty() ? "" : "; besides, ") + one.sentence;
  }
  if (doubt() == nullptr) return text;
  return fmt::format("{}; whether it works once it is on is unknown: {}", text, doubt()->sentence);
}

namespace {

// The remedy of a kernel without P2PDMA says which versions are right, too.
bool is_in_another(const Finding& step, const std::vector<const Finding*>& steps) {
  const std::string_view code = step.code;
  if (code != "kernel_too_old" && code != "kernel_6_16") return false;
  return std::ranges::any_of(steps, [](auto* one) { return std::string_view(one->code) == "kernel_no_p2pdma"; });
}

}  // namespace

std::vector<std::string> PathOutlook::remedies() const {
  std::vector<std::string> told;
  if (is_usable() && reason() != nullptr && !reason()->remedy.empty()) told.push_back(reason()->remedy);
  const std::vector<const Finding*> all = steps();
  for (const Finding* const one : all) {
    if (one->state == State::fail && one->remedy.empty()) return {};  // Then all the rest would not help.
    if (is_in_another(*one, all)) continue;
    const bool is_new = std::find(told.begin(), told.end(), one->remedy) == told.end();
    if (is_new && !one->remedy.empty()) told.push_back(one->remedy);
  }
  return told;
}

std::string PathOutlook::remedy() const {
  const std::vector<std::string> told = remedies();
  if (told.size() < 2) return told.empty() ? "" : told.front();
  return fmt::format("First: {}", fmt::join(told, " Then: "));
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

bool Outlook::is_beyond_repair() const {
  return std::all_of(paths.begin(), paths.end(),
                     [](auto& one) { return !is_direct_path(one.path) || one.is_beyond_repair(); });
}

const PathOutlook* Outlook::best_direct() const {
  const PathOutlook* best = nullptr;
  for (const PathOutlook& one : paths) {
    if (!is_direct_path(one.path) || one.standing() == Standing::closed) continue;
    if (best == nullptr || one.standing() < best->standing()) best = &one;
  }
  return best;
}

bool is_more_direct(const Outlook& one, const Outlook& other) {
  const auto rank = [](const Outlook& outlook) {
    const PathOutlook *const direct = outlook.best_direct(), *const first = outlook.first_usable();
    return std::pair(direct == nullptr ? Standing::closed : direct->standing(),
                     first == nullptr ? outlook.paths.size() : static_cast<std::size_t>(first - outlook.paths.data()));
  };
  return rank(one) < rank(other);
}

const PathOutlook& Outlook::by_nvidia_fs() const {
  const PathOutlook &own = of(PENSTOCK_PATH_NVFS), &vendor = of(PENSTOCK_PATH_VENDOR);
  return vendor.standing() <= own.standing() ? vendor : own;
}

std::string Outlook::sentence_by_nvidia_fs() const {
  const PathOutlook &own = of(PENSTOCK_PATH_NVFS), &vendor = of(PENSTOCK_PATH_VENDOR);
  if (own.sentence() == vendor.sentence() || by_nvidia_fs().is_usable()) return by_nvidia_fs().sentence();
  return fmt::format("vendor: {}; nvfs: {}", vendor.sentence(), own.sentence());
}

std::string Outlook::remedy_by_nvidia_fs() const {
  const PathOutlook &own = of(PENSTOCK_PATH_NVFS), &vendor = of(PENSTOCK_PATH_VENDOR);
  const bool is_one = own.sentence() == vendor.sentence() || own.remedy().empty() || vendor.remedy().empty();
  if (is_one || by_nvidia_fs().is_usable()) return by_nvidia_fs().remedy();
  return fmt::format("For vendor: {} Or for nvfs: {}", vendor.remedy(), own.remedy());
}

}  // namespace penstock::facts
