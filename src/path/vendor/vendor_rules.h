// SPDX-License-Identifier: Apache-2.0

// What configuration says of the vendor path. Values only.
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
  std::string scratch;    // What may be overwritten in self-tests of the storage that it lies on; a path, or empty.
  // For its driver to open, and for each request of a self-test. Those of users are waited for to their end: their
  // bytes may still arrive.
  std::chrono::milliseconds patience{20'000};
  std::string root = "/";  // Where /proc and the toolkit are looked for.
};

}  // namespace penstock::core
