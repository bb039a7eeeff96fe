// SPDX-License-Identifier: Apache-2.0

// Findings that follow from others, on rows put together by hand.
#include <gtest/gtest.h>

#include <string>

#include "facts/judgement.h"

namespace penstock::facts {
namespace {

void add(Findings& rows, State state, const char* code, const std::string& subject,
         const std::vector<FindingName>& causes) {
  Finding row;
  row.code = code;
  row.subject = subject;
  row.state = state;
  row.may_follow_from = causes;
  rows.push_back(row);
}

TEST(ValidateCausesTest, ARowFollowsFromTheFirstOfItsCausesThatFails) {
  Findings rows;
  add(rows, State::not_applicable, "storage", "/data", {{"transport", "/data"}, {"path", ""}});
  add(rows, State::fail, "path", "p2pdma", {{"gpu", ""}, {"kernel_p2pdma", ""}});
  add(rows, State::fail, "kernel_p2pdma", "", {});
  add(rows, State::pass, "gpu", "", {});
  add(rows, State::fail, "transport", "/other", {});

  settle_causes(rows);

  ASSERT_TRUE(rows[0].follows_from && rows[1].follows_from);
  EXPECT_EQ(rows[0].follows_from->code, "path");
  EXPECT_EQ(rows[0].follows_from->subject, "p2pdma");
  EXPECT_EQ(rows[1].follows_from->code, "kernel_p2pdma");
  EXPECT_STREQ(cause_of(rows, rows[0]).code, "kernel_p2pdma") << "through the path";
  for (std::size_t i = 2; i < rows.size(); ++i) EXPECT_FALSE(rows[i].follows_from) << rows[i].code;
}

TEST(ValidateCausesTest, WhatPassedFollowsFromNothing) {
  Findings rows;
  add(rows, State::pass, "storage", "/data", {{"path", ""}});
  add(rows, State::fail, "path", "nvfs", {});
  settle_causes(rows);
  EXPECT_FALSE(rows[0].follows_from);
  EXPECT_EQ(&cause_of(rows, rows[0]), &rows[0]);
}

TEST(ValidateCausesTest, RowsThatFollowFromOneAnotherComeToAnEnd) {
  Findings rows;
  add(rows, State::fail, "one", "", {{"other", ""}, {"one", ""}});
  add(rows, State::fail, "other", "", {{"one", ""}});
  settle_causes(rows);
  EXPECT_EQ(cause_of(rows, rows[0]).state, State::fail);
}

}  // namespace
}  // namespace penstock::facts
