// SPDX-License-Identifier: Apache-2.0

// The facts of a node that its /proc and /sys show: nothing is opened, loaded or tried, and no GPU is used.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "facts/outlook.h"

namespace penstock::tools {

struct NodeFacts {
  std::vector<facts::PathOutlook> paths;  // Best first.
  std::size_t gpus = 0;                   // NVIDIA's GPUs on the PCI bus.
  core::NvidiaDriver driver;
  core::NvidiaFs nvidia_fs;
  core::NvidiaFsStats nvidia_fs_stats;
  core::IommuMode iommu = core::IommuMode::unknown;

  const facts::PathOutlook* path(const std::string& name) const;
};

// Reads the machine under `host`: "/", or a folder with its /proc and /sys. Throws a Failure if they are not there.
NodeFacts read_facts(const std::string& host);

}  // namespace penstock::tools
