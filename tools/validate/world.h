// SPDX-License-Identifier: Apache-2.0

// What `penstock validate` judges by: all that `penstock check` reads, and what is read of drivers and fabric besides.
// The layers look at nothing else, so that captured machines are judged as this one is.
#pragma once

#include <string>
#include <vector>

#include "tools/common/machine.h"
#include "tools/common/path_reports.h"
#include "tools/common/served.h"
#include "tools/validate/row.h"
#include "topology/gds_evidence.h"
#include "topology/nvme_controller.h"
#include "topology/rdma_device.h"

namespace penstock::tools::validate {

struct World {
  Machine machine;
  std::vector<PathReport> paths;
  std::vector<Served> places;  // They point into `machine`.
  core::GdsEvidence evidence;
  std::vector<core::RdmaDevice> rdma;
  std::vector<core::NvmeController> controllers;
  std::vector<std::string> nfs_transports;  // Of the machine's file systems; "" where there is none or nothing tells.
  int cuda = 0;                             // 12080; 0 where nothing tells.

  bool has_gpu() const;
  bool may_use(int path) const { return is_usable(paths, path); }
  // A direct path, to storage of any kind.
  bool may_use_nvidia_fs() const { return may_use(PENSTOCK_PATH_NVFS) || may_use(PENSTOCK_PATH_VENDOR); }
  bool has_direct_path() const { return may_use(PENSTOCK_PATH_P2PDMA) || may_use_nvidia_fs(); }
};

// Drivers and peer access: versions and hardware by the matrix, conflicts, and the direct paths as `penstock check`
// finds them.
void judge_drivers(const World& world, Rows& rows);
void judge_paths(const World& world, Rows& rows);  // The last part of that.

// RDMA devices, registration of GPU memory, PCIe links, and the transport of all remote storage.
void judge_fabric(const World& world, Rows& rows);
void judge_links(const World& world, Rows& rows);  // A part of that: PCIe.

}  // namespace penstock::tools::validate
