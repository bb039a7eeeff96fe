// SPDX-License-Identifier: Apache-2.0

#include "model/published.h"

#include <gtest/gtest.h>

#include <cmath>

namespace penstock::model {
namespace {

TEST(Published, EveryFigureIsReproducedOrSaysWhyNot) {
  const Constants constants;
  for (const Figure& figure : published_figures()) {
    const double predicted = figure.predicted(constants);
    const double error = error_of(figure, predicted);
    EXPECT_TRUE(std::isfinite(predicted)) << figure.what;
    EXPECT_TRUE(std::abs(error) <= kFigureTolerance || figure.why.size() > 20)
        << figure.model << ": " << figure.what << ": model " << predicted << ", off by " << error;
  }
}

TEST(Published, AnExcuseStandsOnlyWhereItIsNeeded) {
  const Constants constants;
  for (const Figure& figure : published_figures()) {
    if (figure.why.empty()) continue;
    EXPECT_GT(std::abs(error_of(figure, figure.predicted(constants))), kFigureTolerance) << figure.what;
  }
}

TEST(Published, MostFiguresAreReproduced) {
  const Constants constants;
  int reproduced = 0, all = 0;
  for (const Figure& figure : published_figures()) {
    reproduced += std::abs(error_of(figure, figure.predicted(constants))) <= kFigureTolerance ? 1 : 0;
    ++all;
  }
  EXPECT_GE(all, 37);
  EXPECT_GE(reproduced, 24);
}

TEST(Published, TheErrorIsMeasuredFromTheNearestEnd) {
  const Figure range{"", "", "", 10, 20, {}, ""};
  EXPECT_EQ(error_of(range, 15), 0);
  EXPECT_DOUBLE_EQ(error_of(range, 9), -0.1);
  EXPECT_DOUBLE_EQ(error_of(range, 22), 0.1);
}

TEST(Published, TheSheetHoldsOneModelsFigures) {
  const Sheet sheet = published_sheet("load", Constants());
  EXPECT_EQ(sheet.rows.size(), 10u);
  EXPECT_EQ(sheet.rows[1][1], "26 s");
  EXPECT_EQ(sheet.rows[7][1], "over 50 GB/s");
  EXPECT_NEAR(sheet.rows[7][2].get<double>(), 67.2, 1e-9);
}

}  // namespace
}  // namespace penstock::model
