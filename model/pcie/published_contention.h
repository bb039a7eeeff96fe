// SPDX-License-Identifier: Apache-2.0

// Published and measured figures about contention, each with the model's prediction: `--published` prints the table, a
// test checks it, docs/internals/models.md quotes it. If the model disagrees, the note says why.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/pcie/pcie_constants.h"

namespace penstock::model {

// Tolerance of a prediction.
constexpr double kPublishedTolerance = 0.10;

struct PublishedPoint {
  std::string what;
  std::string unit;
  double low = 0;  // The published range, or one number twice.
  double high = 0;
  double predicted = 0;
  bool is_calibration = false;  // The model was fitted to this figure, so it proves nothing.
  std::string note;             // Why the model disagrees, or what was assumed.

  // Distance of the prediction from the published range, relative to the nearer end.
  double error() const;
};

// Runs all of them, which takes some seconds.
std::vector<PublishedPoint> published_contention(const PcieConstants& constants = {});

}  // namespace penstock::model
