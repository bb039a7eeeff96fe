// SPDX-License-Identifier: Apache-2.0

#include "facts/operator_versions.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::facts {
namespace {

TEST(OperatorVersionsTest, AReleaseIsFoundByItselfOrByItsLine) {
  EXPECT_EQ(std::string(operator_version("v25.10.0")->driver), "580.95.05");
  EXPECT_EQ(std::string(operator_version("26.3.1")->release), "v26.3.3");
  EXPECT_EQ(std::string(operator_version("")->release), "v26.7.0");
  EXPECT_EQ(operator_version("v1.11.0"), nullptr);
  EXPECT_EQ(operator_version("new"), nullptr);
}

TEST(OperatorVersionsTest, VersionsAreReadUpToWhatFollowsThem) {
  EXPECT_EQ(version_of("v2.29.4-ubuntu24.04"), (Version{2, 29, 4}));
  EXPECT_EQ(version_of("6.8.0-51-generic"), (Version{6, 8, 0}));
  EXPECT_EQ(version_of("580"), (Version{580, 0, 0}));
  EXPECT_EQ(version_of("2.x"), (Version{2, 0, 0}));
  EXPECT_FALSE(version_of("sha256:0").has_value());
  EXPECT_FALSE(version_of("").has_value());
  EXPECT_FALSE(version_of("99999999999999999999").has_value());
}

TEST(OperatorVersionsTest, SystemsAndRuntimesAreKnownOrNot) {
  EXPECT_EQ(has_gds_image("ubuntu24.04"), true);
  EXPECT_EQ(has_gds_image("rocky9.4"), false);
  EXPECT_EQ(has_gds_image(""), std::nullopt);
  EXPECT_EQ(has_gds_image("rhcos4.18"), true);
  EXPECT_EQ(has_gds_image("rhcos418.94.202410"), true);
  EXPECT_EQ(has_gds_image("rhcos416.94.202410"), false);
  EXPECT_EQ(has_gds_image("openshift"), true);
  EXPECT_EQ(has_gds_image("openshift4.9"), false);
  EXPECT_EQ(allows_io_uring("containerd-1.7.29"), true);
  EXPECT_EQ(allows_io_uring("containerd-2.1"), false);
  EXPECT_EQ(allows_io_uring("docker-24"), true);
  EXPECT_EQ(allows_io_uring("cri-o-1.31"), false);
  EXPECT_EQ(allows_io_uring("containerd"), std::nullopt);
  EXPECT_EQ(allows_io_uring(""), std::nullopt);
}

}  // namespace
}  // namespace penstock::facts
