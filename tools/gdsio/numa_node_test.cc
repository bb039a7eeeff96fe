// SPDX-License-Identifier: Apache-2.0

#include "tools/gdsio/numa_node.h"

#include <gtest/gtest.h>

#include "tools/common/failure.h"

namespace penstock::tools {
namespace {

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
