// SPDX-License-Identifier: Apache-2.0

// The exception for invalid input, whose text names the input and its valid values. Every model checks its input before
// it computes; the tool turns the exception into exit code 2.
#pragma once

#include <stdexcept>
#include <string_view>

namespace penstock::model {

class InvalidInput : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// Requires a number above 0 (or not below it) and at most `most`; refuses NaN and infinity.
void require_positive(std::string_view name, double value, double most);
void require_not_negative(std::string_view name, double value, double most);

}  // namespace penstock::model
