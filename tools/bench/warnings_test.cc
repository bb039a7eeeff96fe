// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/warnings.h"

#include <gtest/gtest.h>

namespace penstock::tools {
namespace {

constexpr std::uint64_t kGigabyte = 1'000'000'000;

// A read of a gigabyte from the drive, known within a percent.
Evidence sound() {
  Evidence evidence;
  evidence.bytes = evidence.direct_bytes = kGigabyte;
  evidence.drive_bytes = kGigabyte;
  evidence.block_count = 1000;
  evidence.direct_align = 512;
  evidence.estimate = {.rate = 100, .low = 99, .high = 101, .degrees = 19, .drift = 0, .batches = {99, 100, 101}};
  return evidence;
}

std::vector<std::string> names(const BenchSettings& settings, const Evidence& evidence) {
  std::vector<std::string> all;
  for (const Warning& warning : warnings_of(settings, evidence)) all.emplace_back(warning.name);
  return all;
}

using Names = std::vector<std::string>;

TEST(BenchWarnings, AreNoneForASoundMeasurement) { EXPECT_EQ(names({}, sound()), Names{}); }

TEST(BenchWarnings, TellCacheAndDriveInOneNumber) {
  Evidence evidence = sound();
  evidence.drive_bytes = kGigabyte / 5;
  const auto warnings = warnings_of({}, evidence);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(std::string(warnings[0].name), "blended");
  EXPECT_TRUE(warnings[0].sentence.starts_with("80 % of the bytes came from the page cache")) << warnings[0].sentence;
  evidence.drive_bytes = 0;
  EXPECT_EQ(names({}, evidence), Names{});
}

TEST(BenchWarnings, GoByTheLibrarysCountWhereTheKernelHasNone) {
  Evidence evidence = sound();
  evidence.drive_bytes.reset();
  EXPECT_EQ(names({}, evidence), Names{});
  evidence.direct_bytes = evidence.cached_bytes = kGigabyte / 2;
  EXPECT_EQ(names({}, evidence), Names{"blended"});
}

TEST(BenchWarnings, TellWhatADriveReadsForNothing) {
  BenchSettings settings;
  settings.direct = true;
  settings.block_size = 100;
  Evidence evidence = sound();
  evidence.drive_bytes = 6 * kGigabyte;
  EXPECT_EQ(names(settings, evidence), (Names{"over_read", "misaligned"}));
}

TEST(BenchWarnings, TellOfFlightsThatNeverAre) {
  Evidence evidence = sound();
  evidence.block_count = 5;
  BenchSettings settings;
  EXPECT_EQ(names(settings, evidence), Names{"few_blocks"});
  settings.depth = 1;
  EXPECT_EQ(names(settings, evidence), Names{});
}

TEST(BenchWarnings, CompareTheSecondHalfWithTheFirst) {
  const auto told = [](double drift) {
    Evidence evidence = sound();
    evidence.estimate.drift = drift;
    return warnings_of({}, evidence).front().sentence.substr(0, 44);
  };
  EXPECT_EQ(told(-1.6), "the second half was 88.9 % slower than the f");
  EXPECT_EQ(told(-2), "the second half was 100.0 % slower than the ");
  EXPECT_EQ(told(1), "the second half was 200.0 % faster than the ");
}

TEST(BenchWarnings, TellOfWhatCuFileForbidsItsPrograms) {
  Evidence evidence = sound();
  evidence.other_for_cufile = "properties.allow_compat_mode is false";
  EXPECT_EQ(names({}, evidence), Names{"cufile_json"});
}

TEST(BenchWarnings, TellOfARateThatIsNotKnown) {
  Evidence evidence = sound();
  evidence.estimate.drift = -0.2;
  evidence.estimate.low = 80;
  EXPECT_EQ(names({}, evidence), (Names{"drift", "wide"}));
  evidence.estimate.rate = 1e9;
  evidence.estimate.low = 0;
  evidence.estimate.high = 2.06e9;
  const std::string wide = warnings_of({}, evidence).back().sentence;
  EXPECT_TRUE(wide.starts_with("the true rate lies between 0.000 and 2.060 GB/s (95 %); ")) << wide;
  evidence.estimate.degrees = 0;
  EXPECT_EQ(names({}, evidence), Names{"no_interval"});
  BenchSettings proof;
  proof.verify = true;
  EXPECT_EQ(names(proof, evidence), Names{});
}

TEST(BenchWarnings, TellOfOtherProgramsThatRanMeanwhile) {
  Evidence evidence = sound();
  evidence.share_of_others = 0.4;
  evidence.harm_by_others = 0.04;
  EXPECT_EQ(names({}, evidence), Names{});
  evidence.harm_by_others = 0.4;
  EXPECT_EQ(names({}, evidence), Names{"shared"});
}

TEST(BenchWarnings, AreNoneOfWhatWasNeverMeasured) { EXPECT_EQ(names({}, {}), Names{}); }

TEST(BenchWarnings, WhereTheCpusHaveToDecodeTheFileDirectIsNotDirect) {
  BenchSettings settings;
  Evidence evidence = sound();
  evidence.not_direct = "the file is compressed, so the CPU has to process its bytes; write it anew without";
  EXPECT_EQ(names(settings, evidence), std::vector<std::string>{"not_direct"});
  evidence.direct_bytes = 0;
  evidence.cached_bytes = kGigabyte;
  EXPECT_TRUE(names(settings, evidence).empty());  // Nobody said it was direct.
  settings.direct = true;
  EXPECT_EQ(names(settings, evidence), std::vector<std::string>{"not_direct"});
}

}  // namespace
}  // namespace penstock::tools
