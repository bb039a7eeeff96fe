// SPDX-License-Identifier: Apache-2.0

#include "tools/gdsio/numa_node.h"

#include <gtest/gtest.h>

#include "tools/common/failure.h"

namespace penstock::tools {
namespace {

using Cpus = std::vector<unsigned>;

TEST(NumaNodeTest, ReadsTheKernelsLists) {
  EXPECT_EQ(parse_cpu_list("0\n"), (Cpus{0}));
  EXPECT_EQ(parse_cpu_list("0-3,8,10-11\n"), (Cpus{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(parse_cpu_list("8191"), (Cpus{8191}));
}

TEST(NumaNodeTest, WhatIsNoListIsEmpty) {
  for (const char* text : {"", "\n", "a", "1-", "-1", "1,,2", "1,", "1 2", "0-99999999999", "8192", "1x"}) {
    EXPECT_EQ(parse_cpu_list(text), Cpus{}) << text;
  }
}

TEST(NumaNodeTest, ANodeThatIsNotThereDoesNotApply) {
  try {
    run_on_numa_node(999);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.exit_code(), kNotApplicable);
  }
}

}  // namespace
}  // namespace penstock::tools
