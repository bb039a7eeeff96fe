// SPDX-License-Identifier: Apache-2.0

// What a node's kernel alone puts in a path's way, by its release: facts/ is asked, as for a machine of which nothing
// else is known. For checks, plans and choices. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "facts/finding.h"

namespace penstock::tools::k8s {

// The first obstacle to the path (penstock_path) on this kernel ("5.15.0-91-generic"); nothing if none is known, or if
// the text is no release.
std::optional<facts::Finding> kernel_stop(int path, const std::string& release);

// Why nvidia-fs of this version ("2.17.5") goes with neither this driver nor this kernel, by the table that is used for
// machines; either may be "" for unknown. A finding that is not failed is a doubt.
facts::Findings nvidia_fs_stops(const std::string& gds, const std::string& driver, const std::string& kernel);

// Says of an image, after its name, that a driver ("550.90.07") is too old for the CUDA that the name tells
// ("nvidia/cuda:13.0.1-runtime", "base:2.9-cu130"); "" if it is not, or if either is not known.
std::string too_old_for_image(std::string_view image, const std::string& driver);

}  // namespace penstock::tools::k8s
