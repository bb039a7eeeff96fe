// SPDX-License-Identifier: Apache-2.0

// What the models refuse: one exception whose text names the input and what it may be. Every model checks what it is
// given before it computes; the tool turns the exception into exit code 2.
#pragma once

#include <stdexcept>
#include <string_view>

namespace penstock::model {

class InvalidInput : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// A number above 0 (or not below it) and at most `most`; NaN and infinity are neither.
void require_positive(std::string_view name, double value, double most);
void require_not_negative(std::string_view name, double value, double most);

}  // namespace penstock::model
