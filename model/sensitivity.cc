// SPDX-License-Identifier: Apache-2.0

#include "model/sensitivity.h"

#include <algorithm>
#include <cmath>

namespace penstock::model {
namespace {

constexpr double kStep = 0.01;

double result_with(Constants constants, Constant constant, double value, const Result& result) {
  constants.set(constant, value);
  return result(constants);
}

Influence influence_of(const Constants& constants, Constant constant, const Result& result, double at_value) {
  const double value = constants[constant];
  const double above = result_with(constants, constant, value * (1 + kStep), result);
  const double below = result_with(constants, constant, value * (1 - kStep), result);
  const ConstantFacts& facts = facts_of(constant);
  return {facts.name, at_value == 0 ? 0 : (above - below) / (2 * kStep * at_value),
          result_with(constants, constant, facts.low, result), result_with(constants, constant, facts.high, result)};
}

}  // namespace

Sensitivity sensitivity_of(std::string name, const Constants& constants, const Result& result) {
  Sensitivity sensitivity{std::move(name), result(constants), {}};
  if (!std::isfinite(sensitivity.value)) return sensitivity;
  // NaN if the result of a small step is infinite: it cannot be ordered.
  const auto strength = [](const Influence& influence) {
    return std::isnan(influence.elasticity) ? 0 : std::abs(influence.elasticity);
  };
  for (std::size_t i = 0; i < kConstantCount; ++i) {
    const Influence influence = influence_of(constants, static_cast<Constant>(i), result, sensitivity.value);
    const bool range_matters = std::abs(influence.at_low - influence.at_high) > 1e-9 * std::abs(sensitivity.value);
    if (strength(influence) > 1e-6 || range_matters) sensitivity.influences.push_back(influence);
  }
  std::stable_sort(sensitivity.influences.begin(), sensitivity.influences.end(),
                   [&](const Influence& a, const Influence& b) { return strength(a) > strength(b); });
  return sensitivity;
}

}  // namespace penstock::model
