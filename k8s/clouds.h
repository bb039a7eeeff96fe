// SPDX-License-Identifier: Apache-2.0

// Whose machine a node is, by the labels and the provider's name that managed Kubernetes gives it. For choices. Pure.
#pragma once

#include <string>
#include <string_view>

#include "k8s/objects.h"

namespace penstock::tools::k8s {

struct Cloud {
  const char* name;  // "EKS"; "" for a machine that no cloud names as its own.
  const char* page;  // The manual's page on it; "" for none.
  bool is_virtual;   // A virtual machine. Some shapes of a cloud are physical machines.
};
Cloud cloud_of(const Object& node);

// The GPU that a cloud's own labels name ("H100-MEGA-80GB"); "" if they name none.
std::string gpu_of_cloud(const Object& node);

}  // namespace penstock::tools::k8s
