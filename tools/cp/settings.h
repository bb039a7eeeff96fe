// SPDX-License-Identifier: Apache-2.0

// The orders for one `penstock cp`, and its outcome.
#pragma once

#include <cstdint>
#include <string>

#include "tools/common/job.h"

namespace penstock::tools {

struct CpSettings {
  std::string source;
  std::string destination;
  unsigned gpu = 0;
  std::uint64_t window = std::uint64_t{256} << 20;
  bool verify = false;
  bool direct = false;
  bool force = false;
  bool no_preserve = false;
  bool json = false;
  std::string stripe;  // Folders of the copy's members, with commas between; "" for an ordinary file.
  std::uint64_t stripe_size = std::uint64_t{8} << 20;
};

struct CpOutcome {
  std::string destination;
  std::uint64_t size = 0;
  std::uint64_t data_bytes = 0;
  double seconds = 0;
  Tally read;
  Tally written;
};

}  // namespace penstock::tools
