// SPDX-License-Identifier: Apache-2.0

// Makes one real transfer in a folder: a small file is written from a GPU's memory and read back by the library, every
// byte is compared, and the path that the bytes took, as the library reports it, is said. No file is left behind.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "facts/finding.h"
#include "tools/common/context.h"

namespace penstock::tools::validate {

// Further details of a transfer, by its folder: write, read {path, ...}, in the form of report.h.
using Details = std::map<std::string, Json>;

constexpr std::uint64_t kTransferBytes = std::uint64_t{8} << 20;

// Opens a session of the library. Fails with exit code 77 (a Failure) if there is no such GPU.
void judge_transfers(const std::vector<std::string>& folders, unsigned gpu, facts::Findings& rows, Details& details);

}  // namespace penstock::tools::validate
