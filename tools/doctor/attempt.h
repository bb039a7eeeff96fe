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

// What the environment sets of how fast bytes travel, and not of whether and into what.
facts::Variables speed_settings();

struct Attempt {
  Trial trial;
  facts::Variables without;  // Of the environment.
  SessionSettings settings;  // Beside what the environment has.
  unsigned threads = 1;      // Of a load.
  bool is_prepared = false;  // Of a save: into a file whose bytes were all written before.

  // direct_io: where the attempt does not set it; "" for what the environment says.
  Session open(const std::string& direct_io = "") const;
};

// What can be changed of settings, for loads and saves alike: more CPU time, and what the environment sets, all of it
// and each by itself.
std::vector<Attempt> attempts_on_settings();

// What a change made of one kind of bytes. Speed: 0 where it gains nothing, or where nothing can be told.
struct Gain {
  double speed = 0;
  std::optional<Ratio> doubt;
};
Gain gained(const Rate& with, const Rate& without);

}  // namespace penstock::tools
