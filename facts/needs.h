// SPDX-License-Identifier: Apache-2.0

// The needs of single paths: each need once, as a finding that passes, fails, warns of a slower way or of a setting, or
// tells that only a try shows it. Pure.
#pragma once

#include <string>

#include "facts/finding.h"
#include "facts/machine.h"
#include "facts/storage_kind.h"

namespace penstock::facts {

Finding need_gpu(const Machine& machine);
Finding need_driver(const Machine& machine);
Finding need_of(const core::Finding& finding);  // An obstacle as a need.
// The memory that takes part: a GPU's, or where there is none the host's in its place.
Finding need_device(const Machine& machine);
Finding need_io_uring(const Machine& machine);
Finding need_locked_memory(const Machine& machine);
Finding need_nvidia_fs(const Machine& machine);
// Judges if a storage driver has registered with nvidia-fs, by its name there; unknown if it has the hooks and nothing
// has asked for them yet, and if the kernel hides its symbols.
Finding need_registration(const Machine& machine, std::string_view module);
// nvidia-fs as the client of path (nvfs or vendor) finds it for this file system: the driver of its drives or servers
// has registered, and the file system is one that it takes.
Findings needs_of_storage(const Machine& machine, const core::FileSystem& storage, int path);
Finding need_nvidia_fs_version(const Machine& machine);
Finding need_vendor_library(const Machine& machine);
Finding need_udev(const Machine& machine);

// The settings from the environment and cuFile's configuration: fails if no session, or no driver, opens with them.
Finding settings_finding(const Machine& machine);

std::string bytes_text(std::uint64_t bytes);  // "8 MiB", "unlimited"

}  // namespace penstock::facts
