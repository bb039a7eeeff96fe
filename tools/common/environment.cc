// SPDX-License-Identifier: Apache-2.0

#include "tools/common/environment.h"

#include <algorithm>
#include <iterator>

#include "base/edit_distance.h"
#include "base/environment.h"

namespace penstock::tools {
namespace {

// Those that src/ asks the environment for; a test compares.
constexpr std::string_view kSettings[] = {
    "PENSTOCK_CHUNK_KIB",     "PENSTOCK_DEVICE", "PENSTOCK_DIRECT_IO",      "PENSTOCK_IO_URING", "PENSTOCK_KEPT_MIB",
    "PENSTOCK_NVIDIA_EXPORT", "PENSTOCK_PATHS",  "PENSTOCK_POLICY",         "PENSTOCK_REQUIRE",  "PENSTOCK_RING_MIB",
    "PENSTOCK_SCRATCH",       "PENSTOCK_VENDOR", "PENSTOCK_VENDOR_LIBRARY", "PENSTOCK_WORKERS"};
constexpr std::string_view kPrefix = "PENSTOCK_";
constexpr std::size_t kSlipsMax = 3;

bool is_known(std::string_view name) {
  return std::find(std::begin(kSettings), std::end(kSettings), name) != std::end(kSettings);
}

// Those that begin so.
Variables variables(std::string_view prefix) {
  Variables found;
  for (const char* const* entry = core::process_variables(); entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || !text.starts_with(prefix)) continue;
    found.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::string EnvironmentSettings::value_of(std::string_view name) const {
  const auto found = std::find_if(known.begin(), known.end(), [&](const auto& one) { return one.first == name; });
  return found == known.end() ? "" : found->second;
}

EnvironmentSettings environment_settings() {
  EnvironmentSettings settings;
  for (auto& one : variables(kPrefix)) (is_known(one.first) ? settings.known : settings.unknown).push_back(one);
  return settings;
}

Variables variables_for_library() {
  Variables all = variables("CUFILE_");
  for (auto& one : environment_settings().known) all.push_back(std::move(one));
  return all;
}

std::string nearest_setting(std::string_view name) {
  std::string_view nearest;
  std::size_t least = kSlipsMax + 1;
  for (const std::string_view known : kSettings) {
    const std::size_t slips = core::edit_distance(name, known);
    if (slips >= least) continue;
    nearest = known;
    least = slips;
  }
  return std::string(nearest);
}

}  // namespace penstock::tools
