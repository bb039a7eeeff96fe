// SPDX-License-Identifier: Apache-2.0

// The type of an unquoted word in the YAML of Kubernetes' tools, which is YAML 1.1: "on" is a boolean, 0x10 and 010 are
// numbers. Pure.
#pragma once

#include <string>

#include "k8s/manifest.h"

namespace penstock::tools::k8s {

// Sets the value's kind and the members for it.
void set_plain(Value& value, const std::string& word);

}  // namespace penstock::tools::k8s
