// SPDX-License-Identifier: Apache-2.0

#include "model/input.h"

#include <fmt/format.h>

#include "model/words.h"

namespace penstock::model {

void require_positive(std::string_view name, double value, double most) {
  if (value > 0 && value <= most) return;
  throw InvalidInput(
      fmt::format("{} is {}; it must be above 0 and at most {}", name, count_in_words(value), count_in_words(most)));
}

void require_not_negative(std::string_view name, double value, double most) {
  if (value >= 0 && value <= most) return;
  throw InvalidInput(
      fmt::format("{} is {}; it must be from 0 to {}", name, count_in_words(value), count_in_words(most)));
}

}  // namespace penstock::model
