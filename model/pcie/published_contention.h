// SPDX-License-Identifier: Apache-2.0

// The published and measured figures about contention, and what the model says to each: `--published` prints the table,
// a test holds it, docs/internals/models.md quotes it. Where the model must disagree, the note says why.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/pcie/pcie_constants.h"

namespace penstock::model {

// How far a prediction may be off.
constexpr double kPublishedTolerance = 0.10;

struct PublishedPoint {
  std::string what;
  std::string unit;
  double low = 0;  // As published; a range, or the same number twice.
  double high = 0;
  double predicted = 0;
  bool is_calibration = false;  // The model was fitted to it: it proves nothing.
  std::string note;             // Why the model disagrees, or what was assumed.

  // How far the prediction is outside of the published range, as a share of its nearer end.
  double error() const;
};

// Runs all of them: some seconds.
std::vector<PublishedPoint> published_contention(const PcieConstants& constants = {});

}  // namespace penstock::model
