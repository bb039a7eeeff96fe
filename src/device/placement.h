// SPDX-License-Identifier: Apache-2.0

// PENSTOCK_PLACEMENT: the places that the user wants for a session's threads and pinned memory. The default is near the
// GPU that they work for (locality.h). It can also be off, or a NUMA node or CPUs that the user names, for all devices
// and for host memory. A thread never runs where it was not allowed to, whatever this says.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/cpus.h"
#include "base/status.h"

namespace penstock::core {

struct Placement {
  enum class By : std::uint8_t { device, nothing, node, cpus };
  By by = By::device;
  int node = -1;  // The named node, or the node of all the CPUs; -1 if there is none.
  CpuSet cpus;    // The named CPUs, or those of the node.

  // True if it is the same for every device and for host memory.
  bool is_fixed() const { return by == By::node || by == By::cpus; }
};

// Parses "auto", "off", "node:1", "cpus:0-15,32-47"; nothing for any other text.
std::optional<Placement> parse_placement(std::string_view text);
// For the table of settings.
bool is_placement(std::string_view text);

// Completes a placement for this machine: the CPUs of a node, the node of CPUs. Fails with bad_setting if there is no
// such node, or none of the CPUs is `allowed`. `root` is "" for the machine itself.
Result<Placement> placement_on(const std::string& root, const Placement& said, const CpuSet& allowed);

// Describes a placement for people: "node:1: pinned memory on NUMA node 1, threads on CPUs 16-31".
std::string placement_text(const Placement& placement);

}  // namespace penstock::core
