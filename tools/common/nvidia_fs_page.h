// SPDX-License-Identifier: Apache-2.0

// Prints what the kernel module nvidia-fs counted itself, for every command that shows it beside our own counts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "facts/machine.h"

namespace penstock::tools {

constexpr const char* kNvidiaFsTitle = "Counted by nvidia-fs, of all programs of the machine";

// Lines by the module's own names; none if it counted nothing, or is not loaded.
std::vector<std::string> nvidia_fs_lines(const core::NvidiaFsStats& stats);
// The title and the lines, or "".
std::string nvidia_fs_text(const core::NvidiaFsStats& stats);
// Null if it counted nothing, or is not loaded.
nlohmann::ordered_json nvidia_fs_json(const core::NvidiaFsStats& stats);

core::NvidiaFsStats this_machines_nvidia_fs();
// Returns what was counted from `before` on. Numbers that did not grow are left out, and so is memory that is pinned
// now.
core::NvidiaFsStats growth_of(const core::NvidiaFsStats& before, const core::NvidiaFsStats& after);

}  // namespace penstock::tools
