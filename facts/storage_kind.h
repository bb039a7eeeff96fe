// SPDX-License-Identifier: Apache-2.0

// What nvidia-fs and gdscheck know storage by. Pure.
#pragma once

#include <span>

#include "facts/machine.h"

namespace penstock::facts {

struct StorageKind {
  const char* name;    // "NVMe"
  const char* module;  // As it registers with nvidia-fs.
};
std::span<const StorageKind> storage_kinds();
bool is_of_kind(const core::FileSystem& file_system, const StorageKind& kind);
// As what a path by nvidia-fs (nvfs or vendor) would serve the file system: of several kinds one whose driver has
// registered. Null where there is none.
const StorageKind* kind_of(const Machine& machine, const core::FileSystem& file_system, int path);

}  // namespace penstock::facts
