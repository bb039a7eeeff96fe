// SPDX-License-Identifier: Apache-2.0

// Converts a JSON value to YAML, in its order and in the block style of manifests. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace penstock::tools::k8s {

// Quotes strings that a YAML reader could take for another type.
std::string yaml_text(const nlohmann::ordered_json& value);

}  // namespace penstock::tools::k8s
