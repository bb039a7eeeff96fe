// SPDX-License-Identifier: Apache-2.0

#include "model/report.h"

#include <gtest/gtest.h>

#include <cmath>

namespace penstock::model {
namespace {

Report small() {
  Report report{"small", "A </script><b>title"};
  report.sheets = {{"one", "One", {{"name", "name"}, {"x", "x"}}, {{"a, \"b\"", 1.5}, {nullptr, 0.1}}}};
  return report;
}

TEST(Report, CsvQuotesWhatNeedsIt) { EXPECT_EQ(to_csv(small()), "name,x\n\"a, \"\"b\"\"\",1.5\n,0.1\n"); }

TEST(Report, WhatIsNotFiniteIsNull) {
  EXPECT_TRUE(number(std::nan("")).is_null());
  EXPECT_TRUE(number(HUGE_VAL).is_null());
  EXPECT_EQ(number(2), 2.0);
}

}  // namespace
}  // namespace penstock::model
