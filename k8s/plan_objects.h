// SPDX-License-Identifier: Apache-2.0

// The objects of a deployment, for plan.cc alone: answers are not judged here any more.
#pragma once

#include <string>
#include <vector>

#include "k8s/plan.h"

namespace penstock::tools::k8s {

void add_objects(const Answers& answers, std::vector<Rendered>& objects);
// The one that is asked for, or the operator's own.
std::string driver_of(const Answers& answers);
// Whether the workload has a seccomp profile of its own: its runtime's default one forbids io_uring.
bool has_seccomp_profile(const Answers& answers);

}  // namespace penstock::tools::k8s
