// SPDX-License-Identifier: Apache-2.0

// The report of `penstock-model compare`: benchmark results next to the predictions of a model calibrated on part of
// them.
#pragma once

#include "model/report.h"
#include "model/transfer.h"

namespace penstock::model {

Report compare_report(std::span<const GroupComparison> groups, unsigned hold_out);

// The highest ceiling of an operation's groups ("read", "write"); 0 if none was measured.
double measured_ceiling(std::span<const GroupComparison> groups, std::string_view operation);

}  // namespace penstock::model
