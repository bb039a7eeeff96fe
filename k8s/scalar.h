// SPDX-License-Identifier: Apache-2.0

// What a word without quotes is in the YAML of Kubernetes' tools, which is YAML 1.1's: "on" is a boolean there, 0x10
// and 010 are numbers. Pure.
#pragma once

#include <string>

#include "k8s/manifest.h"

namespace penstock::tools::k8s {

// Sets the kind, and what goes with it.
void set_plain(Value& value, const std::string& word);

}  // namespace penstock::tools::k8s
