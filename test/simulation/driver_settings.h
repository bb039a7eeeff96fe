// SPDX-License-Identifier: Apache-2.0

// What of cuFile's driver can be set while it is open, by a thread of a program whose others have requests under way:
// its four properties change at once, its parameters are refused and stay what they are, and to open it once more and
// close it again changes nothing. Nothing else of the library is read again while a session is open.
#pragma once

#include "simulation/scheduler.h"

namespace penstock::simulation {

// cuFile's driver must be open. Fails the run where an answer is wrong.
void change_driver_settings(Random& random);

}  // namespace penstock::simulation
