// SPDX-License-Identifier: Apache-2.0

// A result that `penstock bench --json` wrote, read again to be compared.
#pragma once

#include <string>
#include <vector>

#include "tools/common/context.h"
#include "tools/common/interval.h"

namespace penstock::tools {

struct StoredResult {
  std::string file;
  Estimate estimate;  // Without its batches.
  bool is_with_fsync = false;
  Json settings;
};

// Refuses what is no such result, and one whose rate has no interval.
StoredResult read_result(const std::string& file);

// "block_size: 4096 against 1048576", for each setting that changes what is measured.
std::vector<std::string> differences_of(const StoredResult& a, const StoredResult& b);

}  // namespace penstock::tools
