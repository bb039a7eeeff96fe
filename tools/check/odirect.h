// SPDX-License-Identifier: Apache-2.0

// A part of `penstock check --try`: tries, on a folder's file system, the conditions that may keep direct I/O from
// being direct.
#pragma once

#include <string>

#include "tools/common/command_line.h"
#include "tools/common/context.h"
#include "tools/common/terminal.h"

namespace penstock::tools {

struct OdirectTry {
  Json document;
  Text page;
  bool is_right = true;  // Every byte came back as it was written.
};
OdirectTry try_odirect(const std::string& folder);
void add_odirect(CommandLine& command);  // The command's name in the last release.

}  // namespace penstock::tools
