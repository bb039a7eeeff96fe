// SPDX-License-Identifier: Apache-2.0

// Which paths may serve which storage: the one answer that `penstock check`, gdscheck and gds_install_check give. Pure.
//
// "May" is all that a look can tell of a direct path: its self-test decides, when a program uses it.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "tools/common/machine.h"
#include "tools/common/path_reports.h"
#include "tools/common/peer_pairs.h"

namespace penstock::tools {

// What nvidia-fs and gdscheck know storage by.
struct StorageKind {
  const char* name;    // "NVMe"
  const char* module;  // As it registers with nvidia-fs.
};
std::span<const StorageKind> storage_kinds();
bool is_of_kind(const core::FileSystem& file_system, const StorageKind& kind);

// Whether a WEKA file system is mounted: its driver's name is always listed, and says nothing by itself.
bool has_weka(const Machine& machine);

bool is_usable(const std::vector<PathReport>& paths, int path);
// Whether nvidia-fs may serve such storage: NVIDIA's library can be used, and the kind's driver has registered.
bool may_use_nvidia_fs(const Machine& machine, const std::vector<PathReport>& paths, const StorageKind& kind);
// As what a path by nvidia-fs may serve a file system, if it is usable at all: its kind's driver has registered, or
// will when nvidia-fs is opened. Null where it cannot.
const StorageKind* kind_by_nvidia_fs(const Machine& machine, const core::FileSystem& file_system, int path);
// Whether p2pdma may be tried between the two.
bool may_be_tried(const Machine& machine, const PeerPair& pair);

struct Served {
  const core::FileSystem* file_system = nullptr;
  std::vector<int> paths;  // penstock_path, best first, of those that move device memory, but of the page cache.
  bool is_denied = false;  // By cuFile's configuration, to direct paths.
  bool by(int path) const;
};
// In the order of mounting.
std::vector<Served> served_places(const Machine& machine, const std::vector<PathReport>& paths);

// What cuFile's configuration leaves of that: it may forbid direct paths, the way through host memory, or all.
bool allows_direct(const core::LoadedSettings& cufile);
bool allows_direct(const core::LoadedSettings& cufile, const Served& place);
bool allows_compat(const core::LoadedSettings& cufile);

}  // namespace penstock::tools
