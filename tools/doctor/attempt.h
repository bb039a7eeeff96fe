// SPDX-License-Identifier: Apache-2.0

// The changes that are tried on a load or a save, each with the session that a program would have after it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "facts/environment.h"
#include "tools/common/context.h"
#include "tools/doctor/forecast.h"
#include "tools/doctor/meter.h"

namespace penstock::tools {

// The environment's settings that decide how fast bytes travel, and not whether and into which memory.
facts::Variables speed_settings();

struct Attempt {
  Trial trial;
  facts::Variables without;  // Variables of the environment to leave out.
  SessionSettings settings;  // Settings beside the environment's.
  unsigned threads = 1;      // A load's.
  bool is_prepared = false;  // A save goes into a file whose bytes were all written before.

  // direct_io: its value if the attempt does not set it; "" for the environment's.
  Session open(const std::string& direct_io = "") const;
};

// Changes of settings, for loads and saves alike: more CPU time, and the environment's settings left out, all of them
// and each by itself.
std::vector<Attempt> attempts_on_settings();

// The gain of a change for one kind of bytes. Speed: 0 if it gains nothing, or if nothing can be told.
struct Gain {
  double speed = 0;
  std::optional<Ratio> doubt;
};
Gain gained(const Rate& with, const Rate& without);

}  // namespace penstock::tools
