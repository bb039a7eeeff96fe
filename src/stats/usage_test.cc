// SPDX-License-Identifier: Apache-2.0

#include "stats/usage.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

namespace penstock::core {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

TEST(BusyTimeTest, OverlappingRequestsCountOnce) {
  BusyTime busy;

  busy.begin(10 * kMs);
  busy.begin(20 * kMs);
  busy.end(30 * kMs);
  EXPECT_EQ(busy.total(), 0u) << "one is under way";
  busy.end(50 * kMs);
  busy.begin(90 * kMs);
  busy.end(95 * kMs);

  EXPECT_EQ(busy.total(), 45 * kMs);
}

TEST(BusyTimeTest, AClockThatGoesRoundAndAnEndBeforeItsBeginningAddNothingWrong) {
  constexpr std::uint64_t kRound = (std::uint64_t{1} << 44) * 1000;
  BusyTime busy;

  busy.begin(kRound - 5 * kMs);
  busy.end(kRound + 5 * kMs);
  EXPECT_EQ(busy.total(), 10 * kMs);
  busy.begin(kRound + 9 * kMs);
  busy.end(kRound + 8 * kMs);
  EXPECT_EQ(busy.total(), 10 * kMs);
}

TEST(BusyTimeTest, ManyThreadsLoseNoEnd) {
  BusyTime busy;
  std::vector<std::thread> threads;

  for (unsigned i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (unsigned k = 0; k < 20'000; ++k) {
        busy.begin(kMs);
        busy.end(kMs);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  busy.begin(7 * kMs);
  busy.end(8 * kMs);

  EXPECT_EQ(busy.total(), kMs) << "somebody still counts as under way";
}

TEST(UsageTest, AFileIsKnownByItsNameHoweverOftenItIsOpened) {
  Usage usage;
  std::string name = testing::TempDir() + "penstock-usage-XXXXXX";
  const int first = ::mkstemp(name.data()), second = ::open(name.c_str(), O_RDONLY);
  FileUsage& file = usage.file_of(first);

  EXPECT_EQ(&usage.file_of(second), &file);
  const std::uint64_t began = file.begin();
  file.end(Op::read, 4096, false, began);
  file.end(Op::write, 0, true, file.begin());

  ASSERT_EQ(usage.files().size(), 1u);
  const Usage::File row = usage.files()[0];
  EXPECT_EQ(row.name, name);
  EXPECT_EQ(row.sums.bytes(), 4096u);
  EXPECT_EQ(row.sums.by_op[0].requests, 1u);
  EXPECT_EQ(row.sums.by_op[1].requests, 1u);
  EXPECT_EQ(row.sums.failed, 1u);
  EXPECT_GE(row.sums.nanoseconds() + 2000, usage.busy().total()) << "but for whole microseconds of two requests";
  ::close(first);
  ::close(second);
  ::unlink(name.c_str());
}

TEST(UsageTest, FilesWithoutEndShareARow) {
  Usage usage;
  for (std::size_t i = 0; i < Usage::kFilesMax; ++i) usage.file_named(std::to_string(i));

  FileUsage& late = usage.file_named("late");
  late.end(Op::read, 10, false, late.begin());

  EXPECT_EQ(&usage.file_named("later"), &late);
  EXPECT_EQ(usage.others().bytes(), 10u);
  EXPECT_EQ(usage.others_opened(), 2u);
  EXPECT_TRUE(usage.files().empty()) << "of none of the others was anything asked";
}

}  // namespace
}  // namespace penstock::core
