// SPDX-License-Identifier: Apache-2.0

// The offers of a node, as far as its /proc and /sys tell: nothing is opened, loaded or tried, and no GPU is taken.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "facts/outlook.h"
#include "topology/platform.h"

namespace penstock::tools {

struct NodeFacts {
  std::vector<facts::PathOutlook> paths;  // Best first.
  std::size_t gpus = 0;                   // NVIDIA's, on the PCI bus.
  core::NvidiaDriver driver;
  core::NvidiaFs nvidia_fs;
  std::optional<core::NvidiaFsCounts> nvidia_fs_counts;
  core::IommuMode iommu = core::IommuMode::unknown;

  const facts::PathOutlook* path(const std::string& name) const;
};

// Reads the machine under `host`: "/", or the folder with its /proc and /sys. Throws a Failure if they are not there.
NodeFacts read_facts(const std::string& host);

}  // namespace penstock::tools
