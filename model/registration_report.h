// SPDX-License-Identifier: Apache-2.0

// What `penstock-model registration` says: the ways to register side by side, from which I/O on one pays against
// another, and the frontier of that over buffer size and link bandwidth.
#pragma once

#include "model/registration.h"
#include "model/report.h"

namespace penstock::model {

// with_published: beside the published figures.
Report registration_report(const RegistrationInput& input, const Constants& constants, bool with_published);

}  // namespace penstock::model
