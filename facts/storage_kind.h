// SPDX-License-Identifier: Apache-2.0

// What storage is: of data at all, and what nvidia-fs and gdscheck know it by. Pure.
#pragma once

#include <span>

#include "facts/machine.h"

namespace penstock::facts {

// Whether it lies on a drive or a server, where people keep data, and not in memory or in a program.
bool holds_data(const core::FileSystem& file_system);

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
