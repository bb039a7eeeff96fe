// SPDX-License-Identifier: Apache-2.0

#include "tools/stats/odirect.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

namespace penstock::tools {
namespace {

TEST(DirectShareTest, TheFlagsOfADescriptorSayWhetherItIsDirect) {
  EXPECT_EQ(is_direct_by(fmt::format("pos:\t0\nflags:\t0{:o}\nmnt_id:\t3\n", O_RDWR | O_DIRECT)), true);
  EXPECT_EQ(is_direct_by("pos:\t0\nflags:\t0100002\n"), false);
  EXPECT_EQ(is_direct_by("pos:\t0\n"), std::nullopt);
  EXPECT_EQ(is_direct_by("flags:\t"), std::nullopt);
}

TEST(DirectShareTest, OfALibraryThatDoesNotCountDirectBytesNoShareIsTold) {
  DirectShare job;
  job.sums[0] = {1 << 20, 0};
  EXPECT_NE(job_text(job).find("1 MiB read; its library is too old to count"), std::string::npos) << job_text(job);
  EXPECT_TRUE(job_json(job)["read"]["direct_bytes"].is_null());
  job.has_direct_bytes = true;
  EXPECT_NE(job_text(job).find("1 MiB read: 0.0 % by O_DIRECT"), std::string::npos) << job_text(job);
}

TEST(DirectShareTest, WhatStandsInTheWayOfAFileIsToldWithItsRemedy) {
  DirectShare job;
  job.files.push_back({"/data/a", 4096, 0, 1, "the file is compressed", "copy it"});
  job.files.push_back({"/data/b\x1b[2J", 4096, 1, 1, "", ""});
  const std::string text = job_text(job);
  EXPECT_NE(text.find("/data/a: the file is compressed\n  -> Copy it.\n"), std::string::npos) << text;
  EXPECT_NE(text.find("both"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace penstock::tools
