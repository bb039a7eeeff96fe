// SPDX-License-Identifier: Apache-2.0

#include "tools/doctor/attempt.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace penstock::tools {
namespace {

// A setting for speed alone; trying it gains nothing if it is in force already.
constexpr const char* kOtherPolicy = "throughput";

std::string names_of(const facts::Variables& variables) {
  std::string names;
  for (const auto& [name, value] : variables) names += " " + name;
  return names;
}

Attempt attempt_without(const std::string& what, const facts::Variables& variables, Trial::Kind kind) {
  return {.trial = {what, "unset" + names_of(variables), 0, 0, kind}, .without = variables};
}

}  // namespace

facts::Variables speed_settings() {
  constexpr std::string_view kOfSpeed[] = {"bounce_mib", "chunk_kib", "direct_io",
                                           "io_uring",   "paths",     "policy",
                                           "vendor",     "workers",   "registration_cache_mib"};
  facts::Variables found = facts::environment_settings().known;
  std::erase_if(found, [&](const auto& variable) {
    return std::find(std::begin(kOfSpeed), std::end(kOfSpeed), facts::library_setting(variable.first)) ==
           std::end(kOfSpeed);
  });
  return found;
}

Session Attempt::open(const std::string& direct_io) const {
  SessionSettings wanted = settings;
  if (wanted.direct_io.empty()) wanted.direct_io = direct_io;
  const facts::WithoutVariables left_out(without);
  return open_session(wanted);
}

std::vector<Attempt> attempts_on_settings() {
  std::vector<Attempt> attempts = {
      {.trial = {"spend more CPU time on it", fmt::format("export PENSTOCK_POLICY={}", kOtherPolicy), 0, 0,
                 Trial::Kind::more_cpu},
       .settings = {.more = {{"policy", kOtherPolicy}}}}};
  const facts::Variables set = speed_settings();
  if (set.empty()) return attempts;
  attempts.push_back(attempt_without("leave the settings to the library", set, Trial::Kind::no_settings));
  if (set.size() == 1) return attempts;
  for (const auto& one : set) {
    attempts.push_back(attempt_without(fmt::format("do without {}, and keep the other settings", one.first), {one},
                                       Trial::Kind::usual));
  }
  return attempts;
}

Gain gained(const Rate& with, const Rate& without) {
  const Ratio ratio = paired_ratio(without.turns, with.turns);
  switch (judge(ratio)) {
    case Judged::gain: return {with.bytes_per_second, {}};
    case Judged::none: return {};
    case Judged::unknown: break;
  }
  return {0, ratio};
}

}  // namespace penstock::tools
