// SPDX-License-Identifier: Apache-2.0

// Striped objects where the sub-commands take files: a manifest stands for its object.
#pragma once

#include <string>
#include <vector>

#include "penstock/penstock.hpp"
#include "tools/common/files.h"

namespace penstock::tools {

// True if it is a manifest, by how it begins. A file that cannot be opened is none.
bool is_striped(const std::string& path);

// A file for reading, or the object of a manifest, whose size `opened` has from then on.
File file_or_stripe(const Session& session, OpenFile& opened);

struct StripeNote {
  std::string manifest;
  StripeInfo info;
  std::vector<std::string> members;
  std::string text() const;  // "/data/x: a striped object of 3 members, 8.0 MiB a stripe, 1.2 GiB"
};
// Describes a manifest. Throws a Failure that names the member that is missing or not what it should be.
StripeNote stripe_note(const Session& session, const std::string& manifest);

}  // namespace penstock::tools
