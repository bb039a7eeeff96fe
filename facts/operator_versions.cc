// SPDX-License-Identifier: Apache-2.0

#include "facts/operator_versions.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

namespace penstock::facts {
namespace {

constexpr OperatorVersion kVersions[] = {
    {"v23.9.1", "535.129.03", "2.17.5", "", "1.14.3", ""},
    {"v24.6.2", "550.90.07", "2.17.5", "v2.4.1-1", "1.16.2", "0.16.2"},
    {"v24.9.2", "550.144.03", "2.20.5", "v2.4.1-2", "1.17.4", "0.17.0"},
    {"v25.3.0", "570.124.06", "2.20.5", "v2.4.4", "1.17.5", "0.17.4"},
    {"v25.3.4", "580.82.07", "2.20.5", "v2.5.1", "1.17.8", "0.17.4"},
    {"v25.10.0", "580.95.05", "2.26.6", "v2.5.1", "1.18.0", "0.18.1"},
    {"v25.10.1", "580.105.08", "2.26.6", "v2.5.1", "1.18.1", "0.18.1"},
    {"v26.3.3", "580.126.20", "2.27.3", "v2.5.2", "1.19.1", "0.19.3"},
    {"v26.7.0", "595.91.07", "2.29.4", "v2.6", "1.20.0", "0.20.0"},
};

// Systems that have an image of nvidia-fs; OpenShift has one from version `first` on.
struct GdsSystem {
  std::string_view name;
  Version first = {};
};
constexpr GdsSystem kGdsSystems[] = {
    {"ubuntu22.04"}, {"ubuntu24.04"}, {"rhcos", {4, 18, 0}}, {"openshift", {4, 18, 0}}};

// The version from which on a runtime's seccomp profile blocks io_uring; 0: every version blocks it.
struct RuntimeProfile {
  std::string_view name;
  int blocks_from;
};
constexpr RuntimeProfile kProfiles[] = {{"containerd", 2}, {"docker", 25}, {"cri-o", 0}, {"crio", 0}, {"podman", 0}};

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

}  // namespace

std::span<const OperatorVersion> operator_versions() { return kVersions; }

std::optional<Version> version_of(std::string_view text) {
  if (text.starts_with('v')) text.remove_prefix(1);
  Version version = {};
  for (std::size_t i = 0; i < version.size(); ++i) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version[i]);
    if (error != std::errc()) return i > 0 ? std::optional(version) : std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.starts_with('.')) break;
    text.remove_prefix(1);
  }
  return version;
}

std::string version_text(const Version& version) { return fmt::format("{}.{}", version[0], version[1]); }

const OperatorVersion* operator_version(std::string_view release) {
  if (release.empty()) return std::prev(std::end(kVersions));
  const auto wanted = version_of(release);
  const OperatorVersion* found = nullptr;
  for (const OperatorVersion& one : kVersions) {
    const Version known = *version_of(one.release);
    if (known == wanted) return &one;
    if (wanted && known[0] == (*wanted)[0] && known[1] == (*wanted)[1]) found = &one;
  }
  return found;
}

std::optional<bool> has_gds_image(std::string_view os) {
  if (os.empty()) return {};
  return std::any_of(std::begin(kGdsSystems), std::end(kGdsSystems), [&](const GdsSystem& system) {
    if (!os.starts_with(system.name)) return false;
    auto version = version_of(os.substr(system.name.size()));
    constexpr int kJoined = 100;  // OpenShift 4.18 may be written as "418.94" on a node.
    if (version && (*version)[0] >= kJoined) version = {(*version)[0] / kJoined, (*version)[0] % kJoined, 0};
    return !version || *version >= system.first;
  });
}

std::optional<bool> allows_io_uring(std::string_view runtime) {
  for (const RuntimeProfile& profile : kProfiles) {
    if (!runtime.starts_with(profile.name)) continue;
    if (profile.blocks_from == 0) return false;
    const auto number = std::find_if(runtime.begin(), runtime.end(), is_digit);
    const auto version = version_of(runtime.substr(static_cast<std::size_t>(number - runtime.begin())));
    if (version) return (*version)[0] < profile.blocks_from;
  }
  return {};
}

}  // namespace penstock::facts
