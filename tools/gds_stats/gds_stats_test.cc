// SPDX-License-Identifier: Apache-2.0

#include "tools/gds_stats/gds_stats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

namespace penstock::tools {
namespace {

TEST(GdsStatsTest, PrintsTheLinesThatParsersRelyOn) {
  core::CufileTotals totals;
  totals.elapsed_ns = 2'000'000'000;
  totals.gpu_count = 1;
  totals.sums.operations[0] = {3, 1};
  totals.sums.bytes[0] = std::uint64_t{3} << 30;
  totals.sums.nanoseconds[0] = 3'000'000;
  totals.sums.sizes[0][9] = 3;
  totals.sums.sizes[1][30] = 2;
  totals.sums.gpus[0].transfers[0] = {.bytes = std::uint64_t{3} << 30, .nanoseconds = 4'000'000'000, .total = 3};
  totals.uuids[0][15] = 0xab;

  const std::string text = gds_stats_text(totals, 3);

  std::istringstream lines(text);
  std::string first, second, third;
  std::getline(lines, first);
  std::getline(lines, second);
  std::getline(lines, third);
  EXPECT_EQ(first, "cuFile STATS VERSION : 8");
  EXPECT_EQ(second, "GLOBAL STATS:");
  EXPECT_EQ(third, "Read: ok = 3 err = 1");
  for (const char* const line :
       {"\nPosixBatchProcessed: ok = 0 err = 0\n", "\nTotal Read Size (MiB): 3072\n", "\nRead BandWidth (GiB/s): 1.5\n",
        "\nAvg Read Latency (us): 1000\n", "\nWrite BandWidth (GiB/s): 0\n", "\n0-4(KiB): 0 0\n",
        "\n1024-2048(KiB): 3 0\n", "\n65536-...(KiB): 0 2\n", "\nPER_GPU STATS:\n",
        "\nGPU 0(UUID: 00000000-0000-0000-0000-0000000000ab) Read: bw=1.5 util(%)=200 n=3 posix=0 unalign=0 dr=0 "
        "r_sparse=0 r_inline=0 err=0 MiB=3072 Write: bw=0 "}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "is missing in\n" << text;
  }
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2 + 15 + 12 + 1 + 16 + 2 + 5);
}

TEST(GdsStatsTest, ALowerLevelPrintsLess) {
  EXPECT_EQ(gds_stats_text({}, 1).find("HISTOGRAM"), std::string::npos);
  EXPECT_NE(gds_stats_text({}, 2).find("READ-WRITE SIZE HISTOGRAM :"), std::string::npos);
  EXPECT_EQ(gds_stats_text({}, 2).find("PER_GPU"), std::string::npos);
}

}  // namespace
}  // namespace penstock::tools
