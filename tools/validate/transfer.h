// SPDX-License-Identifier: Apache-2.0

// One real transfer for a folder: a small file is written from a GPU's memory and read back by the library, every byte
// is compared, and the path is told that the bytes took, as the library's reports have it. Nothing is left behind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/validate/row.h"

namespace penstock::tools::validate {

constexpr std::uint64_t kTransferBytes = std::uint64_t{8} << 20;

// Opens a session of the library. Exit code 77 (a Failure) where there is no such GPU. direct_paths: those that go
// around the CPU's memory, of penstock_path.
void judge_transfers(const std::vector<std::string>& folders, unsigned gpu, const std::vector<int>& direct_paths,
                     Rows& rows);

}  // namespace penstock::tools::validate
