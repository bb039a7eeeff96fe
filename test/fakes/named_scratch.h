// SPDX-License-Identifier: Apache-2.0

// A file for PENSTOCK_SCRATCH, which self-tests may overwrite. It lies in the current folder, which is on a disk: it is
// opened with O_DIRECT.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/unique_fd.h"

namespace penstock::core {

class NamedScratch {
 public:
  NamedScratch() : fd_(::mkostemp(name_.data(), O_CLOEXEC)) {}
  ~NamedScratch() { ::unlink(name_.c_str()); }
  NamedScratch(const NamedScratch&) = delete;
  NamedScratch& operator=(const NamedScratch&) = delete;

  const std::string& name() const { return name_; }

 private:
  std::string name_ = "scratch-XXXXXX";
  const UniqueFd fd_;
};

}  // namespace penstock::core
