// SPDX-License-Identifier: Apache-2.0

#include "tools/common/served.h"

#include <algorithm>

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

std::string_view module_of(const core::BlockDevice& drive) {
  if (drive.kind == core::BlockKind::scsi) return "scsi_mod";
  if (drive.kind != core::BlockKind::nvme) return "";
  if (drive.transport == core::NvmeTransport::pcie) return "nvme";
  return drive.transport == core::NvmeTransport::rdma ? "nvme_rdma" : "";
}

// Of all drives below: an array with one of another kind is of none.
bool is_on(const core::BlockDevice& device, std::string_view module) {
  if (device.slaves.empty()) return module_of(device) == module;
  return std::all_of(device.slaves.begin(), device.slaves.end(),
                     [&](const core::BlockDevice& below) { return is_on(below, module); });
}

bool is_nfs_over_rdma(const core::FileSystem& one) {
  return std::any_of(one.findings.begin(), one.findings.end(),
                     [](const core::Finding& finding) { return finding.obstacle == core::Obstacle::nfs_rdma; });
}

// Of local file systems nvidia-fs knows two, and no device mapper under them.
bool is_taken_by_nvidia_fs(const core::FileSystem& one) {
  if (!one.stack) return true;
  const bool is_known = one.mount.type == "ext4" || one.mount.type == "xfs";
  return is_known && one.stack->kind != core::BlockKind::dm && one.stack->kind != core::BlockKind::loop &&
         one.direct_io.has != core::Tristate::no;
}

}  // namespace

std::span<const StorageKind> storage_kinds() { return kStorageKinds; }

bool is_of_kind(const core::FileSystem& file_system, const StorageKind& kind) {
  const std::string_view module(kind.module);
  if (file_system.stack) return is_on(*file_system.stack, module);
  if (module == "rpcrdma") return is_nfs_over_rdma(file_system);
  return std::any_of(std::begin(kNetworkTypes), std::end(kNetworkTypes), [&](const NetworkType& known) {
    return known.type == file_system.mount.type && known.module == module;
  });
}

bool is_usable(const std::vector<PathReport>& paths, int path) {
  return std::any_of(paths.begin(), paths.end(),
                     [&](const PathReport& report) { return report.path == path && report.usable; });
}

bool may_use_nvidia_fs(const Machine& machine, const std::vector<PathReport>& paths, const StorageKind& kind) {
  const std::vector<std::string>& drivers = machine.nvidia_fs.storage_drivers;
  return is_usable(paths, PENSTOCK_PATH_VENDOR) &&
         std::find(drivers.begin(), drivers.end(), kind.module) != drivers.end();
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
    const auto is_served = [&](const StorageKind& kind) {
      return is_of_kind(one, kind) && may_use_nvidia_fs(machine, paths, kind);
    };
    if (is_taken_by_nvidia_fs(one) && std::any_of(std::begin(kStorageKinds), std::end(kStorageKinds), is_served)) {
      place.paths.push_back(PENSTOCK_PATH_VENDOR);
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
