// SPDX-License-Identifier: Apache-2.0

// The configuration of the vendor path. Values only.
#pragma once

#include <chrono>
#include <string>

#include "path/path_settings.h"

namespace penstock::core {

struct VendorRules {
  VendorUse use = VendorUse::automatic;
  bool strict = false;    // No fallback, and only direct files are served.
  bool direct_io = true;  // False if the configuration wants no direct I/O: the path then refuses.
  std::string library;    // An absolute path; "": the CUDA toolkit's usual places.
  std::string scratch;    // A file that self-tests may overwrite, or empty.
  // The time limit for opening its driver, and for each request of a self-test. Users' requests have none, because
  // their bytes may still arrive.
  std::chrono::milliseconds patience{20'000};
  std::string root = "/";  // The root of /proc and the toolkit.
};

}  // namespace penstock::core
