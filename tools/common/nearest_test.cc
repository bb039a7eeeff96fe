// SPDX-License-Identifier: Apache-2.0

#include "tools/common/nearest.h"

#include <gtest/gtest.h>

namespace penstock::tools {
namespace {

const std::vector<std::string> kOptions = {"--bs", "--depth", "--direct", "--time", "--threads"};

TEST(NearestTest, OneSlipOfEachKindIsForgiven) {
  for (const char* word : {"--dpeth", "--deth", "--deppth", "--dapth"}) EXPECT_EQ(nearest(word, kOptions), "--depth");
}

TEST(NearestTest, TheNearestOfSeveralIsMeant) { EXPECT_EQ(nearest("--thread", kOptions), "--threads"); }

TEST(NearestTest, WhatIsFarFromAllMeansNone) {
  EXPECT_EQ(nearest("--overwrite", kOptions), "");
  EXPECT_EQ(nearest("x", kOptions), "");
  EXPECT_EQ(nearest("", kOptions), "");
  EXPECT_EQ(nearest("--depth", {}), "");
  EXPECT_EQ(nearest(std::string(100'000, '-'), kOptions), "");
}

TEST(NearestTest, WordsThatContainItAreProposedWhereNoneIsNear) {
  EXPECT_EQ(proposal("cache", {"registration_cache_mib", "page-cache", "workers", "CACHE_SIZE"}),
            "; did you mean 'registration_cache_mib', 'page-cache', 'CACHE_SIZE'?");
  EXPECT_EQ(proposal("io", {"io_uring", "direct_io"}), "") << "two letters are in too many words";
}

TEST(NearestTest, AProposalIsTheEndOfASentence) {
  EXPECT_EQ("there is no option '--dpeth'" + proposal("--dpeth", kOptions),
            "there is no option '--dpeth'; did you mean '--depth'?");
  EXPECT_EQ(proposal("--overwrite", kOptions), "");
}

}  // namespace
}  // namespace penstock::tools
