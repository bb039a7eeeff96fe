#include "environment.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <numeric>

namespace penstock::tools {
namespace {

// Those that src/ asks the environment for; a test compares.
constexpr std::string_view kSettings[] = {
    "PENSTOCK_CHUNK_KIB",     "PENSTOCK_DEVICE", "PENSTOCK_DIRECT_IO",      "PENSTOCK_IO_URING", "PENSTOCK_KEPT_MIB",
    "PENSTOCK_NVIDIA_EXPORT", "PENSTOCK_PATHS",  "PENSTOCK_POLICY",         "PENSTOCK_REQUIRE",  "PENSTOCK_RING_MIB",
    "PENSTOCK_SCRATCH",       "PENSTOCK_VENDOR", "PENSTOCK_VENDOR_LIBRARY", "PENSTOCK_WORKERS"};
constexpr std::string_view kPrefix = "PENSTOCK_";
constexpr std::size_t kSlipsMax = 3;

// Letters to change, add or leave out.
std::size_t slips_between(std::string_view one, std::string_view other) {
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < other.size(); ++j) {
      const std::size_t changed = diagonal + (one[i] == other[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

bool is_library_setting(std::string_view name) {
  return std::find(std::begin(kSettings), std::end(kSettings), name) != std::end(kSettings);
}

EnvironmentSettings environment_settings() {
  EnvironmentSettings settings;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
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
    const std::size_t slips = slips_between(name, known);
    if (slips >= least) continue;
    nearest = known;
    least = slips;
  }
  return std::string(nearest);
}

}  // namespace penstock::tools
