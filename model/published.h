// SPDX-License-Identifier: Apache-2.0

// Figures that others published, each with the models' prediction. If a model misses a figure by more than 10 %, the
// figure says why; tests check both. Pure.
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "model/constants.h"
#include "model/report.h"

namespace penstock::model {

struct Figure {
  std::string_view model;  // "registration", "checkpoint", "load"
  std::string_view what;
  std::string_view unit;
  double low;  // The published range; both ends equal for a single number, infinite for "under" and "over".
  double high;
  std::function<double(const Constants&)> predicted;
  std::string_view why;  // "" if the model reproduces it.
};

constexpr double kFigureTolerance = 0.1;

std::vector<Figure> published_figures();
double error_of(const Figure& figure, double predicted);  // Relative, to the nearest end; 0 within the range.

// The figures of one model as a table: published, predicted, error, why.
Sheet published_sheet(std::string_view model, const Constants& constants);

}  // namespace penstock::model
