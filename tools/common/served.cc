// SPDX-License-Identifier: Apache-2.0

#include "tools/common/served.h"

#include <algorithm>

#include "topology/nvidia_fs_storage.h"

namespace penstock::tools {
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

bool is_registered(const Machine& machine, const StorageKind& kind, int path) {
  const auto has = [&](const std::vector<std::string>& drivers) {
    return std::find(drivers.begin(), drivers.end(), kind.module) != drivers.end();
  };
  if (!has(machine.nvidia_fs.storage_drivers) && !has(machine.hooked_drivers)) return false;
  // WEKA's client is spoken with by NVIDIA's library alone, and has no hook for others' requests.
  return kind.module != core::kAlwaysListed || (path == PENSTOCK_PATH_VENDOR && has_weka(machine));
}

}  // namespace

bool has_weka(const Machine& machine) {
  return std::any_of(machine.file_systems.begin(), machine.file_systems.end(),
                     [](const core::FileSystem& one) { return one.mount.type == "wekafs"; });
}

std::span<const StorageKind> storage_kinds() { return kStorageKinds; }

bool is_of_kind(const core::FileSystem& file_system, const StorageKind& kind) {
  const std::string_view module(kind.module);
  if (file_system.stack || module == "rpcrdma") return core::nvidia_fs_driver(file_system) == module;
  return std::any_of(std::begin(kNetworkTypes), std::end(kNetworkTypes), [&](const NetworkType& known) {
    return known.type == file_system.mount.type && known.module == module;
  });
}

bool is_usable(const std::vector<PathReport>& paths, int path) {
  return std::any_of(paths.begin(), paths.end(),
                     [&](const PathReport& report) { return report.path == path && report.usable; });
}

bool may_use_nvidia_fs(const Machine& machine, const std::vector<PathReport>& paths, const StorageKind& kind) {
  const auto may = [&](int path) { return is_usable(paths, path) && is_registered(machine, kind, path); };
  return may(PENSTOCK_PATH_NVFS) || may(PENSTOCK_PATH_VENDOR);
}

const StorageKind* kind_by_nvidia_fs(const Machine& machine, const core::FileSystem& file_system, int path) {
  const auto* const found = std::find_if(
      std::begin(kStorageKinds), std::end(kStorageKinds),
      [&](const StorageKind& kind) { return is_of_kind(file_system, kind) && is_registered(machine, kind, path); });
  return found == std::end(kStorageKinds) || !core::nvidia_fs_takes(file_system) ? nullptr : found;
}

bool may_be_tried(const Machine& machine, const PeerPair& pair) {
  const bool is_off = pair.peer->is_nvidia_gpu() && machine.probe && !machine.probe->exports_gpu_memory;
  return pair.can_read() && !is_off;
}

bool Served::by(int path) const { return std::find(paths.begin(), paths.end(), path) != paths.end(); }

std::vector<Served> served_places(const Machine& machine, const std::vector<PathReport>& paths) {
  std::vector<Served> places;
  const std::vector<PeerPair> pairs = peer_pairs(machine);
  for (std::size_t i = 0; i < machine.file_systems.size(); ++i) {
    const core::FileSystem& one = machine.file_systems[i];
    Served place{&one, {}, machine.is_denied[i]};
    const auto has_peer = [&](const PeerPair& pair) { return pair.file_system == &one && may_be_tried(machine, pair); };
    if (is_usable(paths, PENSTOCK_PATH_P2PDMA) && std::any_of(pairs.begin(), pairs.end(), has_peer)) {
      place.paths.push_back(PENSTOCK_PATH_P2PDMA);
    }
    for (const int path : {PENSTOCK_PATH_NVFS, PENSTOCK_PATH_VENDOR}) {
      if (is_usable(paths, path) && kind_by_nvidia_fs(machine, one, path) != nullptr) place.paths.push_back(path);
    }
    if (is_usable(paths, PENSTOCK_PATH_BOUNCE)) place.paths.push_back(PENSTOCK_PATH_BOUNCE);
    places.push_back(std::move(place));
  }
  return places;
}

bool allows_direct(const core::LoadedSettings& cufile) {
  return !cufile.must_refuse && !cufile.settings.is_on("properties.force_compat_mode") &&
         !cufile.settings.is_on("properties.vanilla_posix_io_mode");
}

bool allows_direct(const core::LoadedSettings& cufile, const Served& place) {
  return allows_direct(cufile) && !place.is_denied;
}

bool allows_compat(const core::LoadedSettings& cufile) {
  return !cufile.must_refuse && (cufile.settings.is_on("properties.allow_compat_mode") ||
                                 cufile.settings.is_on("properties.force_compat_mode") ||
                                 cufile.settings.is_on("properties.vanilla_posix_io_mode"));
}

}  // namespace penstock::tools
