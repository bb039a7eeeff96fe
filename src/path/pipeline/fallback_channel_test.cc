// SPDX-License-Identifier: Apache-2.0

// A preferred channel that does as a test says, beside a real one that bounces by a storage and a GPU that may fail.
#include "path/pipeline/fallback_channel.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "fakes/failing_gpu.h"
#include "fakes/fake_storage.h"
#include "path/pipeline/pipeline_reasons.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kChunk = 4096;

// Moves nothing: completes chunks with the statuses of its script, and none where that has ended.
class ScriptedChannel final : public Channel, private ChannelHooks {
 public:
  ScriptedChannel() : Channel(this) {}

  bool has_room() const override { return true; }
  bool is_idle() const override { return taken_.empty(); }
  void submit(const RoutedRequest&, const Chunk& chunk, std::uint64_t cookie) override {
    taken_.push_back(
        {.cookie = cookie, .file_offset = chunk.file_offset, .size = chunk.size, .io_mode = chunk.io_mode});
  }
  unsigned poll(std::span<Completion> completions, bool) override {
    unsigned count = 0;
    for (; count < completions.size() && !taken_.empty() && !statuses.empty(); ++count) {
      completions[count] = ended(taken_.front());
      taken_.erase(taken_.begin());
    }
    return count;
  }
  Completion move_and_wait(const RoutedRequest& request, const Chunk& chunk) override {
    submit(request, chunk, 0);
    const Completion completion = ended(taken_.front());
    taken_.clear();
    return completion;
  }
  void forget_file(std::uint64_t file_id) override { forgotten = file_id; }
  bool has_storage_under_way() const override { return !taken_.empty(); }
  bool is_broken() const override { return is_out; }

  std::deque<Status> statuses;
  bool is_out = false;
  std::uint64_t forgotten = 0;
  unsigned waits = 0;

 private:
  bool wait_for_storage(std::chrono::steady_clock::time_point) override { return ++waits > 0; }
  Completion ended(Completion completion) {
    completion.status = statuses.front();
    completion.bytes = completion.status.ok() ? completion.size : 0;
    statuses.pop_front();
    return completion;
  }

  std::vector<Completion> taken_;
};

class FallbackChannelTest : public testing::Test, private PreferredTerms {
 protected:
  FallbackChannelTest() {
    storage_.content.resize(16 * kChunk);
    for (std::size_t i = 0; i < storage_.content.size(); ++i) storage_.content[i] = static_cast<char>(i * 31 >> 3);
    file_ = std::move(*File::open(storage_, FakeStorage::kUserFd));
    memory_ = static_cast<std::byte*>(*gpu_.allocate(1 << 20));
    open();
  }
  void open(bool strict = false) {
    auto preferred = std::make_unique<ScriptedChannel>();
    preferred_ = preferred.get();
    PreferredTerms& terms = *this;
    channel_.emplace(terms, storage_, std::move(preferred), ChannelOptions{&gpu_, 4, kChunk}, strict);
  }

  // A chunk of a read, at the same place in file and memory.
  static Chunk chunk(std::uint64_t offset, std::uint64_t size, IoMode io_mode = IoMode::buffered) {
    return {.io_mode = io_mode,
            .file_offset = offset,
            .buffer_offset = offset,
            .size = size,
            .io_offset = offset,
            .io_size = size};
  }
  void submit(const Chunk& chunk, std::uint64_t cookie = 0) { channel_->submit(request(), chunk, cookie); }
  const RoutedRequest& request() {
    request_.file = file_.get();
    request_.memory = memory_;
    return request_;
  }
  std::vector<Completion> poll_all() {
    std::vector<Completion> all;
    Completion completions[4];
    while (!channel_->is_idle()) {
      const unsigned count = channel_->poll(completions, true);
      all.insert(all.end(), completions, completions + count);
    }
    return all;
  }
  bool is_right(const Completion& completion) const {
    return std::memcmp(memory_ + completion.file_offset, storage_.content.data() + completion.file_offset,
                       completion.bytes) == 0;
  }

  FakeStorage storage_;
  FailingGpu gpu_;
  std::unique_ptr<File> file_;
  std::byte* memory_ = nullptr;
  RoutedRequest request_;
  Reason ineligible_ = Reason::none;
  std::vector<int> remembered_;
  ScriptedChannel* preferred_ = nullptr;
  std::optional<FallbackChannel> channel_;

 private:
  Reason ineligible(const RoutedRequest&, const Chunk&) override { return ineligible_; }
  int refusal_errno(const Status& status) override { return status.domain == Domain::os ? status.code : 0; }
  void refuse_late(const Device*, File&, Op, int error) override { remembered_.push_back(error); }
};

Status refused_by(int error) { return os_failure(error, "move as scripted"); }

TEST_F(FallbackChannelTest, ARefusedChunkIsBouncedBesideOthersAndTheRefusalIsRemembered) {
  preferred_->statuses = {refused_by(EREMOTEIO), success(), refused_by(EINVAL)};
  for (std::uint64_t i = 0; i < 3; ++i) submit(chunk(i * kChunk, kChunk), 10 + i);
  std::map<std::uint64_t, Completion> seen;
  for (const Completion& completion : poll_all()) seen[completion.cookie] = completion;
  ASSERT_EQ(seen.size(), 3u);
  for (const std::uint64_t cookie : {10, 12}) {
    EXPECT_EQ(seen[cookie].bounced, pipeline_reason::refused_late);
    EXPECT_EQ(seen[cookie].bytes, kChunk);
    EXPECT_TRUE(is_right(seen[cookie]));
  }
  EXPECT_EQ(seen[11].bounced, Reason::none);
  EXPECT_EQ(remembered_.size(), 2u);
}

TEST_F(FallbackChannelTest, AChunkLargerThanTheBouncingChannelsGoesInParts) {
  ineligible_ = reason_of(Obstacle::misaligned);
  struct Case {
    std::uint64_t offset, bytes;
    int error;
  };
  const Case cases[] = {{100, 3 * kChunk + 7, 0}, {14 * kChunk, 2 * kChunk, 0}, {100, kChunk, EIO}};
  for (const auto& [offset, bytes, error] : cases) {
    std::memset(memory_, 0x5a, 1 << 20);
    submit(chunk(offset, 3 * kChunk + 7), 5);
    storage_.refuses = [behind = offset + kChunk, error = error](const FakeStorage::Access& access) {
      return access.offset >= behind ? error : 0;
    };
    const std::vector<Completion> all = poll_all();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].bytes, bytes) << offset;
    EXPECT_EQ(all[0].size, 3 * kChunk + 7);
    EXPECT_EQ(all[0].file_offset, offset);
    EXPECT_EQ(all[0].cookie, 5u);
    EXPECT_EQ(all[0].status.ok(), error == 0);
    EXPECT_EQ(all[0].bounced, reason_of(Obstacle::misaligned));
    EXPECT_TRUE(is_right(all[0]));
    EXPECT_EQ(memory_[offset + bytes], std::byte{0x5a}) << "nothing behind it";
  }
}

TEST_F(FallbackChannelTest, WhatCannotBeBouncedFailsEachByItself) {
  open(true);
  ineligible_ = reason_of(Obstacle::misaligned);
  submit(chunk(0, kChunk), 1);
  submit(chunk(kChunk, kChunk), 2);
  Completion completion;
  EXPECT_EQ(channel_->poll({}, true), 0u) << "no room for one";
  for (const std::uint64_t cookie : {2, 1}) {
    ASSERT_EQ(channel_->poll({&completion, 1}, true), 1u);
    EXPECT_EQ(completion.cookie, cookie);
    EXPECT_TRUE(completion.status.is(Code::path_refused));
    EXPECT_EQ(completion.bytes, 0u);
    EXPECT_EQ(completion.bounced, reason_of(Obstacle::misaligned));
  }
  EXPECT_TRUE(channel_->is_idle());
}

TEST_F(FallbackChannelTest, WhereTheDriverGivesNothingToBounceWithTheChunkFailsWithItsError) {
  ineligible_ = reason_of(Obstacle::misaligned);
  unsigned errors = 0;
  for (unsigned n = 1; n == 1 || gpu_.has_failed(); ++n) {
    open();
    gpu_.fail_at(n);
    const Completion completion = channel_->move_and_wait(request(), chunk(0, kChunk));
    errors += completion.status.ok() ? 0 : 1;
    EXPECT_EQ(completion.bytes, completion.status.ok() ? kChunk : 0) << n;
    EXPECT_TRUE(completion.status.ok() || !channel_->is_idle() || completion.status.step != nullptr);
  }
  EXPECT_GT(errors, 2u);
}

TEST_F(FallbackChannelTest, ABouncingChannelThatBrokeTakesNoMore) {
  ineligible_ = reason_of(Obstacle::misaligned);
  submit(chunk(0, kChunk), 1);
  submit(chunk(kChunk, kChunk), 2);
  gpu_.loses_context = true;
  const std::vector<Completion> all = poll_all();
  ASSERT_EQ(all.size(), 2u);
  for (const Completion& completion : all) EXPECT_TRUE(completion.status.is(Code::device_lost));
  EXPECT_TRUE(channel_->is_broken());
  EXPECT_FALSE(channel_->has_room());
}

TEST_F(FallbackChannelTest, ChunksThatComeBackRefusedFromABrokenPairTellWhatBrokeIt) {
  preferred_->statuses = {};
  submit(chunk(0, kChunk), 1);
  ineligible_ = reason_of(Obstacle::misaligned);
  submit(chunk(kChunk, kChunk), 2);
  gpu_.loses_context = true;
  Completion completion;
  ASSERT_EQ(channel_->poll({&completion, 1}, true), 1u);
  EXPECT_TRUE(completion.status.is(Code::device_lost));
  preferred_->statuses = {refused_by(EREMOTEIO)};
  ASSERT_EQ(channel_->poll({&completion, 1}, true), 1u);
  EXPECT_EQ(completion.cookie, 1u);
  EXPECT_TRUE(completion.status.is(Code::device_lost));
}

TEST_F(FallbackChannelTest, WhenThePreferredChannelIsOutTheRestIsBounced) {
  preferred_->is_out = true;
  const Completion completion = channel_->move_and_wait(request(), chunk(0, kChunk));
  EXPECT_EQ(completion.bounced, pipeline_reason::refused_late);
  EXPECT_EQ(completion.bytes, kChunk);
  EXPECT_TRUE(channel_->is_broken());
}

TEST_F(FallbackChannelTest, OneReadErrorIsNoRefusalAndOnlyEightInARowAre) {
  for (int i = 0; i < 9; ++i) {
    preferred_->statuses = {refused_by(EIO)};
    EXPECT_EQ(channel_->move_and_wait(request(), chunk(0, kChunk)).bounced, pipeline_reason::refused_late);
    EXPECT_EQ(remembered_.size(), i < 7 ? 0u : static_cast<std::size_t>(i) - 6) << i;
  }
  preferred_->statuses = {success(), refused_by(EIO)};
  for (int i = 0; i < 2; ++i) (void)channel_->move_and_wait(request(), chunk(0, kChunk));
  EXPECT_EQ(remembered_.size(), 2u) << "a read got through";
}

TEST_F(FallbackChannelTest, OnlyOneBusySideIsWaitedForWithALimit) {
  const auto waits = [&] { return channel_->hooks().wait_for_storage(std::chrono::steady_clock::now()); };
  EXPECT_FALSE(waits()) << "nothing is under way";
  submit(chunk(0, kChunk));
  EXPECT_TRUE(channel_->has_storage_under_way());
  EXPECT_TRUE(waits());
  EXPECT_EQ(preferred_->waits, 1u);
  ineligible_ = reason_of(Obstacle::misaligned);
  storage_.seed = 0;  // Nothing of the first blocks is cached, so that the ring has them.
  submit(chunk(0, kChunk));
  EXPECT_FALSE(waits()) << "both";
  preferred_->statuses = {success()};
  Completion completion;
  while (preferred_->has_storage_under_way()) (void)channel_->poll({&completion, 1}, false);
  EXPECT_EQ(waits(), channel_->has_storage_under_way());
  EXPECT_EQ(preferred_->waits, 1u);
  (void)poll_all();
  EXPECT_FALSE(channel_->has_storage_under_way());
}

TEST_F(FallbackChannelTest, ChunksThatFailedLeaveNothingToWaitFor) {
  open(true);
  ineligible_ = reason_of(Obstacle::misaligned);
  submit(chunk(0, kChunk));
  EXPECT_FALSE(channel_->hooks().wait_for_storage(std::chrono::steady_clock::now()));
  EXPECT_EQ(poll_all().size(), 1u);
}

TEST_F(FallbackChannelTest, NothingIsDoneYetWithoutAWait) {
  submit(chunk(0, kChunk));
  Completion completion;
  EXPECT_EQ(channel_->poll({&completion, 1}, false), 0u);
  EXPECT_FALSE(channel_->is_idle());
  preferred_->statuses = {success()};
  EXPECT_EQ(channel_->poll({&completion, 1}, false), 1u);
}

TEST_F(FallbackChannelTest, WarmsUpWhatItBouncesWithUnlessNothingMayBe) {
  EXPECT_FALSE(channel_->hooks().is_warm());
  channel_->hooks().warm_up();
  EXPECT_TRUE(channel_->hooks().is_warm());
  open(true);
  EXPECT_TRUE(channel_->hooks().is_warm());
}

TEST_F(FallbackChannelTest, AFileIsForgottenByBoth) {
  channel_->forget_file(7);
  EXPECT_EQ(preferred_->forgotten, 7u);
  channel_->hooks().warm_up();
  channel_->forget_file(8);
  EXPECT_EQ(preferred_->forgotten, 8u);
}

}  // namespace
}  // namespace penstock::core
