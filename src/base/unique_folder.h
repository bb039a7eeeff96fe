// SPDX-License-Identifier: Apache-2.0

// Owns a folder that is listed (opendir, fdopendir); closes it once.
#pragma once

#include <dirent.h>

#include <memory>

namespace penstock::core {

struct CloseFolder {
  void operator()(DIR* folder) const { (void)::closedir(folder); }
};
using UniqueFolder = std::unique_ptr<DIR, CloseFolder>;

}  // namespace penstock::core
