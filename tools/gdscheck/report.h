// SPDX-License-Identifier: Apache-2.0

// The sections of `gdscheck -p`. Pure: they only look at what was read. Programs find the sections by their banners and
// the rows by "name : value".
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/common/machine.h"
#include "tools/common/path_reports.h"
#include "tools/common/served.h"

namespace penstock::tools {

struct GdsPlatform {
  GdsPlatform() = default;
  GdsPlatform(GdsPlatform&&) = default;  // No copies: the places point into what the machine owns.

  Machine machine;
  std::vector<PathReport> paths;
  std::vector<Served> places;
  Variables variables;   // Of the environment, that say something to the library.
  int cuda_version = 0;  // 13000; 0 where there is no driver.

  // "" where files can be served; else why not.
  std::string obstacle() const;
};

std::string version_lines(const GdsPlatform& platform);
std::string platform_report(const GdsPlatform& platform);
std::string file_system_report(const GdsPlatform& platform);

}  // namespace penstock::tools
