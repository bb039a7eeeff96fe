// SPDX-License-Identifier: Apache-2.0

// Amounts as Kubernetes writes them: "500m", "2", "2Gi", "1e3". Pure.
#pragma once

#include <optional>
#include <string_view>

#include "k8s/manifest.h"

namespace penstock::tools::k8s {

struct Quantity {
  long double amount = 0;  // Capped at 2^63 - 1, as in the API server.
  bool is_whole = true;
};

// Parses by the API server's grammar; nothing if it would refuse the text. A suffix is a power of two, a power of ten,
// or a decimal exponent, never two of these.
std::optional<Quantity> read_quantity(std::string_view text);
// The same for a YAML number or text; 0 for null.
std::optional<Quantity> quantity_of(const Value& value);
// Whether a is more than b, in any notation.
bool is_more(const Quantity& a, const Quantity& b);

}  // namespace penstock::tools::k8s
