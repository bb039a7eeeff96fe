// SPDX-License-Identifier: Apache-2.0

// The kinds of storage. A kind says whether its file systems hold data at all, and what nvidia-fs and gdscheck call it.
// Pure.
#pragma once

#include <span>

#include "facts/machine.h"
#include "topology/nvidia_fs_storage.h"

namespace penstock::facts {

// True if it lies on a drive or a server, as people's data does, and not in memory or in a program.
bool holds_data(const core::FileSystem& file_system);

struct StorageKind {
  const char* name;    // "NVMe"
  const char* module;  // The name under which it registers with nvidia-fs.
};
std::span<const StorageKind> storage_kinds();
bool is_of_kind(const core::FileSystem& file_system, const StorageKind& kind);
// The kind as which a path by nvidia-fs (nvfs or vendor) would serve the file system. A kind whose driver has
// registered goes before others. Null if there is none.
const StorageKind* kind_of(const Machine& machine, const core::FileSystem& file_system, int path);

}  // namespace penstock::facts
