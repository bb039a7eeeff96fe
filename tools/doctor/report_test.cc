// SPDX-License-Identifier: Apache-2.0

#include "tools/doctor/report.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::tools {
namespace {

Stage stage_of(const char* name, double bytes_per_second) {
  Stage stage{name, name, {}};
  stage.rate.bytes_per_second = bytes_per_second;
  stage.rate.turns = {bytes_per_second};
  return stage;
}

TEST(DoctorReportTest, WhichPartBindsIsToldWithTheWholesShareOfIt) {
  Examination found;
  found.stages = {stage_of("drive", 4e9), stage_of("cold", 3e9), stage_of("page_cache", 20e9), stage_of("warm", 5e9)};
  found.forecast.seconds = found.forecast.cold_seconds = 10;
  found.forecast.binds = Binds::drive;
  const auto told = [&] { return examination_json(found)["forecast"]["binds_text"].get<std::string>(); };

  EXPECT_EQ(told(),
            "The drive binds: the whole way gives 3.00 GB/s, 75 % of the 4.00 GB/s that the drive alone gives.");
  found.forecast.cold_seconds = 0;
  found.forecast.binds = Binds::page_cache;
  EXPECT_EQ(told(),
            "The page cache binds: the whole way gives 5.00 GB/s, 25 % of the 20.00 GB/s that copying out of the page "
            "cache alone gives.");
}

TEST(DoctorReportTest, OfABriefLoadNoPartIsSaidToBindAndNoRateIsShownAsNothing) {
  Examination found;
  found.stages = {stage_of("page_cache", 0.35e6), stage_of("warm", 0.34e6)};
  found.survey.places.resize(1);
  found.survey.places[0].told.info.file_system = "ext4";
  found.forecast.is_brief = true;
  const std::string text(examination_text(found, {.words = {"file"}}).string());

  EXPECT_NE(text.find("That is too short to say what binds: the whole way gives 0.34"), std::string::npos) << text;
  EXPECT_NE(text.find(" 0.00034 "), std::string::npos) << text;
  EXPECT_EQ(text.find(" 0.00"), text.find(" 0.000")) << text;
}

TEST(DoctorReportTest, AChangeIsToldWithTheTimeThatItTakesAndTheTimeNow) {
  Examination found;
  found.stages = {stage_of("drive", 4e9), stage_of("cold", 3e9)};
  found.survey.places.resize(1);
  found.survey.places[0].told.info.file_system = "ext4";
  found.forecast.seconds = found.forecast.cold_seconds = 10;
  found.forecast.changes = {{"read from 4 threads", "--threads 4", 5, false}};
  found.forecast.doubts = {{"spend more CPU time on it", {1.2, 0.9, 1.5, ""}}};
  const std::string text(examination_text(found, {.words = {"file"}}).string());

  EXPECT_NE(text.find("  read from 4 threads: 2.0 times as fast, 5.00 s in place of 10.00 s\n    -> --threads 4\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  spend more CPU time on it: unknown, between 0.9 and 1.5 times as fast\n"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace penstock::tools
