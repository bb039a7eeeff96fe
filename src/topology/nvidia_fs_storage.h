// SPDX-License-Identifier: Apache-2.0

// The storage that nvidia-fs and cuFile take, as far as is known of them: for code that judges a file system by it, in
// gdscheck, `penstock check` and `penstock-k8s`. Pure; a look proves no path.
#pragma once

#include <string_view>

#include "topology/file_system.h"

namespace penstock::core {

// cuFile looks for these words among an ext4 mount's options, which a default mount does not show.
constexpr std::string_view kOrderedData = "data=ordered";

// nvidia-fs lists it among the drivers that registered, whether any has or not. WekaFS, whose it is, needs no more.
constexpr std::string_view kAlwaysListed = "wekafsio";

bool is_nfs_over_rdma(const FileSystem& storage);

// The name by which the driver of all drives below, or of NFS, registers with nvidia-fs: "nvme", "nvme_rdma",
// "scsi_mod", "rpcrdma". "" where none can, as of iSCSI, where drives differ, and for other file systems of a network.
std::string_view nvidia_fs_driver(const FileSystem& storage);

// True for two local file systems, without a device mapper or loop device under them.
bool nvidia_fs_takes(const FileSystem& storage);

}  // namespace penstock::core
