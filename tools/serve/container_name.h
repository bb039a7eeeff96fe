// SPDX-License-Identifier: Apache-2.0

// Finds the pod and container of a process in its /proc/PID/cgroup. Pure, and safe for any input.
#pragma once

#include <compare>
#include <string>
#include <string_view>

namespace penstock::tools {

// Both fields consist of [0-9a-f-] only.
struct ContainerName {
  std::string pod_uid;       // "" for a process outside pods.
  std::string container_id;  // "" for a process outside containers.
  friend auto operator<=>(const ContainerName&, const ContainerName&) = default;
};

// The outermost names count: groups that a container makes below its own are not trusted.
ContainerName container_of(std::string_view cgroups);

}  // namespace penstock::tools
