// SPDX-License-Identifier: Apache-2.0

// Finds the constants on which a result depends: varies each a little, and to the ends of its source's range, and
// recomputes the result. Pure; costs four evaluations of the result per constant, and two for the range of all.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/constants.h"

namespace penstock::model {

struct Influence {
  std::string_view constant;
  double elasticity;  // Per cent of change in the result for one per cent of change in the constant.
  double at_low;      // The result with the constant at the ends of its range.
  double at_high;
};

struct Sensitivity {
  std::string result;
  double value;
  std::vector<Influence> influences;  // The strongest first; constants that change nothing are left out.
  // The result with every constant at that end of its range which makes it less, or more. A constant that was given
  // another value than its table's stays.
  double least = 0;
  double most = 0;
};

using Result = std::function<double(const Constants&)>;

Sensitivity sensitivity_of(std::string name, const Constants& constants, const Result& result);

}  // namespace penstock::model
