// SPDX-License-Identifier: Apache-2.0

#include "facts/storage_kind.h"

#include <algorithm>

#include "topology/nvidia_fs_storage.h"

namespace penstock::facts {
namespace {

constexpr StorageKind kStorageKinds[] = {
    {"NVMe", "nvme"},          {"NVMeOF", "nvme_rdma"},
    {"SCSI", "scsi_mod"},      {"ScaleFlux CSD", "sfxvdriver"},
    {"FSx Lustre", "lustre"},  {"NVMesh", "nvmeib_common"},
    {"DDN EXAScaler", "lnet"}, {"IBM Spectrum Scale", "mmfslinux"},
    {"NFS", "rpcrdma"},        {"BeeGFS", "beegfs"},
    {"ScaTeFS", "scatefs"},    {"VIRTIOFS", "virtiofs"},
    {"WekaFS", "wekafsio"},
};

struct NetworkType {
  std::string_view type;
  std::string_view module;
};
constexpr NetworkType kNetworkTypes[] = {{"lustre", "lustre"},  {"lustre", "lnet"},     {"gpfs", "mmfslinux"},
                                         {"beegfs", "beegfs"},  {"scatefs", "scatefs"}, {"virtiofs", "virtiofs"},
                                         {"wekafs", "wekafsio"}};

}  // namespace

bool holds_data(const core::FileSystem& file_system) {
  const core::Mount& mount = file_system.mount;
  const bool is_containers_own = mount.type == "overlay" && mount.mount_point == "/";
  return file_system.stack || core::is_network_file_system(mount.type) || is_containers_own;
}

std::span<const StorageKind> storage_kinds() { return kStorageKinds; }

bool is_of_kind(const core::FileSystem& file_system, const StorageKind& kind) {
  const std::string_view module(kind.module);
  if (file_system.stack || module == "rpcrdma") return core::nvidia_fs_driver(file_system) == module;
  return std::any_of(std::begin(kNetworkTypes), std::end(kNetworkTypes), [&](const NetworkType& known) {
    return known.type == file_system.mount.type && known.module == module;
  });
}

const StorageKind* kind_of(const Machine& machine, const core::FileSystem& file_system, int path) {
  const StorageKind* found = nullptr;
  for (const StorageKind& kind : kStorageKinds) {
    // Only NVIDIA's library speaks with WEKA's client, which has no hook for the requests of others.
    const bool is_others = kind.module == core::kAlwaysListed && path != PENSTOCK_PATH_VENDOR;
    if (is_others || !is_of_kind(file_system, kind)) continue;
    const std::vector<std::string>& registered = machine.nvidia_fs.storage_drivers;
    if (std::find(registered.begin(), registered.end(), kind.module) != registered.end()) return &kind;
    if (found == nullptr) found = &kind;
  }
  return found;
}

}  // namespace penstock::facts
