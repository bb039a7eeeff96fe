// SPDX-License-Identifier: Apache-2.0

// Shows that the checker of the stress test can fail: a fixture without a file system, whose reads return given bytes.
#include "stress/history.h"

#include <gtest/gtest.h>

namespace penstock::stress {
namespace {

constexpr std::uint8_t kFile = 7;
constexpr std::uint64_t kSize = 64 << 10;

class HistoryTest : public testing::Test {
 protected:
  HistoryTest() {
    first_ = history_.begin_write(0, kSize);
    history_.end();
  }

  static std::vector<std::byte> bytes_of(std::uint32_t change, std::uint64_t position, std::uint64_t size,
                                         std::uint8_t file = kFile) {
    std::vector<std::byte> bytes(size);
    stamp_range(bytes, file, change, position);
    return bytes;
  }
  std::uint32_t rewrite(std::uint64_t first, std::uint64_t end) {
    const std::uint32_t change = history_.begin_write(first, end);
    history_.end();
    return change;
  }
  std::string fault_of(const std::vector<std::byte>& got, std::uint64_t position, std::uint64_t wanted) {
    return history_.end_read(history_.begin_read(), position, wanted, got).value_or("");
  }

  History history_{kFile};
  std::uint32_t first_ = 0;
};

TEST_F(HistoryTest, WhatTheLastChangeLeftIsLegalAtEveryAlignment) {
  for (const std::uint64_t position : {0, 1, 7, 8, 4093}) {
    for (const std::uint64_t size : {1, 5, 8, 4096, 10001}) {
      EXPECT_EQ(fault_of(bytes_of(first_, position, size), position, size), "") << position << " " << size;
    }
  }
}

TEST_F(HistoryTest, BytesOfAChangeThatWasReplacedBeforeTheReadAreStale) {
  rewrite(0, kSize);

  EXPECT_NE(fault_of(bytes_of(first_, 0, 4096), 0, 4096), "");
}

TEST_F(HistoryTest, OneStaleWordAmongManyIsFound) {
  const std::uint32_t second = rewrite(0, kSize);
  std::vector<std::byte> got = bytes_of(second, 100, 30000);
  const std::vector<std::byte> stale = bytes_of(first_, 20000, 8);
  std::copy(stale.begin(), stale.end(), got.begin() + 20000 - 100);

  EXPECT_NE(fault_of(got, 100, got.size()).find("change " + std::to_string(first_) + ","), std::string::npos);
}

TEST_F(HistoryTest, OfAChangeBesideTheReadOldAndNewAreLegalAndNothingOlder) {
  const std::uint32_t second = rewrite(0, kSize);
  const std::uint32_t third = history_.begin_write(0, kSize);
  std::vector<std::byte> mixed = bytes_of(second, 0, 8192);
  const std::vector<std::byte> fresh = bytes_of(third, 4096, 2048);
  std::copy(fresh.begin(), fresh.end(), mixed.begin() + 4096);

  EXPECT_EQ(fault_of(mixed, 0, mixed.size()), "");
  EXPECT_NE(fault_of(bytes_of(first_, 0, 8), 0, 8), "");
}

TEST_F(HistoryTest, AChangeThatBeganAndEndedBesideTheReadMayBeSeenOrNot) {
  for (const bool seen : {false, true}) {
    const std::uint32_t ended = history_.begin_read();
    const std::uint32_t before = ended;
    const std::uint32_t after = rewrite(0, kSize);

    EXPECT_FALSE(history_.end_read(ended, 0, 4096, bytes_of(seen ? after : before, 0, 4096)).has_value());
  }
}

TEST_F(HistoryTest, AChangeOfAnotherRangeMakesNothingLegalHere) {
  const std::uint32_t ended = history_.begin_read();
  const std::uint32_t other = rewrite(8192, 12288);

  EXPECT_TRUE(history_.end_read(ended, 0, 4096, bytes_of(other, 0, 4096)).has_value());
}

TEST_F(HistoryTest, BytesOfAnotherFileOrAnotherPlaceAreFaults) {
  EXPECT_NE(fault_of(bytes_of(first_, 0, 4096, kFile + 1), 0, 4096), "");
  EXPECT_NE(fault_of(bytes_of(first_, 4096, 4096), 0, 4096), "");
  EXPECT_NE(fault_of(bytes_of(first_, 8, 8), 0, 8), "");
}

TEST_F(HistoryTest, ZerosAreLegalInHolesAlone) {
  const std::vector<std::byte> zeros(4096);
  EXPECT_NE(fault_of(zeros, 0, zeros.size()), "");

  (void)history_.begin_hole(0, 4096);
  history_.end();

  EXPECT_EQ(fault_of(zeros, 0, zeros.size()), "");
  EXPECT_NE(fault_of(zeros, 8, zeros.size()), "");
  EXPECT_NE(fault_of(bytes_of(first_, 0, 4096), 0, 4096), "") << "the hole was there before the read";
}

TEST_F(HistoryTest, WhatWasNeverFilledIsAFault) {
  EXPECT_NE(fault_of(std::vector<std::byte>(4096, std::byte{0xa5}), 0, 4096), "");
}

TEST_F(HistoryTest, AShortCountNeedsAShorterFile) {
  EXPECT_NE(fault_of(bytes_of(first_, 0, 4095), 0, 4096), "");
  EXPECT_EQ(fault_of(bytes_of(first_, kSize - 10, 10), kSize - 10, 4096), "") << "the file ends there";

  const std::uint32_t ended = history_.begin_read();
  (void)history_.begin_resize(100);
  history_.end();

  EXPECT_FALSE(history_.end_read(ended, 0, 4096, bytes_of(first_, 0, 100)).has_value());
  EXPECT_TRUE(history_.end_read(history_.begin_read(), 0, 4096, bytes_of(first_, 0, 101)).has_value());
}

TEST_F(HistoryTest, WhatAnErrorLeftMovedIsComparedAllTheSame) {
  const auto end = [&](const std::vector<std::byte>& got) {
    return history_.end_read(history_.begin_read(), 0, 4096, got, false).has_value();
  };

  EXPECT_FALSE(end(bytes_of(first_, 0, 10)));
  EXPECT_TRUE(end(bytes_of(first_ + 1, 0, 10)));
}

TEST_F(HistoryTest, ALongerFileIsZeroUntilItIsWritten) {
  (void)history_.begin_resize(kSize + 4096);
  history_.end();
  EXPECT_EQ(fault_of(std::vector<std::byte>(4096), kSize, 4096), "");

  const std::uint32_t change = rewrite(kSize, kSize + 4096);
  EXPECT_NE(fault_of(std::vector<std::byte>(4096), kSize, 4096), "");
  EXPECT_EQ(fault_of(bytes_of(change, kSize, 4096), kSize, 4096), "");
}

TEST_F(HistoryTest, WhatFailedMayHaveHappenedOrNot) {
  const std::uint32_t change = history_.begin_write(0, kSize);
  history_.end(false);

  EXPECT_EQ(fault_of(bytes_of(change, 0, 4096), 0, 4096), "");
  EXPECT_EQ(fault_of(bytes_of(first_, 0, 4096), 0, 4096), "");
  EXPECT_NE(fault_of(std::vector<std::byte>(4096), 0, 4096), "");
}

TEST_F(HistoryTest, WhatNoReadNeedsIsForgotten) {
  const std::uint32_t ended = history_.begin_read();
  for (int i = 0; i < 10; ++i) rewrite(0, kSize);
  (void)history_.begin_resize(0);
  history_.end();
  rewrite(0, kSize);
  EXPECT_GE(history_.length(), 12u) << "a read that began before them is under way";
  EXPECT_FALSE(history_.end_read(ended, 0, 4096, bytes_of(ended, 0, 4096)).has_value());

  rewrite(0, kSize);

  EXPECT_EQ(history_.length(), 3u);
}

}  // namespace
}  // namespace penstock::stress
