// SPDX-License-Identifier: Apache-2.0

// The sections of `gdscheck -p`. Pure: they only look at what was read. Programs find the sections by their banners and
// the rows by "name : value".
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "facts/environment.h"
#include "facts/examination.h"

namespace penstock::tools {

struct GdsPlatform {
  facts::Examination examined;
  facts::Variables variables;  // The environment's, if they mean something to the library.

  const facts::Machine& machine() const { return examined.machine; }
  // Why files cannot be served, or "".
  std::string obstacle() const;
};

std::string version_lines(const GdsPlatform& platform);
std::string platform_report(const GdsPlatform& platform);
std::string file_system_report(const GdsPlatform& platform);

}  // namespace penstock::tools
