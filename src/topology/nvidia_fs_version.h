// SPDX-License-Identifier: Apache-2.0

// Versions of the kernel module nvidia-fs, and which of them the path nvfs may call directly (path/nvfs/nvfs_abi.h),
// without NVIDIA's library. Pure.
#pragma once

#include <optional>
#include <string_view>

namespace penstock::core {

struct NvidiaFsVersion {
  unsigned major = 0, minor = 0, patch = 0;
  bool operator==(const NvidiaFsVersion&) const = default;
};
// Parses "2.28.4" or "2.28"; nothing if the text is no version.
std::optional<NvidiaFsVersion> parse_nvidia_fs_version(std::string_view text);
// The number in a verdict's detail: 2.25.6 is 2025006.
int number_of(const NvidiaFsVersion& version);

enum class NvidiaFsStanding {
  known,
  aged,      // Known, with errors that matter for lists of 4 GiB and more.
  stand_in,  // Version 0.x: not NVIDIA's, but a stand-in for tests.
  unknown,   // Its structures may have another layout, or it has errors that no caller can avoid.
};
NvidiaFsStanding standing_of(const NvidiaFsVersion& version);

}  // namespace penstock::core
