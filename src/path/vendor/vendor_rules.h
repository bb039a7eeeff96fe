// SPDX-License-Identifier: Apache-2.0

// The configuration of the vendor path. Values only.
#pragma once

#include <chrono>
#include <string>

#include "path/path_settings.h"

namespace penstock::core {

struct VendorRules {
  VendorUse use = VendorUse::automatic;
  bool strict = false;    // Nothing is bounced, and no file that is not direct is served.
  bool direct_io = true;  // False if the configuration wants no direct I/O: the path then refuses.
  std::string library;    // An absolute path; "": the CUDA toolkit's usual places.
  std::string scratch;    // A path that self-tests of its storage may overwrite, or empty.
  // The time that its driver may take to open, and each request of a self-test. Users' requests are waited for to their
  // end, because their bytes may still arrive.
  std::chrono::milliseconds patience{20'000};
  std::string root = "/";  // /proc and the toolkit are looked for here.
};

}  // namespace penstock::core
