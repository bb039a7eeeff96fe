// SPDX-License-Identifier: Apache-2.0

// Whether a file that is no YAML is a template of Helm's, which would be. Pure.
#pragma once

#include "k8s/manifest.h"

namespace penstock::tools::k8s {

// A text in which each "{{" has its "}}", and what is between them begins as an action does. Where no action repeats
// or leaves out lines, the rest of the text has to be YAML.
bool is_helm_template(const Manifest& manifest);

}  // namespace penstock::tools::k8s
