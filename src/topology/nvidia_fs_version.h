// SPDX-License-Identifier: Apache-2.0

// Versions of the kernel module nvidia-fs, and which of them a client may call that knows its interface (the path nvfs,
// path/nvfs/nvfs_abi.h) rather than NVIDIA's library. Pure.
#pragma once

#include <optional>
#include <string_view>

namespace penstock::core {

struct NvidiaFsVersion {
  unsigned major = 0, minor = 0, patch = 0;
  bool operator==(const NvidiaFsVersion&) const = default;
};
// "2.28.4", "2.28"; nothing where that is no version.
std::optional<NvidiaFsVersion> parse_nvidia_fs_version(std::string_view text);
// The detail of a verdict: 2.25.6 is 2025006.
int number_of(const NvidiaFsVersion& version);

enum class NvidiaFsStanding {
  known,
  aged,      // Known, and with errors that matter for lists of 4 GiB and more.
  stand_in,  // 0.x: not NVIDIA's, but what stands in for it in tests.
  unknown,   // Another layout may be meant, or no caller could make it work.
};
NvidiaFsStanding standing_of(const NvidiaFsVersion& version);

}  // namespace penstock::core
