// SPDX-License-Identifier: Apache-2.0

// The needs of single paths. Each need is judged once, as a finding that passes, fails, warns of a slower way or of a
// setting, or is unknown because only a try shows it. Pure.
#pragma once

#include <string>

#include "facts/finding.h"
#include "facts/machine.h"
#include "facts/storage_kind.h"

namespace penstock::facts {

Finding need_gpu(const Machine& machine);
// Says why host memory stands in for a GPU: the library's own reason, unless it asks for the driver of a GPU that is
// not there. The remedy is "" where it was asked for.
Finding why_stand_in(const Machine& machine, const std::string& reason);
Finding why_stand_in_here(const std::string& reason);  // The same for this machine, whose bus it reads.
Finding need_driver(const Machine& machine);
Finding need_of(const core::Finding& finding);  // Makes a need of an obstacle.
// Judges the device memory: a GPU's, or on a machine without GPUs the host memory in its place.
Finding need_device(const Machine& machine);
Finding need_io_uring(const Machine& machine);
Finding need_locked_memory(const Machine& machine);
// Judges whether io_uring takes dma-bufs as buffers: on this machine by asking, elsewhere by the kernel's version.
Finding need_dmabuf_kernel(const Machine& machine);
// Judges whether nvidia-fs, in the newest version that is known, may be loaded on this kernel.
Finding need_kernel_for_nvidia_fs(const Machine& machine);
Finding need_nvidia_fs(const Machine& machine);
// Judges whether a storage driver has registered with nvidia-fs, by its name there. Unknown if the driver has the hooks
// but nothing has opened nvidia-fs yet, and if the kernel hides its symbols.
Finding need_registration(const Machine& machine, std::string_view module);
// Judges the needs of `path` (nvfs or vendor) for this file system: a storage driver that has registered with
// nvidia-fs, a file system that nvidia-fs supports, and no setup that is known to corrupt bytes.
Findings needs_of_storage(const Machine& machine, const core::FileSystem& storage, int path);
Finding need_nvidia_fs_version(const Machine& machine);
Finding need_vendor_library(const Machine& machine);
Finding need_udev(const Machine& machine);
// Says what to do about a setting of cuFile's that forces all bytes through host memory.
std::string remedy_of_forcing(const Process& process, core::Setting setting);

// Judges the settings from the environment and cuFile's configuration: fails if they keep a session, or cuFile's
// driver, from opening.
Finding settings_finding(const Machine& machine);

std::string bytes_text(std::uint64_t bytes);  // "8 MiB", "unlimited"

}  // namespace penstock::facts
