// SPDX-License-Identifier: Apache-2.0

// What `penstock-model compare` says: benchmark results beside what a model calibrated on part of them predicts.
#pragma once

#include "model/report.h"
#include "model/transfer.h"

namespace penstock::model {

Report compare_report(std::span<const GroupComparison> groups, unsigned hold_out);

// The ceiling of the group of an operation ("read", "write") that reaches most; 0 where none was measured.
double measured_ceiling(std::span<const GroupComparison> groups, std::string_view operation);

}  // namespace penstock::model
