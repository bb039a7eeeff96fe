// SPDX-License-Identifier: Apache-2.0

#include "topology/obstacle.h"

#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <string>

#include "core/p2pdma_needs.h"

namespace penstock::core {
namespace {

TEST(ObstacleTest, EachHasACodeOneSentenceAndARemedy) {
  std::set<std::string> codes;
  for (const ObstacleText& text : obstacle_texts()) {
    const std::string code = text.code;
    const std::string sentence = text.sentence;
    EXPECT_TRUE(codes.insert(code).second) << code;
    EXPECT_EQ(code.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string::npos) << code;
    EXPECT_GT(sentence.size(), 10u) << code;
    EXPECT_NE(sentence.back(), '.') << code;
    EXPECT_GT(std::string(text.remedy).size(), 10u) << code;
    EXPECT_STREQ(obstacle_text(text.obstacle).code, text.code);
  }
  EXPECT_GT(codes.size(), 50u);
}

TEST(ObstacleTest, VersionsInSentencesAreThoseThatAreJudgedBy) {
  const auto names = [](Obstacle obstacle, const auto& version) {
    const std::string number = std::to_string(version.major) + "." + std::to_string(version.minor);
    return std::string(obstacle_text(obstacle).sentence).find(number) != std::string::npos;
  };
  EXPECT_TRUE(names(Obstacle::kernel_too_old, kP2pdmaKernel));
  EXPECT_TRUE(names(Obstacle::driver_no_export, kP2pdmaDriver));
  EXPECT_TRUE(names(Obstacle::driver_too_old_for_kernel, kP2pdmaDriverOfNewPages));
  EXPECT_TRUE(names(Obstacle::driver_too_old_for_kernel, kP2pdmaKernelOfNewPages));
}

TEST(ObstacleTest, ANumberThatIsNoneIsUnknown) {
  EXPECT_STREQ(obstacle_text(Obstacle::none).code, "unknown");
  EXPECT_STREQ(obstacle_text(static_cast<Obstacle>(255)).code, "unknown");
  EXPECT_STREQ(obstacle_text(static_cast<Obstacle>(5)).code, "unknown");
}

TEST(ObstacleTest, OnlyWhatIsCertainAndTotalStops) {
  const Finding refused{Obstacle::virtio, Certainty::certain, "vda"};
  const Finding perhaps{Obstacle::nvme_rdma, Certainty::possible, "nvme1n1"};
  const Finding in_part{Obstacle::holes, Certainty::certain, ""};
  const Finding slower{Obstacle::shared_extents, Certainty::certain, ""};
  const Finding copied{Obstacle::memory, Certainty::certain, ""};
  EXPECT_TRUE(refused.stops());
  EXPECT_TRUE(copied.stops());
  EXPECT_FALSE(perhaps.stops());
  EXPECT_FALSE(in_part.stops());
  EXPECT_FALSE(slower.stops());
  const Findings findings = {perhaps, in_part, refused, copied};
  ASSERT_NE(first_stop(findings), nullptr);
  EXPECT_EQ(*first_stop(findings), refused);
  EXPECT_EQ(first_stop(Findings{perhaps, slower}), nullptr);
  EXPECT_EQ(refused.sentence(), "vda: a virtio disk refuses device pages");
  EXPECT_EQ(in_part.sentence(), obstacle_text(Obstacle::holes).sentence);
}

}  // namespace
}  // namespace penstock::core
