// SPDX-License-Identifier: Apache-2.0

// The sections of `gdscheck -p`. Pure: they only look at facts that were read. Programs find the sections by their
// banners and the rows by "name : value".
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "facts/environment.h"
#include "facts/examination.h"

namespace penstock::tools {

struct GdsPlatform {
  facts::Examination examined;
  facts::Variables variables;  // Variables of the environment that the library reads.

  const facts::Machine& machine() const { return examined.machine; }
  // The reason why files cannot be served, or "".
  std::string obstacle() const;
};

std::string version_lines(const GdsPlatform& platform);
std::string platform_report(const GdsPlatform& platform);
std::string file_system_report(const GdsPlatform& platform);

}  // namespace penstock::tools
