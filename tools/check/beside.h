// SPDX-License-Identifier: Apache-2.0

// Two machines beside each other: the paths and checks in which they differ, and which machine is more direct. It
// compares what facts/ says of each, and judges nothing itself. Pure.
//
// The JSON document:
//   schema        1
//   version       of Penstock
//   machines[]    two of {name ("A", "B"), root (null for this machine), way (how files reach device memory there)}
//   more_direct   "A", "B", or null where neither is
//   paths[]       those that differ, best first: path, A, B, each as a path of check's document
//   checks[]      those that differ: code, A, B, each {state (null: the machine has no such row), findings[] {subject,
//                 sentence, remedy} of the worst state that the check has there, rates (pcie_link alone: kinds of
//                 devices whose links have other rates on the two machines)}
#pragma once

#include "facts/examination.h"
#include "tools/common/context.h"
#include "tools/common/terminal.h"

namespace penstock::tools {

Text beside_text(const facts::Examination& a, const facts::Examination& b);
Json beside_json(const facts::Examination& a, const facts::Examination& b);

}  // namespace penstock::tools
