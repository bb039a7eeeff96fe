// SPDX-License-Identifier: Apache-2.0

// A program of cuFile's: one driver, calls, and batches, of which some are canceled or destroyed with entries in
// flight.
#pragma once

#include "simulation/requests.h"

namespace penstock::simulation {

// The scheduler must have begun.
Tally run_batches();

}  // namespace penstock::simulation
