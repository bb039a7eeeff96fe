// SPDX-License-Identifier: Apache-2.0

// Which pod and container a process is in, by its /proc/PID/cgroup. Pure, and takes anything.
#pragma once

#include <compare>
#include <string>
#include <string_view>

namespace penstock::tools {

// Both are made of [0-9a-f-] alone.
struct ContainerName {
  std::string pod_uid;       // "" for a process outside of pods.
  std::string container_id;  // "" for one outside of containers.
  friend auto operator<=>(const ContainerName&, const ContainerName&) = default;
};

// The groups that a container makes below its own are not believed: the outermost names count.
ContainerName container_of(std::string_view cgroups);

}  // namespace penstock::tools
