// SPDX-License-Identifier: Apache-2.0

// YAML of a JSON value, in its order and in the block style of manifests. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace penstock::tools::k8s {

// Strings that a reader of YAML might take for something else stand in quotes.
std::string yaml_text(const nlohmann::ordered_json& value);

}  // namespace penstock::tools::k8s
