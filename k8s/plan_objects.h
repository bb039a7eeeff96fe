// SPDX-License-Identifier: Apache-2.0

// Makes the objects of a deployment, only for plan.cc, which has checked the answers.
#pragma once

#include <string>
#include <vector>

#include "k8s/plan.h"

namespace penstock::tools::k8s {

void add_objects(const Answers& answers, std::vector<Rendered>& objects);
// The requested driver version, or the operator's default.
std::string driver_of(const Answers& answers);
std::string gds_of(const Answers& answers);  // The version of nvidia-fs that the operator installs.
// Whether NVIDIA's library takes nvidia-fs: Penstock's own client of it takes local file systems alone.
bool goes_by_libcufile(const Answers& answers);
// Whether the workload has its own seccomp profile, because its runtime's default forbids io_uring.
bool has_seccomp_profile(const Answers& answers);

}  // namespace penstock::tools::k8s
