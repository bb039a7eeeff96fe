// SPDX-License-Identifier: Apache-2.0

#include "base/status.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace penstock::core {
namespace {

TEST(StatusTest, ASentenceHasTheStepTheCauseAndTheRemedy) {
  const Status canceled = failure(Code::canceled, "read the file into the buffer");
  const Status full = os_failure(ENOSPC, "write the buffer to the file");

  EXPECT_EQ(describe(canceled),
            "could not read the file into the buffer: the program canceled the request before it began; submit the "
            "request again if it is still needed");
  EXPECT_EQ(describe(full),
            "could not write the buffer to the file: No space left on device; free space on the file system");
}

TEST(StatusTest, EveryCodeHasACauseAndNothingElseHas) {
  for (int code = 1; code <= static_cast<int>(Code::timed_out); ++code) {
    EXPECT_EQ(describe(failure(static_cast<Code>(code), "")).find("unknown error"), std::string::npos) << code;
  }

  EXPECT_EQ(describe(failure(static_cast<Code>(999), "try")), "could not try: unknown error 999");
}

}  // namespace
}  // namespace penstock::core
