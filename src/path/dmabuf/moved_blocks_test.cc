// SPDX-License-Identifier: Apache-2.0

// The ways in which a file's blocks become another file's between the question where they lie and the read. Without a
// lease, each gives the reader foreign bytes; under one, it waits or is seen.
#include "fakes/moved_blocks.h"

#include <linux/falloc.h>
#include <sys/mman.h>

#include <thread>

#include "fakes/held_fixture.h"

namespace penstock::core {
namespace {

struct Way {
  const char* name;
  const char* file_system;
  int (*move)(FilesOnDrive& files, int fd);  // Returns the errno.
};

constexpr Way kWays[] = {
    {"Truncate", "ext4", move_by_truncating},
    {"Truncate", "xfs", move_by_truncating},
    {"Punch", "ext4", move_by_punching},
    {"Punch", "xfs", move_by_punching},
    {"MoveExtents", "ext4", move_by_defragmenting},
    {"CopyOnWrite", "xfs", move_by_copy_on_write},
    {"Deduplicate", "xfs", move_by_deduplicating},  // The last one, since it alone needs no descriptor to write to.
};

class MovedBlocks : public testing::TestWithParam<Way> {
 protected:
  static constexpr std::uint64_t kBytes = FilesOnDrive::kBytes;
  static constexpr unsigned kTries = 30;

  void SetUp() override {
    if (!files_.failure().empty()) GTEST_SKIP() << files_.failure();
    files_.write("file", FilesOnDrive::kOwn);
    files_.fill(2);
  }
  UniqueFd open_file(int flags) const { return UniqueFd(::open(files_.path("file").c_str(), flags | O_CLOEXEC, 0644)); }
  HeldExtents::Opened open(int flags = O_RDONLY) {
    return HeldExtents::open(open_file(flags), files_.drive(), {.linger = std::chrono::hours(1), .refuses_for = {}});
  }
  std::uint64_t wrong_words(const ExtentMap& map) {
    DrivePiece pieces[64];
    const ExtentMap::Found found = map.find(0, kBytes, pieces);
    EXPECT_STREQ(name_of(found.cause), "none");
    std::uint64_t offset = 0;
    std::uint64_t wrong = 0;
    for (unsigned i = 0; i < found.count; offset += pieces[i++].bytes) {
      wrong += files_.wrong_words(pieces[i].drive_offset, offset, pieces[i].bytes);
    }
    return wrong;
  }

  FilesOnDrive files_{GetParam().file_system};
};

TEST_P(MovedBlocks, WithoutALeaseAnotherFilesBytesAreRead) {
  std::uint64_t wrong = 0;
  for (unsigned i = 0; i < kTries && wrong == 0; ++i) {
    const UniqueFd writer = open_file(O_RDWR);
    const ExtentMap map = map_of(writer.get());
    ASSERT_EQ(wrong_words(map), 0u);

    ASSERT_EQ(GetParam().move(files_, writer.get()), 0);

    wrong = wrong_words(map);
    files_.remove("taker");
    files_.sync();
    ASSERT_TRUE(files_.write(writer.get(), FilesOnDrive::kOwn));
  }
  if (wrong == 0) GTEST_SKIP() << "CONTROL WITHOUT A HIT in " << kTries << " tries: the other tests prove nothing";
}

class StoppedMoves : public MovedBlocks {};

TEST_P(StoppedMoves, UnderALeaseTheMoverWaitsUntilTheLastRequestEnds) {
  const UniqueFd user = open_file(O_RDONLY);
  HeldExtents::Opened held = open();
  ASSERT_STREQ(name_of(held.cause), "none");
  ASSERT_EQ(held.extents->hold(), ExtentCause::none);
  std::atomic<bool> is_done{false};
  std::thread other([&] {
    const UniqueFd writer = open_file(O_RDWR);
    EXPECT_EQ(GetParam().move(files_, writer.get()), 0);
    is_done = true;
  });

  ASSERT_TRUE(wait_until([&] { return held.extents->is_intact(0, kBytes) == ExtentCause::lease_lost; }));
  give_time_to_go_wrong();

  EXPECT_FALSE(is_done);
  EXPECT_EQ(wrong_words(held.extents->whole_map()), 0u);
  held.extents->let_go();
  other.join();
  EXPECT_TRUE(is_done);
}

class DeduplicatedBlocks : public MovedBlocks {};

// The one way that the lease does not stop.
TEST_P(DeduplicatedBlocks, UnderALeaseTheyAreSeen) {
  const UniqueFd user = open_file(O_RDONLY);
  HeldExtents::Opened held = open();
  ASSERT_STREQ(name_of(held.cause), "none");
  for (unsigned i = 0; i < 3; ++i) {
    ASSERT_EQ(held.extents->hold(), ExtentCause::none);
    EXPECT_EQ(held.extents->is_intact(0, kBytes), ExtentCause::none);

    ASSERT_EQ(GetParam().move(files_, user.get()), 0);

    EXPECT_EQ(held.extents->is_intact(0, kBytes), ExtentCause::moved);
    EXPECT_EQ(held.extents->hold(), ExtentCause::asked_back) << "until it is known where the file lies now";
    held.extents->let_go();
    files_.remove("taker");
    files_.sync();
  }
}

// They could be back at the old place when the request has read there.
TEST_P(DeduplicatedBlocks, BetweenTwoRequestsUnderOneLeaseTheyAreSeen) {
  const UniqueFd user = open_file(O_RDONLY);
  HeldExtents::Opened held = open();
  ASSERT_STREQ(name_of(held.cause), "none");
  ASSERT_EQ(held.extents->hold(), ExtentCause::none);
  held.extents->let_go();
  ASSERT_EQ(GetParam().move(files_, user.get()), 0);
  ASSERT_EQ(held.extents->hold(), ExtentCause::none);
  DrivePiece pieces[64];

  EXPECT_EQ(held.extents->map(0, kBytes, pieces).cause, ExtentCause::moved);

  held.extents->let_go();
  ASSERT_EQ(held.extents->hold(), ExtentCause::none);
  EXPECT_EQ(held.extents->map(0, kBytes, pieces).cause, ExtentCause::none);
  EXPECT_EQ(wrong_words(held.extents->whole_map()), 0u);
  held.extents->let_go();
}

std::string name_of_way(const testing::TestParamInfo<Way>& way) {
  return std::string(way.param.name) + "_" + way.param.file_system;
}
INSTANTIATE_TEST_SUITE_P(Way, MovedBlocks, testing::ValuesIn(kWays), name_of_way);
INSTANTIATE_TEST_SUITE_P(Way, StoppedMoves, testing::ValuesIn(kWays, kWays + std::size(kWays) - 1), name_of_way);
INSTANTIATE_TEST_SUITE_P(Way, DeduplicatedBlocks, testing::Values(kWays[std::size(kWays) - 1]), name_of_way);

}  // namespace
}  // namespace penstock::core
