// SPDX-License-Identifier: Apache-2.0

#include "tools/common/rights.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace penstock::tools {
namespace {

std::string status_of(unsigned uid, const char* capabilities) {
  return fmt::format("Name:\tpenstock\nUid:\t1000\t{}\t0\t0\nCapPrm:\t000001ffffffffff\nCapEff:\t{}\n", uid,
                     capabilities);
}
std::string told(unsigned uid, const char* capabilities) {
  return hidden_text(1, rights_in(status_of(uid, capabilities)));
}

TEST(RightsTest, WhoIsRootAlreadyIsToldWhatItLacksAndNotToBecomeRoot) {
  EXPECT_EQ(told(0, "00000000a80425fb"), "1 process cannot be looked at: root lacks the capability SYS_PTRACE here")
      << "as Docker gives it";
  EXPECT_EQ(told(0, "0000000000080000"),
            "1 process cannot be looked at: root lacks the capability DAC_READ_SEARCH here");
  EXPECT_EQ(told(0, "0000000000000000"),
            "1 process cannot be looked at: root lacks the capabilities SYS_PTRACE and DAC_READ_SEARCH here");
  EXPECT_EQ(told(0, "000001ffffffffff"),
            "1 process cannot be looked at: root has SYS_PTRACE and DAC_READ_SEARCH here, so a security module or a "
            "user namespace forbids it");
  EXPECT_EQ(told(1000, "0000000000000000"), "1 process cannot be looked at: run penstock as root");
}

TEST(RightsTest, WhatTheKernelDoesNotTellCountsAsMissing) {
  for (const char* status : {"", "Uid:", "\nUid:\t\n", "\nUid:\t0\n", "\nUid: 0 x\nCapEff: z\n"}) {
    const Rights rights = rights_in(status);
    EXPECT_FALSE(rights.is_root || rights.may_trace || rights.may_read_all) << status;
  }
  EXPECT_EQ(hidden_text(3, {}).find("3 processes cannot be looked at"), 0u);
}

TEST(RightsTest, OnesOwnAreThoseOfTheProcess) { EXPECT_EQ(own_rights().is_root, ::geteuid() == 0); }

}  // namespace
}  // namespace penstock::tools
