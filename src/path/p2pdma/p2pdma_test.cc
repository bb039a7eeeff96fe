// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "fakes/fake_gpu.h"
#include "fakes/fake_peer.h"
#include "fakes/fake_storage.h"
#include "fakes/path_fixture.h"
#include "path/p2pdma/p2pdma_path.h"
#include "path/pipeline/pipeline_reasons.h"

namespace penstock::core {
namespace {

constexpr const char* kAddress = "0000:03:00.0";

// Returns the reasons that a test sets.
class FakeOutlook final : public Outlook {
 public:
  struct Answers {
    Reason device = Reason::none;
    Reason file = Reason::none;
    Reason route = Reason::none;
    unsigned asked = 0;
  };
  explicit FakeOutlook(Answers& answers) : answers_(answers) {}
  Reason of_device(const DeviceFacts&) override { return ++answers_.asked, answers_.device; }
  Reason of_file(File&, Op) override { return ++answers_.asked, answers_.file; }
  Reason of_route(const DeviceFacts&, File&) override { return ++answers_.asked, answers_.route; }

 private:
  Answers& answers_;
};

// A file of a known content, a device with memory, and the path between them.
class P2pdmaTest : public PathFixture {
 protected:
  P2pdmaTest() {
    storage_.content.resize(kFileBytes);
    for (std::size_t i = 0; i < kFileBytes; ++i) storage_.content[i] = byte_at(i);
    storage_.open_flags = O_RDWR | O_DIRECT;
    peers_.add(kAddress, 4 << 20);
    devices_ = std::move(*peers_.open());
    device_ = *devices_->device(0);
    memory_ = static_cast<char*>(*device_->memory().allocate(1 << 20));
    make_path({});
    file_ = std::move(*File::open(storage_, FakeStorage::kUserFd));
  }

  void TearDown() override {
    file_.reset();
    path_.reset();
    devices_.reset();
  }
  Path& path() override { return *path_; }

  void make_path(const P2pdmaRules& rules) {
    path_ = std::make_unique<P2pdmaPath>(storage_, *devices_, std::make_unique<FakeOutlook>(answers_), rules);
  }

  static char byte_at(std::size_t i) { return static_cast<char>(i * 31 + i / 257); }
  Verdict judge(Op op = Op::read) { return path_->judge(*file_, devices_->describe(memory_), op); }
  // True if storage was handed the device's own memory.
  bool is_peer(const void* memory) const { return devices_->describe(memory).kind == MemoryKind::device; }
  bool touched_user_file(Op op) const {
    return std::any_of(storage_.accesses.begin(), storage_.accesses.end(),
                       [&](const FakeStorage::Access& access) { return !access.scratch && access.op == op; });
  }

  FakeStorage storage_;
  FakePeers peers_;
  FakeOutlook::Answers answers_;
  std::unique_ptr<P2pdmaPath> path_;
};

// ---- Verdicts ------------------------------------------------------------------------------------------------------

TEST_F(P2pdmaTest, IsUsableOnceItsSelfTestHasMovedBytesBothWays) {
  unsigned reads = 0, writes = 0;
  storage_.on_access = [&](const FakeStorage::Access& access) {
    if (is_peer(access.memory)) (access.op == Op::read ? reads : writes) += 1;
  };
  EXPECT_TRUE(judge(Op::read).usable);
  EXPECT_TRUE(judge(Op::write).usable);
  EXPECT_EQ(reads, 2u);  // A block and a large piece.
  EXPECT_EQ(writes, 2u);
}

TEST_F(P2pdmaTest, TheSelfTestNeverTouchesTheUsersFileWhereThereIsScratch) {
  ASSERT_TRUE(judge(Op::write).usable);
  EXPECT_FALSE(touched_user_file(Op::read));
  EXPECT_FALSE(touched_user_file(Op::write));
}

TEST_F(P2pdmaTest, APairIsTestedOnce) {
  ASSERT_TRUE(judge().usable);
  const std::size_t accesses = storage_.accesses.size();
  const unsigned asked = answers_.asked;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(judge().usable);
  EXPECT_EQ(storage_.accesses.size(), accesses);
  EXPECT_EQ(answers_.asked, asked);
}

TEST_F(P2pdmaTest, BytesThatNeverArriveAreFoundOut) {
  storage_.loses = [&](const FakeStorage::Access& access) { return is_peer(access.memory); };
  const Verdict verdict = judge();
  EXPECT_FALSE(verdict.usable);
  EXPECT_EQ(verdict.reason, pipeline_reason::self_test_wrong);
  EXPECT_EQ(judge(Op::write).reason, pipeline_reason::self_test_wrong);
}

TEST_F(P2pdmaTest, OneDirectionMayFailAlone) {
  storage_.loses = [&](const FakeStorage::Access& access) { return is_peer(access.memory) && access.op == Op::write; };
  EXPECT_TRUE(judge(Op::read).usable);
  EXPECT_EQ(judge(Op::write).reason, pipeline_reason::self_test_wrong);
}

TEST_F(P2pdmaTest, ARefusalIsToldWithItsErrno) {
  storage_.refuses = [&](const FakeStorage::Access& access) { return is_peer(access.memory) ? EREMOTEIO : 0; };
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.reason, pipeline_reason::self_test_refused);
  EXPECT_EQ(verdict.detail, EREMOTEIO);
}

TEST_F(P2pdmaTest, PagesInThePageCacheMeanThatTheCpuCopied) {
  storage_.on_access = [&](const FakeStorage::Access& access) { storage_.resident = is_peer(access.memory); };
  EXPECT_EQ(judge().reason, pipeline_reason::self_test_copied);
}

TEST_F(P2pdmaTest, WithoutScratchReadsAreTriedOnTheFileAndWritesAreNot) {
  storage_.scratch_allowed = false;
  EXPECT_TRUE(judge(Op::read).usable);
  EXPECT_EQ(judge(Op::write).reason, pipeline_reason::no_scratch);
  EXPECT_TRUE(touched_user_file(Op::read));
  EXPECT_FALSE(touched_user_file(Op::write));
}

TEST_F(P2pdmaTest, WhatIsKnownBeforehandIsNotTried) {
  answers_.route = reason_of(Obstacle::root_ports_apart);
  EXPECT_EQ(judge().reason, reason_of(Obstacle::root_ports_apart));
  EXPECT_TRUE(storage_.accesses.empty());
}

TEST_F(P2pdmaTest, TheDeviceThenTheFileAreToldFirst) {
  answers_.file = reason_of(Obstacle::data_journal);
  EXPECT_EQ(judge().reason, reason_of(Obstacle::data_journal));
  make_path({});
  answers_.device = reason_of(Obstacle::kernel_6_16);
  EXPECT_EQ(judge().reason, reason_of(Obstacle::kernel_6_16));
}

TEST_F(P2pdmaTest, RefusesHostMemoryAndConfigurationThatWantsNoDirectIo) {
  char host[64];
  EXPECT_EQ(path_->judge(*file_, devices_->describe(host), Op::read).reason, Reason::host_memory);
  make_path({.direct_io = false});
  EXPECT_EQ(judge().reason, Reason::direct_io_off);
  make_path({});
  file_->give_up_o_direct();
  EXPECT_EQ(judge().reason, reason_of(Obstacle::no_direct_io));
}

TEST_F(P2pdmaTest, MemoryThatIsMappedNowhereIsNotExportable) {
  PointerFacts memory = devices_->describe(memory_);
  memory.mapped = 0;
  EXPECT_EQ(path_->judge(*file_, memory, Op::read).reason, reason_of(Obstacle::pointer_not_exportable));
}

// penstock_explain asks so about a device's memory as such.
TEST_F(P2pdmaTest, MemoryWithoutASizeIsAskedForNoAllocation) {
  make_path({.explains_memory = true});
  PointerFacts memory = devices_->describe(memory_);
  memory.mapped = memory.size = 0;
  EXPECT_EQ(path_->judge(*file_, memory, Op::read).reason, reason_of(Obstacle::pointer_not_exportable));
}

TEST_F(P2pdmaTest, ASelfTestsMemoryHasToBeMappedToo) {
  FakeGpu gpu;
  P2pdmaPath path(storage_, gpu, std::make_unique<FakeOutlook>(answers_), {});
  PointerFacts memory = gpu.describe(*gpu.allocate(1 << 20));
  memory.mapped = memory.base;
  EXPECT_EQ(path.judge(*file_, memory, Op::read).reason, reason_of(Obstacle::pointer_not_exportable));
  EXPECT_EQ(gpu.allocation_count(), 1u);
}

// Reports by which call memory was allocated; all else is forwarded.
class ReportingDevices final : public DeviceSet {
 public:
  ReportingDevices(DeviceSet& set, const Allocation& reported) : set_(set), reported_(reported) {}
  unsigned count() const override { return set_.count(); }
  Result<Device*> device(unsigned place) override { return set_.device(place); }
  PointerFacts describe(const void* pointer) override { return set_.describe(pointer); }
  Allocation allocation_of(const void*) override { return reported_; }
  Result<StreamHome*> stream_home(void* stream) override { return set_.stream_home(stream); }

 private:
  DeviceSet& set_;
  const Allocation& reported_;
};

TEST_F(P2pdmaTest, MemoryThatIsNotMappedIsToldByTheCallThatAllocatedIt) {
  Allocation reported = Allocation::unknown;
  ReportingDevices devices(*devices_, reported);
  PointerFacts memory = devices_->describe(memory_);
  memory.mapped = 0;
  const std::pair<Allocation, Obstacle> cases[] = {{Allocation::unknown, Obstacle::pointer_not_exportable},
                                                   {Allocation::plain, Obstacle::memory_plain},
                                                   {Allocation::managed, Obstacle::memory_managed},
                                                   {Allocation::pool, Obstacle::memory_pool},
                                                   {Allocation::closed, Obstacle::memory_closed},
                                                   {Allocation::not_rdma_capable, Obstacle::memory_not_rdma_capable},
                                                   {Allocation::exportable, Obstacle::memory_unregistered}};
  for (const bool explains : {true, false}) {
    P2pdmaPath path(storage_, devices, std::make_unique<FakeOutlook>(answers_), {.explains_memory = explains});
    for (const auto& [allocation, obstacle] : cases) {
      reported = allocation;
      const Obstacle expected = explains ? obstacle : Obstacle::pointer_not_exportable;
      EXPECT_EQ(path.judge(*file_, memory, Op::read).reason, reason_of(expected));
    }
  }
}

TEST_F(P2pdmaTest, TheMachineIsReadOnlyWhereMemoryIsMappedOrSomebodyAsks) {
  answers_.device = reason_of(Obstacle::kernel_no_p2pdma);
  PointerFacts memory = devices_->describe(memory_);
  memory.mapped = 0;
  EXPECT_EQ(path_->judge(*file_, memory, Op::read).reason, reason_of(Obstacle::pointer_not_exportable));
  EXPECT_EQ(answers_.asked, 0u);
  const PointerFacts any = {.kind = MemoryKind::device, .device = device_};
  EXPECT_EQ(path_->judge(*file_, any, Op::read).reason, reason_of(Obstacle::kernel_no_p2pdma));
  EXPECT_EQ(answers_.asked, 1u);
}

TEST_F(P2pdmaTest, AFileThatOutgrowsItsInodeIsLookedAtAgainAndOthersAreNot) {
  answers_.file = reason_of(Obstacle::inline_data);
  EXPECT_EQ(judge().reason, reason_of(Obstacle::inline_data));
  answers_.file = Reason::none;
  EXPECT_TRUE(judge().usable);
  answers_.file = reason_of(Obstacle::inline_data);
  EXPECT_TRUE(judge().usable);
}

TEST_F(P2pdmaTest, ADeviceWithoutRoomForTheSelfTestIsRefused) {
  while (device_->memory().allocate(1 << 20).ok()) {
    if (static bool filled = false; std::exchange(filled, true)) break;
  }
  peers_.unbind(kAddress);
  EXPECT_EQ(judge().reason, pipeline_reason::self_test_no_room);
}

// ---- Bytes ---------------------------------------------------------------------------------------------------------

TEST_F(P2pdmaTest, AlignedBytesGoStraightIntoTheDevicesMemory) {
  const auto bytes = move(Op::read, 4096, 200 * 512);
  EXPECT_EQ(bytes, (std::map<Reason, std::uint64_t>{{Reason::none, 200 * 512}}));
  EXPECT_EQ(std::memcmp(memory_, storage_.content.data() + 4096, 200 * 512), 0);
  for (const FakeStorage::Access& access : storage_.accesses) EXPECT_TRUE(is_peer(access.memory));
}

TEST_F(P2pdmaTest, HeadAndTailAreBouncedAndSaySo) {
  for (std::size_t i = 0; i < 300'000; ++i) memory_[i] = static_cast<char>(i * 7);
  memory_ += 100;  // So that the middle's memory is aligned, too.
  const std::vector<char> before = storage_.content;
  const auto bytes = move(Op::write, 612, 200'000);
  const std::uint64_t head = 4096 - 612, tail = (612 + 200'000) % 4096;
  EXPECT_EQ(bytes.at(reason_of(Obstacle::misaligned)), head + tail);
  EXPECT_EQ(bytes.at(Reason::none), 200'000 - head - tail);
  EXPECT_EQ(std::memcmp(memory_, storage_.content.data() + 612, 200'000), 0);
  EXPECT_EQ(std::memcmp(before.data(), storage_.content.data(), 612), 0);
  EXPECT_EQ(std::memcmp(before.data() + 200'612, storage_.content.data() + 200'612, kFileBytes - 200'612), 0);
}

TEST_F(P2pdmaTest, MemoryThatIsOffABlocksBoundaryIsBouncedAlthoughTheKernelWouldTakeIt) {
  memory_ += 8;
  const auto bytes = move(Op::read, 4096, 200 * 512);
  EXPECT_EQ(bytes, (std::map<Reason, std::uint64_t>{{reason_of(Obstacle::misaligned), 200 * 512}}));
  EXPECT_EQ(std::memcmp(memory_, storage_.content.data() + 4096, 200 * 512), 0);
  for (const FakeStorage::Access& access : storage_.accesses) EXPECT_FALSE(is_peer(access.memory));
}

TEST_F(P2pdmaTest, HolesAreBouncedSinceTheKernelMakesUpTheirZeros) {
  storage_.hole = [](std::uint64_t offset, std::uint64_t) { return offset < kChunk; };
  const auto bytes = move(Op::read, 0, 3 * kChunk);
  EXPECT_EQ(bytes.at(reason_of(Obstacle::holes)), kChunk);
  EXPECT_EQ(bytes.at(Reason::none), 2 * kChunk);
  EXPECT_EQ(std::memcmp(memory_, storage_.content.data(), 3 * kChunk), 0);
}

class LateRefusalTest : public P2pdmaTest, public testing::WithParamInterface<int> {};

// Alternates, so that some chunks go directly and some do not.
TEST_P(LateRefusalTest, IsBouncedOnceCountedAndRemembered) {
  ASSERT_TRUE(judge(Op::read).usable);
  unsigned turn = 0;
  storage_.refuses = [&](const FakeStorage::Access& access) {
    return is_peer(access.memory) && ++turn % 2 == 0 ? GetParam() : 0;
  };
  const auto bytes = move(Op::read, 0, 4 * kChunk);
  EXPECT_EQ(bytes.at(Reason::none), 2 * kChunk);
  EXPECT_EQ(bytes.at(pipeline_reason::refused_late), 2 * kChunk);
  EXPECT_EQ(std::memcmp(memory_, storage_.content.data(), 4 * kChunk), 0);

  // Other chunks succeeded, so a read's EIO may come from buffered writes.
  const bool is_refusal = GetParam() != EIO;
  const Verdict verdict = judge(Op::read);
  EXPECT_EQ(verdict.usable, !is_refusal);
  EXPECT_EQ(verdict.detail, is_refusal ? GetParam() : 0);
  EXPECT_TRUE(judge(Op::write).usable);
}

TEST_F(P2pdmaTest, ReadsThatEndWithEioAreRememberedWhenNoneGetsThrough) {
  ASSERT_TRUE(judge(Op::read).usable);
  const std::unique_ptr<Channel> channel = this->channel();
  const RoutedRequest& request = this->request(Op::read);
  const Chunk chunk = plan(Op::read, 0, 4096).chunk(0);
  storage_.refuses = [&](const FakeStorage::Access& access) { return is_peer(access.memory) ? EIO : 0; };
  for (int i = 0; i < 7; ++i) EXPECT_EQ(channel->move_and_wait(request, chunk).bounced, pipeline_reason::refused_late);
  EXPECT_TRUE(judge(Op::read).usable);

  EXPECT_EQ(channel->move_and_wait(request, chunk).bounced, pipeline_reason::refused_late);

  EXPECT_EQ(judge(Op::read).reason, pipeline_reason::refused_late);
  EXPECT_EQ(judge(Op::read).detail, EIO);
}

TEST_P(LateRefusalTest, OfASmallRequestIsTheSame) {
  ASSERT_TRUE(judge(Op::write).usable);
  storage_.refuses = [&](const FakeStorage::Access& access) { return is_peer(access.memory) ? GetParam() : 0; };
  std::memset(memory_, 'x', 4096);
  const Completion completion = channel()->move_and_wait(request(Op::write), plan(Op::write, 8192, 4096).chunk(0));
  EXPECT_TRUE(completion.status.ok());
  EXPECT_EQ(completion.bounced, pipeline_reason::refused_late);
  EXPECT_EQ(std::string(4096, 'x'), std::string(storage_.content.data() + 8192, 4096));
  EXPECT_EQ(judge(Op::write).detail, GetParam());
}

TEST_P(LateRefusalTest, IsAnErrorWhereNothingMayBeBounced) {
  make_path({.strict = true});
  storage_.refuses = [&](const FakeStorage::Access& access) { return is_peer(access.memory) ? GetParam() : 0; };
  const Completion completion = channel()->move_and_wait(request(Op::read), plan(Op::read, 0, 4096).chunk(0));
  EXPECT_TRUE(completion.status.is(Code::path_refused));
  EXPECT_EQ(completion.bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(Errnos, LateRefusalTest, testing::Values(EREMOTEIO, EINVAL, EIO, EFAULT, EOPNOTSUPP, ENODEV));

TEST_F(P2pdmaTest, AStrictChannelFailsItsQueuedChunksAndComesToAnEnd) {
  make_path({.strict = true});
  storage_.refuses = [&](const FakeStorage::Access& access) { return is_peer(access.memory) ? EREMOTEIO : 0; };
  const std::unique_ptr<Channel> channel = this->channel(4);
  const Plan plan = this->plan(Op::read, 100, 2 * kChunk);  // The first chunk is not even aligned.
  for (std::uint64_t i = 0; i < plan.chunk_count(); ++i) channel->submit(request(Op::read), plan.chunk(i), 0);
  Completion completions[4];
  unsigned failed = 0;
  while (!channel->is_idle()) {
    const unsigned count = channel->poll(completions, true);
    for (unsigned i = 0; i < count; ++i) failed += completions[i].status.is(Code::path_refused) ? 1 : 0;
  }
  EXPECT_EQ(failed, plan.chunk_count());
}

TEST_F(P2pdmaTest, AnErrorOfTheDriveIsNoRefusal) {
  ASSERT_TRUE(judge().usable);
  storage_.refuses = [](const FakeStorage::Access&) { return EIO; };
  const Completion completion = channel()->move_and_wait(request(Op::read), plan(Op::read, 0, 4096).chunk(0));
  EXPECT_TRUE(completion.status.is_errno(EIO));
  storage_.refuses = [](const FakeStorage::Access&) { return 0; };
  EXPECT_TRUE(judge().usable);
}

TEST_F(P2pdmaTest, ADirectReadThatCollidesWithABufferedWriteIsNoRefusal) {
  ASSERT_TRUE(judge().usable);
  storage_.refuses = [](const FakeStorage::Access& access) { return access.o_direct ? EIO : 0; };
  const Completion completion = channel()->move_and_wait(request(Op::read), plan(Op::read, 0, 4096).chunk(0));
  EXPECT_TRUE(completion.status.ok());
  EXPECT_EQ(completion.io_mode, IoMode::buffered);
  EXPECT_TRUE(judge().usable);
}

TEST_F(P2pdmaTest, AFullDiskIsNoRefusal) {
  storage_.refuses = [](const FakeStorage::Access& access) { return access.op == Op::write ? ENOSPC : 0; };
  const Completion completion = channel()->move_and_wait(request(Op::write), plan(Op::write, 0, 4096).chunk(0));
  EXPECT_TRUE(completion.status.is_errno(ENOSPC));
  EXPECT_EQ(completion.bounced, Reason::none);
}

TEST_F(P2pdmaTest, MemoryThatGoesAwayIsAnErrorAndNoSignal) {
  storage_.refuses = [&](const FakeStorage::Access& access) { return is_peer(access.memory) ? EFAULT : 0; };
  const std::unique_ptr<Channel> channel = this->channel();
  peers_.unbind(kAddress);
  const Completion completion = channel->move_and_wait(request(Op::read), plan(Op::read, 0, 4096).chunk(0));
  EXPECT_TRUE(completion.status.is(Code::device_lost));
}

}  // namespace
}  // namespace penstock::core
