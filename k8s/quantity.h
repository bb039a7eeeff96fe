// SPDX-License-Identifier: Apache-2.0

// Amounts as Kubernetes writes them: "500m", "2", "2Gi", "1e3". Pure.
#pragma once

#include <optional>
#include <string_view>

#include "k8s/manifest.h"

namespace penstock::tools::k8s {

struct Quantity {
  long double amount = 0;  // Of more than 2^63 - 1 that, as a server takes it.
  bool is_whole = true;
};

// By the API server's grammar; nothing for what it does not take. A suffix is of two powers or of ten, or an exponent
// of ten, and never two of these.
std::optional<Quantity> read_quantity(std::string_view text);
// The same of a number or text of YAML; 0 for null.
std::optional<Quantity> quantity_of(const Value& value);
// Whether a is more than b, however the two are written.
bool is_more(const Quantity& a, const Quantity& b);

}  // namespace penstock::tools::k8s
