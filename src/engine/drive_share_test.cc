// SPDX-License-Identifier: Apache-2.0

// How much of a drive long requests take while short ones come, and that a flight keeps to it.
#include "engine/drive_share.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <thread>

#include "engine/shared_flight.h"
#include "fakes/manual_clock.h"
#include "fakes/waiting.h"

namespace penstock::core {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kChunk = 2u << 20;

class DriveShareTest : public testing::Test {
 protected:
  // Takes as many chunks as it gets, at most 100.
  unsigned taken() {
    unsigned count = 0;
    while (count < 100 && drive_.try_take(kChunk)) ++count;
    return count;
  }

  ManualClock time_;
  DriveShare drive_{time_};
};

TEST_F(DriveShareTest, WithoutShortRequestsLongOnesTakeWhatTheyLike) { EXPECT_EQ(taken(), 100u); }

TEST_F(DriveShareTest, BesideShortOnesTheyTakeFourMebibytes) {
  drive_.note_short();
  time_.advance(99ms);
  EXPECT_EQ(taken(), 2u);
  drive_.give_back(kChunk);
  EXPECT_EQ(taken(), 1u);
}

TEST_F(DriveShareTest, ATenthOfASecondAfterTheLastShortOneThereIsNoBound) {
  drive_.note_short();
  EXPECT_EQ(taken(), 2u);
  time_.advance(100ms);
  EXPECT_EQ(taken(), 100u);
}

TEST_F(DriveShareTest, AChunkLargerThanTheBoundGoesAlone) {
  drive_.note_short();
  EXPECT_TRUE(drive_.try_take(64u << 20));
  EXPECT_FALSE(drive_.try_take(1));
}

TEST_F(DriveShareTest, OfAFastDriveTheyTakeMore) {
  drive_.note_short();
  for (int i = 0; i < 200; ++i) {  // 400 MiB in 20 ms, which are 30 MiB in a moment.
    ASSERT_TRUE(drive_.try_take(kChunk));
    drive_.give_back(kChunk);
  }
  time_.advance(20ms);
  EXPECT_EQ(taken(), 15u);
}

TEST_F(DriveShareTest, WhoWaitsGoesOnWhenOthersHaveGivenBack) {
  drive_.note_short();
  ASSERT_EQ(taken(), 2u);
  std::atomic<bool> has_taken{false};
  std::thread waiting([&] {
    drive_.take(kChunk);
    has_taken = true;
  });
  give_time_to_go_wrong();
  EXPECT_FALSE(has_taken);
  drive_.give_back(2 * kChunk);
  waiting.join();
  EXPECT_EQ(taken(), 1u);
}

TEST_F(DriveShareTest, AThreadGivesBackWhatItHasNotMoved) {
  drive_.note_short();
  {
    TakenShare first(&drive_, kChunk), second(&drive_, kChunk);
    EXPECT_TRUE(first.take() && second.take());
    EXPECT_FALSE(first.take());
    second.give_back(1);
    EXPECT_TRUE(first.take());
  }
  EXPECT_EQ(taken(), 2u);
}

// ---- A flight -------------------------------------------------------------------------------------------------------

// Moves nothing; each of its chunks stays under way until it is polled for. Behind so many it breaks, and none fails.
class QuietChannel final : public Channel {
 public:
  QuietChannel(unsigned depth, std::size_t& most, unsigned chunks_max)
      : depth_(depth), most_(most), chunks_left_(chunks_max) {}
  bool has_room() const override { return under_way_.size() < depth_ && !is_broken(); }
  bool is_idle() const override { return under_way_.empty(); }
  void submit(const RoutedRequest&, const Chunk& chunk, std::uint64_t) override {
    under_way_.push_back(
        {.file_offset = chunk.file_offset, .size = chunk.size, .bytes = chunk.size, .io_mode = chunk.io_mode});
    most_ = std::max(most_, under_way_.size());
    --chunks_left_;
  }
  unsigned poll(std::span<Completion> completions, bool) override {
    if (under_way_.empty()) return 0;
    completions[0] = under_way_.front();
    under_way_.pop_front();
    return 1;
  }
  Completion move_and_wait(const RoutedRequest&, const Chunk&) override { return {}; }
  void forget_file(std::uint64_t) override {}
  bool is_broken() const override { return chunks_left_ == 0; }

 private:
  const unsigned depth_;
  std::size_t& most_;
  unsigned chunks_left_;
  std::deque<Completion> under_way_;
};

class QuietPath final : public Path {
 public:
  Verdict judge(File&, const PointerFacts&, Op) override { return usable(PathId::host); }
  Shape shape(const RoutedRequest&) override { return {}; }
  std::uint64_t channel_bytes(const ChannelOptions&) const override { return 0; }
  Result<std::unique_ptr<Channel>> open_channel(const ChannelOptions& options) override {
    return std::unique_ptr<Channel>(std::make_unique<QuietChannel>(options.depth, most, chunks_max));
  }
  unsigned chunks_max = UINT32_MAX;  // A channel breaks behind so many.
  std::size_t most = 0;              // Chunks under way at once.
};

class SharedFlightTest : public DriveShareTest {
 protected:
  // One thread writes so many chunks.
  void write(Flight& flight, unsigned chunks) {
    BounceBudget budget(1 << 20);
    ChannelPool pool(path_, nullptr, {.count = 2, .depth = 8, .chunk = kChunk}, budget);
    flight.request.op = Op::write;
    flight.request.size = chunks * kChunk;
    flight.request.io_mode = IoMode::o_direct;
    flight.request.shape.limits = {.file_align = 512, .memory_align = 512, .chunk_max = kChunk, .staged = true};
    flight.cut_into_chunks(kChunk);
    EXPECT_EQ(flight.plan().middle_io_mode(), IoMode::o_direct);
    SharedFlight shared(flight, pool, flight.request.size, drive_);
    shared.work();
    shared.move_rest();
  }
  // The most chunks of a write of so many that it has under way.
  std::size_t most_of(unsigned chunks) {
    Flight flight;
    path_.most = 0;
    write(flight, chunks);
    EXPECT_EQ(flight.progress().bytes(), chunks * kChunk);
    return path_.most;
  }

  QuietPath path_;
};

TEST_F(SharedFlightTest, ALongRequestHasFewChunksUnderWayBesideShortOnes) {
  EXPECT_EQ(most_of(16), 8u);
  drive_.note_short();
  EXPECT_EQ(most_of(16), 2u);
  EXPECT_EQ(taken(), 2u) << "it has given back all";
}

TEST_F(SharedFlightTest, AShortRequestHasAsManyAsItLikes) {
  drive_.note_short();
  EXPECT_EQ(most_of(8), 8u);
}

// A channel whose canary is stuck breaks so: it bounces the chunk itself.
TEST_F(SharedFlightTest, ChunksThatABrokenChannelLeavesAreNotToldAsMoved) {
  path_.chunks_max = 4;
  Flight flight;
  write(flight, 16);
  EXPECT_EQ(flight.progress().bytes(), 4 * kChunk);
  EXPECT_TRUE(flight.progress().status().is(Code::closed));
}

}  // namespace
}  // namespace penstock::core
