// SPDX-License-Identifier: Apache-2.0

#include "model/input.h"

#include <fmt/format.h>

namespace penstock::model {

void require_positive(std::string_view name, double value, double most) {
  if (value > 0 && value <= most) return;
  throw InvalidInput(fmt::format("{} is {:g}; it must be above 0 and at most {:g}", name, value, most));
}

void require_not_negative(std::string_view name, double value, double most) {
  if (value >= 0 && value <= most) return;
  throw InvalidInput(fmt::format("{} is {:g}; it must be from 0 to {:g}", name, value, most));
}

}  // namespace penstock::model
