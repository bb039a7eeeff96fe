// SPDX-License-Identifier: Apache-2.0

// Text formats required by resource definitions and the API server, under our own names. Without regular expressions,
// whose recursion a long text could exploit. Pure.
#pragma once

#include <string_view>

namespace penstock::tools::k8s {

struct Pattern {
  std::string_view name;
  bool (*matches)(std::string_view text);
  const char* meaning;  // "a quantity such as 500m or 2Gi": to follow "must be".
};

const Pattern* pattern_named(std::string_view name);  // Null if there is none.

inline bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
bool is_label(std::string_view text);        // A DNS label: small letters, digits, '-'.
bool is_subdomain(std::string_view text);    // DNS labels separated by dots, up to 253 characters.
bool is_label_value(std::string_view text);  // The value of a Kubernetes label: up to 63 characters; may be empty.
bool is_label_key(std::string_view text);    // "nvidia.com/gpu.present"

}  // namespace penstock::tools::k8s
