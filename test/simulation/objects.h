// SPDX-License-Identifier: Apache-2.0

// A program that makes files and striped objects, which appear when they are published, replaces them, and reads them.
// Whatever fails, a name means all of the old bytes or all of the new ones; and so it does after a loss of power, which
// may come at any change of the drive.
#pragma once

#include "simulation/requests.h"

namespace penstock::simulation {

// The scheduler must have begun.
Tally run_objects();

}  // namespace penstock::simulation
