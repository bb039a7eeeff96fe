// SPDX-License-Identifier: Apache-2.0

// The short answer of `penstock explain`: the verdict first, then what keeps better paths away, each sentence once.
#pragma once

#include <string>
#include <vector>

#include "tools/common/explanation.h"
#include "tools/common/terminal.h"

namespace penstock::tools {

struct FileAnswer {
  std::string file;
  std::string failure;  // Why it cannot be looked at, or "".
  Explanation told;
  std::string stands_for;  // The folder or pattern with too many files whose one it is, or "".
};

// One file in a few lines.
Text summary_of(const ExplainSettings& settings, const FileAnswer& answer);
// Many as a table, and below it what keeps better paths away from any of them.
Text summary_of(const ExplainSettings& settings, const std::vector<FileAnswer>& answers);

}  // namespace penstock::tools
