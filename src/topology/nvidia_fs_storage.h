// SPDX-License-Identifier: Apache-2.0

// The storage that nvidia-fs and cuFile support, as far as known: for judging a file system in gdscheck, `penstock
// check` and `penstock-k8s`. Pure; its result does not prove that a path works.
#pragma once

#include <string_view>

#include "topology/file_system.h"

namespace penstock::core {

// cuFile looks for these words in an ext4 mount's options; a mount with default options does not show them.
constexpr std::string_view kOrderedData = "data=ordered";

// nvidia-fs lists this driver as registered whether it is or not. It is WekaFS's, which needs no registration.
constexpr std::string_view kAlwaysListed = "wekafsio";

bool is_nfs_over_rdma(const FileSystem& storage);

// The name by which the driver of all drives below, or of NFS, registers with nvidia-fs: "nvme", "nvme_rdma",
// "scsi_mod", "rpcrdma". "" if none can, for iSCSI and for drives of different drivers, and for other network file
// systems.
std::string_view nvidia_fs_driver(const FileSystem& storage);

// True for the two local file systems that nvidia-fs supports, without a device mapper or loop device under them.
bool nvidia_fs_takes(const FileSystem& storage);

}  // namespace penstock::core
