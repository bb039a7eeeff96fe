// SPDX-License-Identifier: Apache-2.0

// How a file's bytes would travel, and why not better: the facts of the file, the verdict of every path on it, and the
// plan of a request. For `penstock explain`, and for `gdscheck -f`.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::tools {

struct ExplainSettings {
  std::string file;
  std::string root;  // A captured machine; "" for this one.
  unsigned gpu = 0;
  bool is_write = false;
  bool direct = false;
  bool json = false;
  std::string memory = "device";
  std::uint64_t offset = 0;
  std::uint64_t size = 0;  // 0: the file from the offset on, up to kSampleSize.
};

// Prints it. The exit code: 1 where no path is usable.
int explain(const ExplainSettings& settings);

}  // namespace penstock::tools
