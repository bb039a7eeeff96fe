// SPDX-License-Identifier: Apache-2.0

// The configuration of the vendor path. Values only.
#pragma once

#include <chrono>
#include <string>

#include "path/path_settings.h"

namespace penstock::core {

struct VendorRules {
  VendorUse use = VendorUse::automatic;
  bool strict = false;    // Nothing is bounced, and nothing that is not direct is taken.
  bool direct_io = true;  // False: configuration wants none, and the path refuses.
  std::string library;    // An absolute path; "": the CUDA toolkit's usual places.
  std::string scratch;    // A path that self-tests of its storage may overwrite, or empty.
  // For its driver to open, and for each request of a self-test. Users' requests are waited for to their end: their
  // bytes may still arrive.
  std::chrono::milliseconds patience{20'000};
  std::string root = "/";  // /proc and the toolkit are looked for here.
};

}  // namespace penstock::core
