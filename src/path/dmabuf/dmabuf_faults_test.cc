// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <random>
#include <set>
#include <span>
#include <string>

#include "fakes/dmabuf_fixture.h"
#include "path/dmabuf/dmabuf_reasons.h"
#include "path/pipeline/pipeline_reasons.h"

namespace penstock::core {
namespace {

class DmabufFaultTest : public DmabufFixture {};

// ---- Errors of requests --------------------------------------------------------------------------------------------

class PassingErrorTest : public DmabufFaultTest, public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Errnos, PassingErrorTest, testing::Values(EAGAIN, EINTR, EBUSY, ENOMEM));

TEST_P(PassingErrorTest, IsBouncedAndTheCanaryComesBeforeTheNextChunk) {
  ASSERT_TRUE(judge().usable);
  const std::unique_ptr<Channel> channel = this->channel();
  ASSERT_EQ(read_and_compare(*channel, 0, 4096), Reason::none);
  kernel_.errors = {-GetParam()};
  EXPECT_EQ(read_and_compare(*channel, 4096, 4096), pipeline_reason::refused_late);
  const unsigned requests = kernel_.requests;
  EXPECT_EQ(read_and_compare(*channel, 4096, 4096), Reason::none);
  EXPECT_EQ(kernel_.requests, requests + 8 + 1);
}

TEST_P(PassingErrorTest, OfACanaryIsTriedAgainAndThenLeftAloneForASecond) {
  ASSERT_TRUE(judge().usable);
  const std::unique_ptr<Channel> channel = this->channel();
  kernel_.errors.assign(2, -GetParam());
  EXPECT_EQ(read_and_compare(*channel, 0, 4096), Reason::none);
  clock_.advance(path_->rules().trusted_for);
  kernel_.errors.assign(100, -GetParam());
  EXPECT_EQ(read_and_compare(*channel, 0, 4096), pipeline_reason::refused_late);
  const unsigned requests = kernel_.requests;
  EXPECT_EQ(read_and_compare(*channel, 0, 4096), pipeline_reason::refused_late);
  EXPECT_EQ(kernel_.requests, requests) << "not at once";
  EXPECT_TRUE(judge().usable) << "no byte was lost";
  kernel_.errors.clear();
  clock_.advance(std::chrono::seconds(1));
  EXPECT_EQ(read_and_compare(*channel, 0, 4096), Reason::none);
}

TEST_F(DmabufFaultTest, WhereBytesWereLostNoChunkTriesAgain) {
  ASSERT_TRUE(judge().usable);
  const std::unique_ptr<Channel> channel = this->channel(), other = this->channel();
  kernel_.exporter = Exporter::raw_address;
  EXPECT_EQ(read_and_compare(*channel, 0, 4096), pipeline_reason::refused_late);
  const unsigned requests = kernel_.requests;
  EXPECT_EQ(read_and_compare(*channel, 0, 4096), pipeline_reason::refused_late);
  EXPECT_EQ(read_and_compare(*other, 0, 4096), pipeline_reason::refused_late);
  EXPECT_EQ(kernel_.requests, requests);
}

TEST_F(DmabufFaultTest, ACanaryThatIsStuckLaterBouncesTheRestOfTheRequest) {
  ASSERT_TRUE(judge().usable);
  const std::unique_ptr<Channel> channel = this->channel();
  ASSERT_EQ(read_and_compare(*channel, 0, 4096), Reason::none);
  clock_.advance(path_->rules().trusted_for);
  kernel_.stalls = true;
  storage_.dmabufs = nullptr;  // Rings for bouncing do not stall.
  EXPECT_EQ(read_and_compare(*channel, 100, 150'000), pipeline_reason::refused_late);
  EXPECT_TRUE(channel->is_broken());
  EXPECT_TRUE(channel->hooks().broken_by().is(Code::no_progress)) << describe(channel->hooks().broken_by());
}

TEST_F(DmabufFaultTest, ARingThatCouldNotSubmitYetIsLookedAtAgain) {
  storage_.rings_have_limits = false;
  EXPECT_TRUE(judge().usable);
  const std::unique_ptr<Channel> channel = this->channel();
  EXPECT_EQ(read_and_compare(*channel, 0, 150'000), Reason::none);
  EXPECT_FALSE(channel->is_broken());
}

TEST_F(DmabufFaultTest, TheTimeOfTheHostsOwnReadsIsNotTheExporters) {
  bool is_slow = true;
  storage_.on_access = [&](const FakeStorage::Access& access) {
    const bool is_hosts = access.memory != nullptr;
    if (is_hosts && std::exchange(is_slow, false)) clock_.advance(DmabufPath::kFirstRequestMax);
  };
  EXPECT_TRUE(judge().usable);
  EXPECT_FALSE(is_slow);
}

TEST_F(DmabufFaultTest, ADeviceThatIsFullByNowBounces) {
  ASSERT_TRUE(judge().usable);
  gpu_->is_full = true;
  const std::unique_ptr<Channel> channel = this->channel();
  ASSERT_NE(channel, nullptr);
  EXPECT_EQ(read_and_compare(*channel, 100, 150'000), pipeline_reason::self_test_no_room) << "told as bounced";
}

TEST_F(DmabufFaultTest, ADeviceThatIsFullByNowLeavesTheChannelItsDepth) {
  ASSERT_TRUE(judge().usable);
  gpu_->is_full = true;
  const std::unique_ptr<Channel> channel = this->channel(4);
  const Plan plan = this->plan(Op::read, 0, 4 * kChunk);
  std::uint64_t submitted = 0;
  for (; submitted < 4 && channel->has_room(); ++submitted)
    channel->submit(request(Op::read), plan.chunk(submitted), submitted);
  EXPECT_EQ(submitted, 4u);
  EXPECT_FALSE(channel->has_room());
  std::set<std::uint64_t> ended;
  for (Completion completions[3]; !channel->is_idle();) {  // One is left for the next look.
    const unsigned count = channel->poll(completions, true);
    for (const Completion& completion : std::span(completions).first(count)) {
      EXPECT_TRUE(completion.status.ok()) << describe(completion.status);
      EXPECT_EQ(completion.bounced, pipeline_reason::self_test_no_room);
      ended.insert(completion.cookie);
    }
  }
  EXPECT_EQ(ended, (std::set<std::uint64_t>{0, 1, 2, 3}));
  EXPECT_EQ(std::memcmp(memory_, storage_.content.data(), 4 * kChunk), 0);
}

TEST_F(DmabufFaultTest, ADriveThatIsGoneIsNoEndOfAFile) {
  ASSERT_TRUE(judge().usable);
  const std::unique_ptr<Channel> channel = this->channel();
  ASSERT_EQ(read_and_compare(*channel, 0, 4096), Reason::none);
  kernel_.is_drive_gone = true;
  storage_.content.clear();
  const Completion completion = channel->move_and_wait(request(Op::read), plan(Op::read, 0, 4096).chunk(0));
  EXPECT_EQ(completion.bounced, pipeline_reason::refused_late);
}

TEST_F(DmabufFaultTest, ADriveThatIsOpenForWritingAloneIsOpenedForReadingToo) {
  storage_.open_flags = O_WRONLY | O_DIRECT;
  storage_.reopen_fails = true;
  open_file_anew();
  EXPECT_EQ(judge(Op::write).reason, dmabuf_reason::write_only);
  EXPECT_EQ(judge(Op::write).detail, EACCES);
  storage_.reopen_fails = false;
  open_file_anew();
  EXPECT_TRUE(judge(Op::write).usable);
}

TEST_F(DmabufFaultTest, ADriveIsWrittenByAnOpenThatIsAsSynchronousAsTheFiles) {
  std::vector<int> drives;
  for (const int flags : {O_RDONLY, O_RDWR, O_RDWR | O_DSYNC, O_WRONLY, O_WRONLY | O_DSYNC, O_RDONLY}) {
    storage_.open_flags = flags | O_DIRECT;
    open_file_anew();
    const Op op = (flags & O_ACCMODE) == O_RDONLY ? Op::read : Op::write;
    ASSERT_TRUE(judge(op).usable);
    const std::unique_ptr<Channel> channel = this->channel();
    EXPECT_EQ(channel->move_and_wait(request(op), plan(op, 0, 4096).chunk(0)).bounced, Reason::none);
    drives.push_back(kernel_.drive_fd);
  }
  EXPECT_EQ(drives[1], drives[3]);
  EXPECT_EQ(drives[2], drives[4]);
  EXPECT_EQ(drives[0], drives[5]) << "reads go by any";
  EXPECT_NE(drives[0], drives[1]);
  EXPECT_NE(drives[1], drives[2]);
}

TEST_F(DmabufFaultTest, MemoryThatIsRevokedIsBouncedAndRegisteredAnewOnce) {
  ASSERT_TRUE(judge().usable);
  const std::unique_ptr<Channel> channel = this->channel();
  ASSERT_EQ(read_and_compare(*channel, 0, 4096), Reason::none);
  kernel_.errors = {-ENODEV};
  EXPECT_EQ(read_and_compare(*channel, 4096, 4096), pipeline_reason::refused_late);
  EXPECT_EQ(read_and_compare(*channel, 4096, 4096), Reason::none) << "by a new slot";
  kernel_.is_revoked = true;
  EXPECT_EQ(read_and_compare(*channel, 4096, 4096), pipeline_reason::refused_late);
  EXPECT_EQ(read_and_compare(*channel, 4096, 4096), pipeline_reason::refused_late);
  EXPECT_EQ(judge().reason, dmabuf_reason::refused);
  EXPECT_EQ(judge().detail, ENODEV);
}

TEST_F(DmabufFaultTest, NoBytesAndFewerThanAskedAreErrors) {
  ASSERT_TRUE(judge().usable);
  const std::unique_ptr<Channel> channel = this->channel();
  ASSERT_EQ(read_and_compare(*channel, 0, 4096), Reason::none);
  kernel_.errors = {512};
  EXPECT_EQ(read_and_compare(*channel, 4096, 4096), pipeline_reason::refused_late);
  kernel_.is_drive_gone = true;
  EXPECT_EQ(read_and_compare(*channel, 4096, 4096), pipeline_reason::refused_late);
}

TEST_F(DmabufFaultTest, WhereNothingMayBeBouncedARefusalIsAnError) {
  make_path({.strict = true, .is_on = true});
  ASSERT_TRUE(judge().usable);
  const std::unique_ptr<Channel> channel = this->channel();
  kernel_.is_revoked = true;
  const Completion completion = channel->move_and_wait(request(Op::read), plan(Op::read, 0, 4096).chunk(0));
  EXPECT_TRUE(completion.status.is(Code::path_refused));
  EXPECT_EQ(completion.bytes, 0u);
}

TEST_F(DmabufFaultTest, ADeviceThatIsLostFailsTheChunkAndBreaksTheChannel) {
  ASSERT_TRUE(judge().usable);
  const std::unique_ptr<Channel> channel = this->channel();
  ASSERT_EQ(read_and_compare(*channel, 0, 4096), Reason::none);
  gpu_->loses_context = true;
  const Completion completion = channel->move_and_wait(request(Op::read), plan(Op::read, 0, 4096).chunk(0));
  EXPECT_TRUE(completion.status.is(Code::device_lost)) << describe(completion.status);
  EXPECT_TRUE(channel->is_broken());
}

// ---- Slots ---------------------------------------------------------------------------------------------------------

// The engine forgets all files behind each large request.
TEST_F(DmabufFaultTest, ADriveStaysProvenWhateverBecomesOfItsFiles) {
  ASSERT_TRUE(judge().usable);
  const std::unique_ptr<Channel> channel = this->channel();
  ASSERT_EQ(read_and_compare(*channel, 0, 4096), Reason::none);
  const unsigned requests = kernel_.requests, added = kernel_.added, removed = kernel_.removed;
  for (unsigned i = 1; i <= 5; ++i) {
    channel->forget_file(0);
    channel->forget_file(file_->id());
    open_file_anew();
    ASSERT_TRUE(judge().usable);
    EXPECT_EQ(read_and_compare(*channel, 0, 4096), Reason::none);
    EXPECT_EQ(kernel_.requests, requests + i) << "no canary, and no self-test";
  }
  EXPECT_EQ(kernel_.added, added);
  EXPECT_EQ(kernel_.removed, removed);
}

TEST_F(DmabufFaultTest, MoreDrivesThanSlotsTakeTurns) {
  const std::unique_ptr<Channel> channel = this->channel();
  for (unsigned i = 0; i < 20; ++i) {
    storage_.block_device = i + 1;
    open_file_anew();
    ASSERT_TRUE(judge().usable);
    EXPECT_EQ(read_and_compare(*channel, std::uint64_t{i} * 4096, 4096), Reason::none) << i;
  }
}

// Room for another drive is made once nothing is under way, which the device then ends with its error.
TEST_F(DmabufFaultTest, AChunkForWhichALostDeviceLeavesNoSlotTellsOfTheDevice) {
  const std::unique_ptr<Channel> channel = this->channel(2);
  for (unsigned i = 0; i < DmabufSlots::kDmabufsMax; ++i) {
    storage_.block_device = i + 1;
    open_file_anew();
    ASSERT_TRUE(judge().usable);
    ASSERT_EQ(read_and_compare(*channel, 0, 4096), Reason::none);
  }
  const Chunk chunk = plan(Op::read, 0, 4096).chunk(0);
  channel->submit(request(Op::read), chunk, 0);
  const std::unique_ptr<File> first = std::move(file_);
  storage_.block_device = DmabufSlots::kDmabufsMax + 1;
  file_ = std::move(*File::open(storage_, FakeStorage::kUserFd));
  ASSERT_TRUE(judge().usable);
  gpu_->loses_context = true;
  channel->submit(request(Op::read), chunk, 1);
  for (unsigned count = 0; count < 2; ++count) {
    Completion completion;
    ASSERT_EQ(channel->poll({&completion, 1}, true), 1u);
    EXPECT_TRUE(completion.status.is(Code::device_lost)) << completion.cookie << describe(completion.status);
  }
  path_->forget_file(*first);
}

// ---- Descriptors ---------------------------------------------------------------------------------------------------

// A program has closed a number and opened another file by it.
class LostDescriptorTest : public DmabufFaultTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(judge().usable);
    channel_ = this->channel();
    ASSERT_EQ(read_and_compare(*channel_, 0, 4096), Reason::none);
    added_ = kernel_.added;
  }
  void TearDown() override {
    channel_.reset();
    DmabufFaultTest::TearDown();
    EXPECT_GE(::fcntl(taken_.get(), F_GETFD), 0) << "it is not ours to close";
  }
  void take(int number) { taken_.reset(::dup2(other_.get(), number)); }

  std::unique_ptr<Channel> channel_;
  unsigned added_ = 0;
  const UniqueFd other_{::memfd_create("other", MFD_CLOEXEC)};
  UniqueFd taken_;
};

TEST_F(LostDescriptorTest, OfADriveIsNoticedAndTheDriveIsOpenedAnewForTheNextFile) {
  take(kernel_.drive_fd);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(read_and_compare(*channel_, 4096, 4096), pipeline_reason::refused_late);
    clock_.advance(path_->rules().trusted_for);
  }
  EXPECT_EQ(kernel_.added, added_) << "another's file is not registered";
  open_file_anew();
  ASSERT_TRUE(judge().usable);
  EXPECT_EQ(read_and_compare(*channel_, 4096, 4096), Reason::none);
  EXPECT_NE(kernel_.drive_fd, taken_.get());
}

// The number may be another drive's by then.
TEST_F(LostDescriptorTest, OfADriveTakesItsProofWithIt) {
  ASSERT_TRUE(judge(Op::write).usable);
  take(kernel_.drive_fd);
  kernel_.exporter = Exporter::other_memory;
  open_file_anew();
  EXPECT_EQ(judge(Op::write).reason, dmabuf_reason::untrusted);
  EXPECT_FALSE(wrote_to_user_drive());
}

TEST_F(LostDescriptorTest, OfADriveLeavesItRefusedWhereBytesWereLost) {
  kernel_.exporter = Exporter::raw_address;
  clock_.advance(path_->rules().trusted_for);
  (void)read_and_compare(*channel_, 4096, 4096);
  take(kernel_.drive_fd);
  kernel_.exporter = Exporter::right;
  open_file_anew();
  EXPECT_EQ(judge().reason, dmabuf_reason::untrusted) << "off for the process";
}

TEST_F(DmabufFaultTest, ADriveThatIsAnotherOneOnceItIsOpenedAnewIsRefused) {
  storage_.block_device = 7;
  EXPECT_EQ(judge().reason, reason_of(Obstacle::no_direct_descriptor));
  EXPECT_EQ(judge().detail, ENXIO);
  EXPECT_EQ(kernel_.added, 0u);
}

TEST_F(LostDescriptorTest, OfTheMemoryIsNotRegisteredAgain) {
  take(kernel_.memory_fd);
  EXPECT_EQ(read_and_compare(*channel_, 4096, 4096), Reason::none) << "the slot has its own";
  kernel_.errors = {-ENODEV};
  (void)read_and_compare(*channel_, 4096, 4096);
  EXPECT_EQ(read_and_compare(*channel_, 4096, 4096), pipeline_reason::refused_late);
  EXPECT_EQ(kernel_.added, added_);
}

// ---- Many requests -------------------------------------------------------------------------------------------------

// Nobody tells of a mapping that turns wrong: until the next canary, bytes may be lost.
TEST_F(DmabufFaultTest, OfAnExporterThatTurnsWrongNoMoreIsLostThanOneIntervalHas) {
  constexpr unsigned kSeconds = 100, kTurn = 17;  // One read in each.
  for (const Exporter exporter : kWrongExporters) {
    kernel_.exporter = Exporter::right;
    make_path({.is_on = true});
    ASSERT_TRUE(judge().usable);
    const std::unique_ptr<Channel> channel = this->channel();
    unsigned wrong = 0, last = 0;
    for (unsigned i = 0; i < kSeconds; ++i, clock_.advance(std::chrono::seconds(1))) {
      if (i == kTurn) kernel_.exporter = exporter;
      const std::uint64_t offset = 4096 * (i % 40);
      ASSERT_TRUE(channel->move_and_wait(request(Op::read), plan(Op::read, offset, 8192).chunk(0)).status.ok());
      if (std::memcmp(memory_, storage_.content.data() + offset, 8192) == 0) continue;
      ++wrong;
      last = i;
    }
    EXPECT_LE(wrong, 30u);
    EXPECT_LT(last, kTurn + 30) << "none once the canary has come";
    EXPECT_EQ(judge().reason, dmabuf_reason::untrusted);
    RecordProperty("lost_" + std::to_string(static_cast<int>(exporter)), static_cast<int>(wrong));
  }
}

// PENSTOCK_DMABUF_REQUESTS=1000000 for a longer run.
TEST_F(DmabufFaultTest, NoByteIsWrongWhateverFaultsComeInBetween) {
  const char* const wanted = std::getenv("PENSTOCK_DMABUF_REQUESTS");
  const unsigned count = wanted == nullptr ? 5000 : static_cast<unsigned>(std::strtoul(wanted, nullptr, 10));
  std::unique_ptr<Channel> channel;
  std::mt19937_64 random(40);
  const auto base = reinterpret_cast<std::uintptr_t>(memory_);
  unsigned bounced = 0;
  const auto start = [&](Exporter exporter) {
    channel.reset();
    kernel_.errors.clear();
    kernel_.exporter = exporter;
    make_path({.is_on = true});
    if (random() % 2 == 0) path().hooks()->add_buffer(devices_->describe(memory_), base, kUserBytes);
    return judge().usable;
  };
  for (unsigned i = 0; i < count; ++i) {
    if (random() % 1024 == 0) {
      ASSERT_FALSE(start(kWrongExporters[random() % std::size(kWrongExporters)]));
    }
    if (!judge().usable) {  // A canary met an error, or lost bytes: the pair is off for this path's life.
      ASSERT_TRUE(start(Exporter::right));
    }
    if (channel == nullptr) channel = this->channel(4);
    const int errors[] = {-EAGAIN, -EINTR, -EBUSY, -ENOMEM, -ENODEV, -ENOENT, -EFAULT, 0, 512};
    if (random() % 8 == 0) kernel_.errors.push_back(errors[random() % std::size(errors)]);
    if (random() % 64 == 0) clock_.advance(std::chrono::seconds(31));
    std::uint64_t offset = random() % (kDriveBytes - 20'480), size = 1 + random() % 20'000;
    if (random() % 2 == 0) offset -= offset % 512, size += 512 - size % 512;
    bounced += read_and_compare(*channel, offset, size) == Reason::none ? 0 : 1;
    if (HasFailure()) return;
  }
  RecordProperty("bounced", static_cast<int>(bounced));
  EXPECT_GT(kernel_.lent_requests, 0u);
  EXPECT_GT(bounced, 0u);
  EXPECT_LT(bounced, count);
}

}  // namespace
}  // namespace penstock::core
