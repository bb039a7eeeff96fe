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

void go_to_ends(Constant constant, const Influence& influence, Constants& least, Constants& most) {
  const ConstantFacts& facts = facts_of(constant);
  if (least[constant] != facts.value || influence.at_low == influence.at_high) return;
  const bool rises = influence.at_low < influence.at_high;
  least.set(constant, rises ? facts.low : facts.high);
  most.set(constant, rises ? facts.high : facts.low);
}

}  // namespace

Sensitivity sensitivity_of(std::string name, const Constants& constants, const Result& result) {
  Sensitivity sensitivity{std::move(name), result(constants), {}};
  sensitivity.least = sensitivity.most = sensitivity.value;
  if (!std::isfinite(sensitivity.value)) return sensitivity;
  // NaN if the result of a small step is infinite: it cannot be ordered.
  const auto strength = [](const Influence& influence) {
    return std::isnan(influence.elasticity) ? 0 : std::abs(influence.elasticity);
  };
  Constants least = constants, most = constants;
  for (std::size_t i = 0; i < kConstantCount; ++i) {
    const auto constant = static_cast<Constant>(i);
    const Influence influence = influence_of(constants, constant, result, sensitivity.value);
    go_to_ends(constant, influence, least, most);
    const bool range_matters = std::abs(influence.at_low - influence.at_high) > 1e-9 * std::abs(sensitivity.value);
    if (strength(influence) > 1e-6 || range_matters) sensitivity.influences.push_back(influence);
  }
  sensitivity.least = result(least);
  sensitivity.most = result(most);
  std::stable_sort(sensitivity.influences.begin(), sensitivity.influences.end(),
                   [&](const Influence& a, const Influence& b) { return strength(a) > strength(b); });
  return sensitivity;
}

}  // namespace penstock::model
