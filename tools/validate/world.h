// SPDX-License-Identifier: Apache-2.0

// What `penstock validate` judges by: all that `penstock check` reads, and what is read of drivers and fabric besides.
// The layers look at nothing else, so that captured machines are judged as this one is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/common/machine.h"
#include "tools/common/operator_versions.h"
#include "tools/common/path_reports.h"
#include "tools/common/served.h"
#include "tools/validate/row.h"
#include "topology/gds_evidence.h"
#include "topology/nvme_controller.h"
#include "topology/rdma_device.h"

namespace penstock::tools::validate {

// What cuFile's configuration bars storage by: an entry of one of its lists.
struct Denial {
  std::string key;    // "denylist.mounts"
  std::string entry;  // "/data"
};

// Of a mount of a network file system; of others empty.
struct Remote {
  std::string transport;  // "" where nothing tells.
  std::string client;     // Who serves it here, where that is known by name: "VAST's NFS client 4.0.35".
};

struct World {
  Machine machine;
  std::vector<PathReport> paths;
  std::vector<Served> places;  // They point into `machine`.
  core::GdsEvidence evidence;
  std::vector<core::RdmaDevice> rdma;
  std::vector<core::NvmeController> controllers;
  std::vector<Remote> remotes;                 // Of the machine's file systems.
  std::vector<std::optional<Denial>> denials;  // Of the machine's file systems.
  int cuda = 0;                                // 12080; 0 where nothing tells.

  bool has_gpu() const;
  bool may_use(int path) const { return is_usable(paths, path); }
  // A direct path, to storage of any kind.
  bool may_use_nvidia_fs() const { return may_use(PENSTOCK_PATH_NVFS) || may_use(PENSTOCK_PATH_VENDOR); }
  bool has_direct_path() const { return may_use(PENSTOCK_PATH_P2PDMA) || may_use_nvidia_fs(); }
};

// Drivers and peer access: versions and hardware by the matrix, conflicts, and the direct paths as `penstock check`
// finds them.
void judge_drivers(const World& world, Rows& rows);
void judge_nvidia_fs(const World& world, Rows& rows);  // A part of that: the module nvidia-fs.
void judge_paths(const World& world, Rows& rows);      // The last part of that, but for what follows.
void judge_cufile(const World& world, Rows& rows);     // Which of cuFile's settings forbid direct paths.
// The row of judge_cufile() that bars a place; nothing where none does.
std::optional<RowName> barred_by(const World& world, const Served& place);
// Why cuFile's configuration bars one of the machine's file systems, by its number there.
std::optional<Denial> denial_of(const core::Root& root, const Machine& machine, std::size_t file_system);

// Of NVIDIA's driver; nothing where it is not loaded.
std::optional<Version> driver_of(const World& world);

// The module tells three numbers, /proc two.
struct NvidiaFsVersion {
  std::string text;
  Version number{};
  bool has_patch = false;
};
std::optional<NvidiaFsVersion> nvidia_fs_of(const World& world);

// RDMA devices, registration of GPU memory, PCIe links, and the transport of all remote storage.
void judge_fabric(const World& world, Rows& rows);
void judge_links(const World& world, Rows& rows);  // A part of that: PCIe.

// "ext4 on nvme0n1, drive 0000:19:00.0"; "nfs4 of server:/export".
std::string storage_text(const core::FileSystem& file_system);
// What a drive holds: "nvme0n1, /data"; "" where nothing is mounted from it.
std::string drive_text(const World& world, const std::string& pci_address);

}  // namespace penstock::tools::validate
