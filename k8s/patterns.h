// SPDX-License-Identifier: Apache-2.0

// The forms of text that definitions of resources and the API server ask for, by names of our own. No regular
// expressions, which a long text could have recurse without end. Pure.
#pragma once

#include <string_view>

namespace penstock::tools::k8s {

struct Pattern {
  std::string_view name;
  bool (*matches)(std::string_view text);
  const char* meaning;  // "a quantity such as 500m or 2Gi": to follow "must be".
};

const Pattern* pattern_named(std::string_view name);  // Null where there is none.

bool is_label(std::string_view text);        // Of a DNS name: small letters, digits, '-'.
bool is_subdomain(std::string_view text);    // Such labels with points between them, up to 253 letters.
bool is_label_value(std::string_view text);  // Of a Kubernetes label: up to 63 letters; may be empty.
bool is_label_key(std::string_view text);    // "nvidia.com/gpu.present"

}  // namespace penstock::tools::k8s
