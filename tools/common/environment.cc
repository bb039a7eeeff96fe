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

}  // namespace

bool is_library_setting(std::string_view name) {
  return std::find(std::begin(kSettings), std::end(kSettings), name) != std::end(kSettings);
}

EnvironmentSettings environment_settings() {
  EnvironmentSettings settings;
  for (const char* const* entry = core::process_variables(); entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || !text.starts_with(kPrefix)) continue;
    auto& list = is_library_setting(text.substr(0, equals)) ? settings.known : settings.unknown;
    list.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  std::sort(settings.known.begin(), settings.known.end());
  std::sort(settings.unknown.begin(), settings.unknown.end());
  return settings;
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
