// SPDX-License-Identifier: Apache-2.0

#include "topology/nvidia_fs_storage.h"

#include <algorithm>

namespace penstock::core {
namespace {

std::string_view driver_of_drive(const BlockDevice& drive) {
  if (drive.kind == BlockKind::scsi) return drive.is_iscsi() ? "" : "scsi_mod";
  if (drive.kind != BlockKind::nvme) return "";
  if (drive.transport == NvmeTransport::pcie) return "nvme";
  return drive.transport == NvmeTransport::rdma ? "nvme_rdma" : "";
}

std::string_view driver_of(const BlockDevice& device) {
  if (device.slaves.empty()) return driver_of_drive(device);
  const std::string_view first = driver_of(device.slaves.front());
  const bool are_alike = std::all_of(device.slaves.begin(), device.slaves.end(),
                                     [&](const BlockDevice& below) { return driver_of(below) == first; });
  return are_alike ? first : "";
}

}  // namespace

bool is_nfs_over_rdma(const FileSystem& storage) {
  return std::any_of(storage.findings.begin(), storage.findings.end(),
                     [](const Finding& finding) { return finding.obstacle == Obstacle::nfs_rdma; });
}

std::string_view nvidia_fs_driver(const FileSystem& storage) {
  if (storage.stack) return driver_of(*storage.stack);
  return is_nfs_over_rdma(storage) ? "rpcrdma" : "";
}

bool nvidia_fs_takes(const FileSystem& storage) {
  if (!storage.stack) return true;
  const bool is_known = storage.mount.type == "ext4" || storage.mount.type == "xfs";
  return is_known && storage.stack->kind != BlockKind::dm && storage.stack->kind != BlockKind::loop &&
         storage.direct_io.has != Tristate::no;
}

}  // namespace penstock::core
