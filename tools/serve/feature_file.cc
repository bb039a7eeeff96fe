// SPDX-License-Identifier: Apache-2.0

#include "tools/serve/feature_file.h"

#include <fmt/format.h>

#include <ctime>

#include "tools/common/feature_prefix.h"

namespace penstock::tools {
namespace {

constexpr std::size_t kLabelMax = 63;
constexpr std::size_t kDriverNameMax = 32;
constexpr std::size_t kDriversMax = 16;

bool is_alphanumeric(char letter) {
  return (letter >= '0' && letter <= '9') || (letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z');
}

std::string time_text(std::chrono::system_clock::time_point when) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(when);
  std::tm parts{};
  char text[32] = "";
  ::gmtime_r(&seconds, &parts);
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts));
}

}  // namespace

std::string label_value(std::string_view text) {
  std::string value;
  for (const char letter : text.substr(0, kLabelMax)) {
    value += is_alphanumeric(letter) || letter == '.' || letter == '-' ? letter : '_';
  }
  while (!value.empty() && !is_alphanumeric(value.back())) value.pop_back();
  while (!value.empty() && !is_alphanumeric(value.front())) value.erase(0, 1);
  return value;
}

std::string feature_file_text(const NodeFacts& facts, std::chrono::system_clock::time_point expires) {
  std::string text = fmt::format("# +expiry-time={}\n", time_text(expires));
  const auto add = [&](const std::string& name, const std::string& value) {
    text += fmt::format("{}{}={}\n", kFeaturePrefix, name, value);
  };
  add("-version", label_value(penstock_version()));
  for (const facts::PathOutlook& path : facts.paths) {
    const std::string name = std::string("-path-") + penstock_path_name(path.path);
    add(name, path.is_usable() ? "true" : "false");
    add(name + "-standing", standing_name(path.standing()));
    if (!path.is_usable()) add(name + "-reason", label_value(path.reason_name()));
  }
  add("-iommu", core::iommu_mode_name(facts.iommu));
  add("-nvidia-fs", facts.nvidia_fs.is_loaded ? "true" : "false");
  std::size_t drivers = 0;
  for (const std::string& driver : facts.nvidia_fs.storage_drivers) {
    const std::string name = label_value(std::string_view(driver).substr(0, kDriverNameMax));
    if (!name.empty() && drivers++ < kDriversMax) add("-nvidia-fs-" + name, "true");
  }
  return text;
}

}  // namespace penstock::tools
