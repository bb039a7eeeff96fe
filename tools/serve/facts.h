// SPDX-License-Identifier: Apache-2.0

// What a node offers, as far as its /proc and /sys tell: nothing is opened, loaded or tried, and no GPU is taken.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/common/path_reports.h"
#include "topology/platform.h"

namespace penstock::tools {

struct OfferedPath {
  std::string path;
  bool is_available = false;  // As far as is known: a direct path's self-test has the last word.
  std::string reason;         // "none" where it is available and there is nothing to say.
  std::string remedy;         // Of what it lacks first; "" where nothing.
};

struct NodeFacts {
  std::vector<OfferedPath> paths;  // Best first.
  std::size_t gpus = 0;            // NVIDIA's, on the PCI bus.
  core::NvidiaDriver driver;
  core::NvidiaFs nvidia_fs;
  std::optional<core::NvidiaFsCounts> nvidia_fs_counts;
  core::IommuMode iommu = core::IommuMode::unknown;

  const OfferedPath* path(const std::string& name) const;
};

// Of the machine under `host`: "/", or where its /proc and /sys are mounted. Throws a Failure where they are not.
NodeFacts read_facts(const std::string& host);

}  // namespace penstock::tools
