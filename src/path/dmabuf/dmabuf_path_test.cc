// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "fakes/dmabuf_fixture.h"
#include "path/dmabuf/dmabuf_reasons.h"
#include "path/pipeline/pipeline_reasons.h"

// A ring whose operations may never end is abandoned, since they may still write to memory. The leak checker, which
// asks this, must not call that a leak.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:FakeStorage::open_ring"; }

namespace penstock::core {
namespace {

class DmabufPathTest : public DmabufFixture {};

// ---- Verdicts ------------------------------------------------------------------------------------------------------

TEST_F(DmabufPathTest, IsUsableOnceTheCanaryHasSeenBytesArriveBothWays) {
  EXPECT_TRUE(judge(Op::read).usable);
  EXPECT_TRUE(judge(Op::write).usable);
  EXPECT_FALSE(wrote_to_user_drive());
  EXPECT_EQ(kernel_.requests, 14u) << "eight reads, and six writes to scratch";
  EXPECT_EQ(gpu_->allocation_count(), 1u) << "the memory of the test is freed";
}

TEST_F(DmabufPathTest, APairIsTestedOnce) {
  ASSERT_TRUE(judge().usable);
  const unsigned requests = kernel_.requests;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(judge(i % 2 == 0 ? Op::read : Op::write).usable);
  EXPECT_EQ(kernel_.requests, requests);
}

class WrongExporterTest : public DmabufPathTest, public testing::WithParamInterface<Exporter> {};
INSTANTIATE_TEST_SUITE_P(Exporters, WrongExporterTest, testing::ValuesIn(kWrongExporters));

TEST_P(WrongExporterTest, IsFoundOutBeforeAByteIsDelivered) {
  kernel_.exporter = GetParam();
  EXPECT_EQ(judge(Op::read).reason, dmabuf_reason::untrusted);
  EXPECT_EQ(judge(Op::write).reason, dmabuf_reason::untrusted);
  EXPECT_FALSE(wrote_to_user_drive()) << "a lost write would leave other bytes than the old ones";
}

// The proof of the pair was right; the channel's own memory is mapped wrongly.
TEST_P(WrongExporterTest, OfAChannelsMemoryIsFoundOutToo) {
  ASSERT_TRUE(judge().usable);
  kernel_.exporter = GetParam();
  const std::unique_ptr<Channel> channel = this->channel();
  EXPECT_EQ(read_and_compare(*channel, 4096, 8192), pipeline_reason::refused_late);
  EXPECT_EQ(judge().reason, dmabuf_reason::untrusted) << "off for the process";
}

TEST_P(WrongExporterTest, ThatTurnsWrongLaterIsFoundOutByTime) {
  ASSERT_TRUE(judge().usable);
  const std::unique_ptr<Channel> channel = this->channel();
  ASSERT_EQ(read_and_compare(*channel, 4096, 8192), Reason::none);
  kernel_.exporter = GetParam();
  clock_.advance(path_->rules().trusted_for);
  EXPECT_EQ(read_and_compare(*channel, 4096, 8192), pipeline_reason::refused_late);
  EXPECT_EQ(judge(Op::write).reason, dmabuf_reason::untrusted);
}

TEST_P(WrongExporterTest, ThatTurnsWrongLaterIsFoundOutByBytes) {
  make_path({.is_on = true, .trusted_bytes = 64u << 10});
  ASSERT_TRUE(judge().usable);
  const std::unique_ptr<Channel> channel = this->channel();
  ASSERT_EQ(read_and_compare(*channel, 0, 64u << 10), Reason::none);
  kernel_.exporter = GetParam();
  EXPECT_EQ(read_and_compare(*channel, 4096, 8192), pipeline_reason::refused_late);
}

TEST_F(DmabufPathTest, WritesNeedBlocksThatMayBeOverwritten) {
  make_path({.is_on = true});
  EXPECT_TRUE(judge(Op::read).usable);
  EXPECT_EQ(judge(Op::write).reason, pipeline_reason::no_scratch);
  EXPECT_FALSE(wrote_to_user_drive());
}

TEST_F(DmabufPathTest, WithoutARequestTheKernelIsToldBeforeTheSwitch) {
  PointerFacts any = devices_->describe(memory_);
  any.size = 0;
  make_path({.is_on = false});
  EXPECT_EQ(path_->judge(*file_, any, Op::read).reason, dmabuf_reason::off);
  EXPECT_EQ(kernel_.added, 0u) << "nothing is tried";
  kernel_.is_known = false;
  make_path({.is_on = false});
  EXPECT_EQ(path_->judge(*file_, any, Op::read).reason, dmabuf_reason::kernel);
  EXPECT_EQ(path_->judge(*file_, any, Op::read).detail, EINVAL);
}

// To ask costs a process's first request the time of a ring.
TEST_F(DmabufPathTest, ARequestAsksNoKernelForAPathThatIsOff) {
  make_path({.is_on = false});
  EXPECT_EQ(judge().reason, dmabuf_reason::off);
  EXPECT_EQ(storage_.dmabuf_questions, 0u);
  make_path({.is_on = true});
  EXPECT_TRUE(judge().usable);
  EXPECT_EQ(storage_.dmabuf_questions, 1u);
}

TEST_F(DmabufPathTest, ADriveThatIsKnownNotToWorkIsNotTried) {
  drive_reason_ = reason_of(Obstacle::iommu_translating);
  EXPECT_EQ(judge().reason, reason_of(Obstacle::iommu_translating));
  EXPECT_EQ(kernel_.added, 0u);
}

TEST_F(DmabufPathTest, ADriveThatTheKernelRefusesIsToldWithItsErrno) {
  for (const int error : {EOPNOTSUPP, EINVAL}) {
    make_path({.is_on = true});
    kernel_.register_error = error;
    EXPECT_EQ(judge().reason, dmabuf_reason::drive);
    EXPECT_EQ(judge().detail, error);
  }
}

TEST_F(DmabufPathTest, ADeviceThatExportsNothingOrHasNoRoomIsToldApart) {
  gpu_->export_error = ENOTSUP;
  EXPECT_EQ(judge().reason, dmabuf_reason::not_exported);
  make_path({.is_on = true});
  gpu_->is_full = true;
  EXPECT_EQ(judge().reason, pipeline_reason::self_test_no_room);
}

TEST_F(DmabufPathTest, FilesHostMemoryAndSettingsAreRefusedByName) {
  char host[64];
  EXPECT_EQ(path_->judge(*file_, devices_->describe(host), Op::read).reason, Reason::host_memory);
  make_path({.direct_io = false, .is_on = true});
  EXPECT_EQ(judge().reason, Reason::direct_io_off);
  make_path({.is_on = true});
  storage_.type = FileType::regular;
  const std::unique_ptr<File> file = std::move(*File::open(storage_, FakeStorage::kUserFd));
  EXPECT_EQ(path_->judge(*file, devices_->describe(memory_), Op::read).reason, dmabuf_reason::file);
}

TEST_F(DmabufPathTest, AMapThatNeverEndsIsGivenUpAndItsMemoryStays) {
  kernel_.stalls = true;
  EXPECT_EQ(judge().reason, dmabuf_reason::stuck);
  EXPECT_EQ(gpu_->allocation_count(), 2u) << "the drive may still write to it";
  EXPECT_EQ(judge().reason, dmabuf_reason::stuck) << "and it is not tried again";
}

// ---- Bytes ---------------------------------------------------------------------------------------------------------

TEST_F(DmabufPathTest, AlignedBytesGoByTheDrive) {
  ASSERT_TRUE(judge().usable);
  storage_.accesses.clear();
  const auto bytes = move(Op::read, 4096, 3 * kChunk);
  EXPECT_EQ(bytes, (std::map<Reason, std::uint64_t>{{Reason::none, 3 * kChunk}}));
  EXPECT_EQ(std::memcmp(memory_, storage_.content.data() + 4096, 3 * kChunk), 0);
}

TEST_F(DmabufPathTest, AChannelOfManyChunksHasNoMoreMemoryThanCanBeRegistered) {
  ASSERT_TRUE(judge().usable);
  const std::unique_ptr<Channel> channel = this->channel((2u << 30) / kChunk);
  EXPECT_EQ(read_and_compare(*channel, 4096, 100'000), Reason::none);
}

TEST_F(DmabufPathTest, ReadsOfAnyOffsetAndSizeAreWidenedAndNothingIsWrittenBehind) {
  ASSERT_TRUE(judge().usable);
  const std::unique_ptr<Channel> channel = this->channel();
  char* const start = memory_;
  for (const std::uint64_t offset : {0, 1, 511, 512, 4095, 70'001}) {
    for (const std::uint64_t size : {1, 511, 512, 513, 4096, 65'536, 100'003}) {
      memory_ = start + offset % 13;  // Memory needs no alignment, either.
      EXPECT_EQ(read_and_compare(*channel, offset, size), Reason::none) << offset << ' ' << size;
    }
  }
  memory_ = start;
}

TEST_F(DmabufPathTest, TheDrivesEndIsReadUpToIt) {
  ASSERT_TRUE(judge().usable);
  const std::unique_ptr<Channel> channel = this->channel();
  const Plan plan = this->plan(Op::read, kDriveBytes - 4096, 8192);
  const Completion completion = channel->move_and_wait(request(Op::read), plan.chunk(0));
  EXPECT_TRUE(completion.status.ok());
  EXPECT_EQ(completion.bytes, 4096u);
  EXPECT_EQ(completion.bounced, Reason::none);
}

TEST_F(DmabufPathTest, WritesGoByTheDriveAndTheirHeadAndTailAreBounced) {
  ASSERT_TRUE(judge(Op::write).usable);
  const std::vector<char> before = storage_.content;
  for (std::size_t i = 0; i < kUserBytes; ++i) memory_[i] = static_cast<char>(i * 7);
  const auto bytes = move(Op::write, 612, 200'000);
  const std::uint64_t head = 4096 - 612, tail = (612 + 200'000) % 4096;
  EXPECT_EQ(bytes.at(reason_of(Obstacle::misaligned)), head + tail);
  EXPECT_EQ(bytes.at(Reason::none), 200'000 - head - tail);
  EXPECT_EQ(std::memcmp(memory_, storage_.content.data() + 612, 200'000), 0);
  EXPECT_EQ(std::memcmp(before.data(), storage_.content.data(), 612), 0);
  EXPECT_EQ(std::memcmp(before.data() + 200'612, storage_.content.data() + 200'612, kDriveBytes - 200'612), 0);
}

}  // namespace
}  // namespace penstock::core
