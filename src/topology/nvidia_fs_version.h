// SPDX-License-Identifier: Apache-2.0

// Versions of the kernel module nvidia-fs, and a table of what is known to be wrong with them, some beside some kernels
// alone. Each row has its source. The paths nvfs and vendor and the rules of facts/ read this one table. A version
// that is not in it is not refused for its number: the path nvfs tests its interface (path/nvfs/nvfs_interface.h).
// Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "topology/root.h"
#include "topology/tristate.h"

namespace penstock::core {

struct NvidiaFs;

struct NvidiaFsVersion {
  unsigned major = 0, minor = 0, patch = 0;
  bool has_patch = true;  // /proc/driver/nvidia-fs/version has only two of the three numbers.
  bool operator==(const NvidiaFsVersion&) const = default;
  // NVIDIA's begin with 2. A stand-in for tests calls itself 0.x.
  bool is_stand_in() const { return major == 0; }
};
// Parses "2.28.4" or "2.28"; nothing if the text is no version.
std::optional<NvidiaFsVersion> parse_nvidia_fs_version(std::string_view text);
// The number in a verdict's detail: 2.25.6 is 2025006.
int number_of(const NvidiaFsVersion& version);
std::string text_of(const NvidiaFsVersion& version);  // "2.25.6"
// Compares by as many numbers as both have.
bool is_before(const NvidiaFsVersion& one, const NvidiaFsVersion& other);

// The newest version whose source was read and whose answers were compared with what Penstock expects.
inline constexpr NvidiaFsVersion kNewestKnownNvidiaFs{2, 28, 4};

// Versions that must not be used beside any kernel: [first, fixed).
struct NvidiaFsFault {
  NvidiaFsVersion first, fixed;
  const char* what;
  const char* source;
};
const NvidiaFsFault* fault_of_nvidia_fs(const NvidiaFsVersion& version);

// A Linux kernel with this change may crash while nvidia-fs moves bytes: the module takes a task's plug away for a
// moment, and a task switch in that moment follows the pointer. The kernel's release ("6.12.95-generic") shows whether
// the kernel has the change.
inline constexpr const char* kTaskSwitchChange = "block: invalidate cached plug timestamp after task switch";
inline constexpr const char* kTaskSwitchSource =
    "Linux fad156c2af22, in 7.2, 7.1.3, 6.18.38 and 6.12.95; nvidia-fs 2.28.4 run beside Debian's Linux 6.12.117";
Tristate has_task_switch_change(std::string_view kernel_release);
// Tells whether requests of this nvidia-fs may crash a machine with this kernel, whoever makes them. Unknown also for
// versions after kNewestKnownNvidiaFs beside a kernel with the change.
Tristate stops_machine(const NvidiaFsVersion& version, std::string_view kernel_release);
// The same of the module and the kernel under its root; no, where no module is loaded.
Tristate nvidia_fs_stops_machine(const NvidiaFs& nvidia_fs, const Root& root);

}  // namespace penstock::core
