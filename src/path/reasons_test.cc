// SPDX-License-Identifier: Apache-2.0

#include "path/reasons.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "path/dmabuf/dmabuf_reasons.h"
#include "path/nvfs/nvfs_reasons.h"
#include "path/pagecache/pagecache_reasons.h"
#include "path/pipeline/pipeline_reasons.h"
#include "path/vendor/vendor_reasons.h"

namespace penstock::core {
namespace {

TEST(ReasonsTest, EveryReasonThatMeansSomethingHasANameOfItsOwnAndASentence) {
  std::set<std::string> names;
  for (unsigned i = 0; i < kReasonCount; ++i) {
    const auto reason = static_cast<Reason>(i);
    if (std::string(reason_name(reason)) == "unknown") {
      EXPECT_GE(i, core_reasons().texts.size()) << "a reason of everybody's has no text";
      continue;
    }
    EXPECT_TRUE(names.insert(reason_name(reason)).second) << reason_name(reason);
    EXPECT_GT(std::string(reason_sentence(reason)).size(), 10u);
  }
}

TEST(ReasonsTest, EveryObstacleIsAReason) {
  for (const ObstacleText& text : obstacle_texts()) {
    ASSERT_LT(static_cast<unsigned>(reason_of(text.obstacle)), kReasonCount);
    EXPECT_STREQ(reason_name(reason_of(text.obstacle)), text.code);
    EXPECT_STREQ(reason_remedy(reason_of(text.obstacle)), text.remedy);
  }
}

TEST(ReasonsTest, NumbersBetweenReasonsAreUnknown) {
  EXPECT_STREQ(reason_name(static_cast<Reason>(kFirstObstacle)), "unknown");
  EXPECT_STREQ(reason_name(static_cast<Reason>(kFirstPipelineReason - 1)), "unknown");
  EXPECT_STREQ(reason_name(static_cast<Reason>(kReasonCount)), "unknown");
}

TEST(ReasonsTest, NoOwnersReasonsReachIntoTheNextOnesRange) {
  EXPECT_LT(core_reasons().texts.size(), kFirstObstacle);
  EXPECT_LT(kFirstObstacle + static_cast<unsigned>(obstacle_texts().back().obstacle), kFirstPipelineReason);
  EXPECT_LE(kFirstPipelineReason + pipeline_reasons().texts.size(), kFirstPagecacheReason);
  EXPECT_LE(kFirstPagecacheReason + pagecache_reasons().texts.size(), kFirstVendorReason);
  EXPECT_LE(kFirstVendorReason + vendor_reasons().texts.size(), kFirstNvfsReason);
  EXPECT_LE(kFirstNvfsReason + nvfs_reasons().texts.size(), kFirstDmabufReason);
  EXPECT_LE(kFirstDmabufReason + dmabuf_reasons().texts.size(), kFirstResidentReason);
  EXPECT_LE(kFirstResidentReason + resident_reasons().texts.size(), kReasonCount);
}

}  // namespace
}  // namespace penstock::core
