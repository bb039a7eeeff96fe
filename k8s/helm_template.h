// SPDX-License-Identifier: Apache-2.0

// Recognizes Helm templates, which become YAML only when rendered. Pure.
#pragma once

#include "k8s/manifest.h"

namespace penstock::tools::k8s {

// True if each "{{" has a "}}" and the text between them begins like an action. If no action repeats or omits lines,
// the rest of the text must be YAML.
bool is_helm_template(const Manifest& manifest);

}  // namespace penstock::tools::k8s
