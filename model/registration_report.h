// SPDX-License-Identifier: Apache-2.0

// The report of `penstock-model registration`: the schemes side by side, from which I/O on one is cheaper than another,
// and that frontier over buffer size and link bandwidth.
#pragma once

#include "model/registration.h"
#include "model/report.h"

namespace penstock::model {

// with_published: adds the published figures.
Report registration_report(const RegistrationInput& input, const Constants& constants, bool with_published);

}  // namespace penstock::model
