// SPDX-License-Identifier: Apache-2.0

// Striped objects as files of the sub-commands: a manifest stands for its object.
#pragma once

#include <string>
#include <vector>

#include "penstock/penstock.hpp"
#include "tools/common/files.h"

namespace penstock::tools {

// True if the file begins like a manifest. A file that cannot be opened is none.
bool is_striped(const std::string& path);

// Opens a file for reading, or the object of a manifest; `opened.size` is then the object's size.
File file_or_stripe(const Session& session, OpenFile& opened);

struct StripeNote {
  std::string manifest;
  StripeInfo info;
  std::vector<std::string> members;
  std::string text() const;  // "/data/x: a striped object of 3 members, 8.0 MiB a stripe, 1.2 GiB"
};
// Describes a manifest. Throws a Failure that names a member that is missing or wrong.
StripeNote stripe_note(const Session& session, const std::string& manifest);

}  // namespace penstock::tools
