// SPDX-License-Identifier: Apache-2.0

// What a node's kernel alone puts in a path's way, by its release: facts/ is asked, as for a machine of which nothing
// else is known. For checks, plans and choices. Pure.
#pragma once

#include <optional>
#include <string>

#include "facts/finding.h"

namespace penstock::tools::k8s {

// The first obstacle to the path (penstock_path) on this kernel ("5.15.0-91-generic"); nothing if none is known, or if
// the text is no release.
std::optional<facts::Finding> kernel_stop(int path, const std::string& release);

}  // namespace penstock::tools::k8s
