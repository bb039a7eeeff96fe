// SPDX-License-Identifier: Apache-2.0

// The ways the demo takes: every path that a file and a device allow, forced one at a time, and why the others are
// missing here.
#pragma once

#include <string>
#include <vector>

#include "tools/common/context.h"

namespace penstock::tools {

struct DemoWay {
  std::string path;
  std::string how;  // "io_uring, O_DIRECT"; "" where there is only one way.
  SessionSettings session;
  bool host_memory = false;
  bool can_write = true;
  int reason = 0;         // Why the best path before this one is refused here: as a transfer would report it,
  int refused_path = -1;  // were this way not forced. -1: no path before it is refused.
};

struct MissingWay {
  std::string what;    // "p2pdma", "bounce write", "O_DIRECT"
  std::string reason;  // The stable name; "" where there is none.
  std::string sentence;
  std::string remedy;
};

struct DemoWays {
  std::vector<DemoWay> ways;
  std::vector<MissingWay> missing;
};

// Asks a session with the library's own settings about the file.
DemoWays find_ways(const File& file, unsigned gpu);

}  // namespace penstock::tools
