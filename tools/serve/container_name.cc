// SPDX-License-Identifier: Apache-2.0

#include "tools/serve/container_name.h"

#include <algorithm>

#include "topology/text.h"

namespace penstock::tools {
namespace {

constexpr std::size_t kHexUidSize = 32;  // The UID of a static pod is a checksum, without dashes.
constexpr std::size_t kIdSize = 64;

bool is_hex(std::string_view text) { return text.find_first_not_of("0123456789abcdef") == std::string_view::npos; }

// Reads a UID: "8-4-4-4-12" digits, for which systemd writes underscores, or 32 digits. "" for anything else.
std::string uid_of(std::string_view text) {
  std::string digits, uid(text);
  std::replace(uid.begin(), uid.end(), '_', '-');
  for (const char letter : uid) {
    if (letter != '-') digits += letter;
  }
  if (digits.size() != kHexUidSize || !is_hex(digits)) return "";
  if (uid.size() == kHexUidSize) return uid;
  for (const std::size_t dash : {8u, 13u, 18u, 23u}) {
    if (uid.size() != kHexUidSize + 4 || uid[dash] != '-') return "";
  }
  return uid;
}

// Reads the pod's group: "pod<uid>" with the driver cgroupfs, "kubepods-burstable-pod<uid>.slice" with systemd.
std::string pod_of(std::string_view group) {
  if (group.starts_with("pod")) return uid_of(group.substr(3));
  constexpr std::string_view kSlice = ".slice";
  const std::size_t pod = group.rfind("-pod");
  if (pod == std::string_view::npos || !group.ends_with(kSlice)) return "";
  group.remove_suffix(kSlice.size());
  return uid_of(group.substr(pod + 4));
}

// Reads the container's group: "<id>", "cri-containerd-<id>.scope", "crio-<id>.scope".
std::string id_of(std::string_view group) {
  constexpr std::string_view kScope = ".scope";
  if (group.ends_with(kScope)) group.remove_suffix(kScope.size());
  const std::string_view id = group.substr(group.rfind('-') + 1);
  return id.size() == kIdSize && is_hex(id) ? std::string(id) : "";
}

ContainerName container_of_path(std::string_view path) {
  ContainerName name;
  for (const std::string_view group : core::split(path, '/')) {
    if (!name.container_id.empty()) break;
    if (name.pod_uid.empty()) name.pod_uid = pod_of(group);
    name.container_id = id_of(group);
  }
  return name;
}

}  // namespace

// Reads "0::/path", or one line for each hierarchy of version 1; a container need not be in all of them.
ContainerName container_of(std::string_view cgroups) {
  ContainerName best;
  while (!cgroups.empty()) {
    std::string_view line = core::take_until(cgroups, '\n');
    core::take_until(line, ':');
    core::take_until(line, ':');
    const ContainerName name = container_of_path(line);
    const auto known = [](const ContainerName& one) { return !one.pod_uid.empty() + !one.container_id.empty(); };
    if (known(name) > known(best)) best = name;
  }
  return best;
}

}  // namespace penstock::tools
