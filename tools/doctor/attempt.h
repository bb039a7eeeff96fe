// SPDX-License-Identifier: Apache-2.0

// The changes that are tried on a load or a save, each with the session that a program would have with this change.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "facts/environment.h"
#include "tools/common/context.h"
#include "tools/doctor/forecast.h"
#include "tools/doctor/meter.h"

namespace penstock::tools {

// The variables of the environment that only influence how fast bytes travel, not whether they do or into which memory.
facts::Variables speed_settings();

struct Attempt {
  Trial trial;
  facts::Variables without;  // Variables of the environment that are left out.
  SessionSettings settings;  // Settings that are added to the environment's.
  unsigned threads = 1;      // The threads of a load.
  bool is_prepared = false;  // A save overwrites a file whose blocks were all written before.

  // Opens the session. `direct_io` is that setting's value if the attempt does not set it; "" for the environment's.
  Session open(const std::string& direct_io = "") const;
};

// Changes of settings, for loads and saves alike: more CPU time, and the environment's settings left out, all of them
// together and each by itself.
std::vector<Attempt> attempts_on_settings();

// The gain of a change for one kind of bytes. `speed` is 0 if the change gains nothing, or if the measurement leaves
// that open.
struct Gain {
  double speed = 0;
  std::optional<Ratio> doubt;
};
Gain gained(const Rate& with, const Rate& without);

}  // namespace penstock::tools
