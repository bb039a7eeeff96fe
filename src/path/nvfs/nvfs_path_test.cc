// SPDX-License-Identifier: Apache-2.0

#include "path/nvfs/nvfs_path.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "fakes/nvfs_fixture.h"

namespace penstock::core {
namespace {

class NvfsPathTest : public NvfsTest {};

// ---- Verdicts ------------------------------------------------------------------------------------------------------

TEST_F(NvfsPathTest, IsUsableOnceItsSelfTestHasMovedBytesBothWaysReadsFirst) {
  EXPECT_TRUE(judge(Op::write).usable);
  EXPECT_TRUE(judge(Op::read).usable);
  ASSERT_FALSE(module_->requests.empty());
  EXPECT_EQ(module_->requests.front().call, nvfs::kRead);
  EXPECT_EQ(module_->requests.back().call, nvfs::kWrite);
  EXPECT_TRUE(file_content() == content_);
}

TEST_F(NvfsPathTest, WhatAStandInMovesIsCalledSimulated) { EXPECT_EQ(judge().reason, nvfs_reason::simulated); }

TEST_F(NvfsPathTest, APairIsTestedOnceAndNothingOfItStaysMapped) {
  ASSERT_TRUE(judge().usable);
  const std::size_t asked = module_->requests.size();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(judge(Op::write).usable);
  EXPECT_EQ(module_->requests.size(), asked);
  EXPECT_EQ(module_->mappings, 0u);
}

TEST_F(NvfsPathTest, WithoutTheModuleNothingIsOpenedAndAskedOnce) {
  module_->version = "";
  EXPECT_EQ(judge().reason, nvfs_reason::missing);
  module_->version = "0.1.0";
  EXPECT_EQ(judge().reason, nvfs_reason::missing) << "once in a process";
  EXPECT_EQ(module_->open_nodes, 0u);
}

TEST_F(NvfsPathTest, AStandInServesOnlyWhereATestAllowsIt) {
  use_ = NvfsUse::on;
  make_path();
  EXPECT_EQ(judge().reason, nvfs_reason::stand_in);
}

TEST_F(NvfsPathTest, AFaultyVersionIsToldWithItsNumber) {
  module_->version = "2.25.6";
  EXPECT_EQ(judge().reason, nvfs_reason::version);
  EXPECT_EQ(judge().detail, 2'025'006);
}

TEST_F(NvfsPathTest, NvidiasModuleIsGivenNoMemoryButThatOfItsGpus) {
  module_->version = "2.28.4";
  EXPECT_EQ(judge().reason, nvfs_reason::memory);
  EXPECT_EQ(module_->maps_made, 0u);
}

TEST_F(NvfsPathTest, AGeForceIsRefusedWithoutAskingTheModule) {
  const_cast<DeviceFacts&>(device_->facts()).is_pinned_for_modules = false;
  EXPECT_EQ(judge().reason, nvfs_reason::memory);
  EXPECT_EQ(module_->maps_made, 0u);
}

TEST_F(NvfsPathTest, HostMemoryAndConfigurationAreRefusedFirst) {
  char host[64];
  EXPECT_EQ(path_->judge(*file_, devices_->describe(host), Op::read).reason, Reason::host_memory);
  EXPECT_EQ(module_->open_nodes, 0u);
}

TEST_F(NvfsPathTest, ADriverThatDoesNotAskIsFoundOutByAReadAndNeverWrittenThrough) {
  module_->is_hooked = [](std::uint64_t) { return false; };
  EXPECT_EQ(judge(Op::read).reason, nvfs_reason::not_direct);
  EXPECT_EQ(judge(Op::write).reason, nvfs_reason::not_direct);
  for (const auto& request : module_->requests) EXPECT_EQ(request.call, nvfs::kRead);
}

TEST_F(NvfsPathTest, OneBlockThatDidNotGoByDmaIsEnough) {
  module_->is_hooked = [](std::uint64_t offset) { return offset != 256u << 10; };
  EXPECT_EQ(judge().reason, nvfs_reason::not_direct);
}

TEST_F(NvfsPathTest, RefusalsAreToldWithTheirErrno) {
  module_->map_error = ENOMEM;
  EXPECT_EQ(judge().reason, nvfs_reason::map_refused);
  EXPECT_EQ(judge().detail, ENOMEM);
  module_->map_error = 0;
  make_path();
  module_->faults.push_back({nvfs::kRead, EIO});
  EXPECT_EQ(judge().reason, nvfs_reason::refused);
  EXPECT_EQ(judge().detail, EIO);
  make_path();
  module_->faults.push_back({nvfs::kRead, ESTALE});
  EXPECT_EQ(judge().reason, nvfs_reason::identity);
}

TEST_F(NvfsPathTest, RequestsThatTheModuleDoesNotCountAreNoProof) {
  module_->counts_grow = false;
  EXPECT_EQ(judge().reason, nvfs_reason::not_counted);
  EXPECT_EQ(judge(Op::write).reason, nvfs_reason::not_counted);
}

TEST_F(NvfsPathTest, WhereTheModuleCountsNothingItsListOfHolesIsTheProof) {
  module_->counts = false;
  EXPECT_TRUE(judge().usable) << "it counts nothing unless rw_stats_enabled is set";
}

// The module reports 4096 bytes as direct even if smaller blocks are holes, whose zeros stay in its shadow buffer.
TEST_F(NvfsPathTest, AFileSystemWithBlocksBelow4096IsRefusedByNameAndNeverAsked) {
  module_->block_size = 1024;
  module_->is_hole = [](std::uint64_t offset) { return offset / 1024 % 4 == 1; };
  for (const std::uint64_t size : {512, 1024, 2048, 6144, 0}) {
    storage_.block_size = size;
    file_ = std::move(*File::open(storage_, fd_.get()));
    for (const Op op : {Op::read, Op::write}) EXPECT_EQ(judge(op).reason, pipeline_reason::small_blocks) << size;
  }
  EXPECT_TRUE(module_->requests.empty());
  module_->block_size = 4096;
  module_->is_hole = [](std::uint64_t) { return false; };
  for (const std::uint64_t size : {4096, 65536}) {
    storage_.block_size = size;
    file_ = std::move(*File::open(storage_, fd_.get()));
    EXPECT_TRUE(judge().usable) << size;
  }
}

// ---- Bytes ---------------------------------------------------------------------------------------------------------

TEST_F(NvfsPathTest, MovesUnregisteredMemoryByWayOfItsOwnWhateverTheAlignment) {
  be_tested();
  EXPECT_EQ(move(Op::read, 0, kFileBytes), (Bytes{{Reason::none, kFileBytes}}));
  EXPECT_EQ(std::memcmp(memory_, content_.data(), kFileBytes), 0);
  fill_memory('r');
  EXPECT_EQ(move(Op::read, 123, 200'001), (Bytes{{Reason::none, 200'001}}));
  EXPECT_EQ(std::memcmp(memory_, content_.data() + 123, 200'001), 0);
  EXPECT_EQ(memory_[200'001], static_cast<char>(200'001 * 7 + 'r')) << "nothing behind them";
  EXPECT_EQ(io_modes_, std::set<IoMode>{IoMode::o_direct});
  EXPECT_EQ(requests_in_place(), 0u);
}

TEST_F(NvfsPathTest, WritesGoDirectButForHeadAndTail) {
  be_tested(Op::write);
  fill_memory('w');
  const Bytes moved = move(Op::write, 777, 150'000);
  content_.replace(777, 150'000, memory_, 150'000);
  EXPECT_TRUE(file_content() == content_);
  EXPECT_EQ(moved.at(reason_of(Obstacle::misaligned)), (4096 - 777) + (777 + 150'000) % 4096);
  EXPECT_EQ(moved.at(Reason::none), 150'000 - moved.at(reason_of(Obstacle::misaligned)));
}

TEST_F(NvfsPathTest, RegisteredMemoryIsMovedInPlaceAndUnmappedBeforeDeregistrationEnds) {
  register_memory();
  be_tested();
  const unsigned before = module_->mappings;
  memory_ += 8192;
  EXPECT_EQ(move(Op::read, 4096, 65536 * 3), (Bytes{{Reason::none, 65536 * 3}}));
  EXPECT_EQ(std::memcmp(memory_, content_.data() + 4096, 65536 * 3), 0);
  EXPECT_GT(requests_in_place(), 0u);
  fill_memory('w');
  EXPECT_EQ(move(Op::write, 4096, 65536), (Bytes{{Reason::none, 65536}}));
  content_.replace(4096, 65536, memory_, 65536);
  EXPECT_TRUE(file_content() == content_);
  EXPECT_GT(module_->mappings, before);
  memory_ -= 8192;
  deregister_memory();
  EXPECT_EQ(module_->mappings, 0u);
}

TEST_F(NvfsPathTest, AMappingSharedByRequestsIsMadeAsOftenAsRequestsRunBesideEachOther) {
  register_memory();
  be_tested();
  const unsigned before = module_->maps_made;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(run(Op::read, 0, 65536).status.ok());
  EXPECT_EQ(module_->maps_made, before + 1);
  const std::unique_ptr<Channel> other = channel();
  bool is_first = true;
  module_->drive = [&] {  // A second request while the first is in flight.
    if (!std::exchange(is_first, false)) return;
    EXPECT_TRUE(other->move_and_wait(request(Op::read), plan(Op::read, 0, 4096).chunk(0)).status.ok());
  };
  ASSERT_TRUE(run(Op::read, 0, 65536).status.ok());
  EXPECT_EQ(module_->maps_made, before + 2);
}

TEST_F(NvfsPathTest, WhatIsRegisteredAndMisalignedGoesByWayOfItsOwn) {
  register_memory();
  be_tested();
  memory_ += 100;
  EXPECT_EQ(move(Op::read, 4096, 131072), (Bytes{{Reason::none, 131072}}));
  EXPECT_EQ(std::memcmp(memory_, content_.data() + 4096, 131072), 0);
  memory_ -= 100;
  EXPECT_EQ(requests_in_place(), 0u);
}

TEST_F(NvfsPathTest, AReadEndsWithTheFileAndTouchesNothingBehind) {
  register_memory();
  be_tested();
  fill_memory('e');
  const std::string before(memory_, kMemoryBytes);
  const std::uint64_t offset = kFileBytes / 4096 * 4096 - 8192;
  const Completion completion = run(Op::read, offset, 65536);
  const std::uint64_t left = kFileBytes - offset;
  EXPECT_TRUE(completion.status.ok());
  EXPECT_EQ(completion.bytes, left);
  EXPECT_EQ(std::memcmp(memory_, content_.data() + offset, left), 0);
  EXPECT_EQ(std::memcmp(memory_ + left, before.data() + left, kMemoryBytes - left), 0);
  EXPECT_EQ(run(Op::read, kFileBytes + 8192, 4096).bytes, 0u);
}

TEST_F(NvfsPathTest, ShortTransfersGoOn) {
  for (const bool registered : {false, true}) {
    if (registered) register_memory();
    for (const Op op : {Op::read, Op::write}) {
      be_tested(op);
      fill_memory('s');
      const unsigned long call = op == Op::read ? nvfs::kRead : nvfs::kWrite;
      for (const std::uint64_t at_most : {4096, 8192}) module_->faults.push_back({call, 0, at_most});
      EXPECT_EQ(run(op, 0, 65536).bytes, 65536u);
      if (op == Op::write) content_.replace(0, 65536, memory_, 65536);
      EXPECT_EQ(std::memcmp(memory_, content_.data(), 65536), 0);
      EXPECT_TRUE(file_content() == content_);
      EXPECT_TRUE(module_->faults.empty());
    }
  }
}

// ---- Holes ---------------------------------------------------------------------------------------------------------

TEST_F(NvfsPathTest, AFilesHolesAreFilledFromHostMemoryAndNeverCalledDirect) {
  ASSERT_EQ(::ftruncate(fd_.get(), 0), 0);
  ASSERT_EQ(::ftruncate(fd_.get(), kFileBytes), 0);
  ASSERT_EQ(::pwrite(fd_.get(), content_.data(), 8192, 131072), 8192);
  ASSERT_EQ(::fsync(fd_.get()), 0);
  const std::string seen = file_content();
  for (const bool registered : {false, true}) {
    if (registered) register_memory();
    be_tested();
    fill_memory('h');
    const Completion completion = run(Op::read, 131072, 65536);
    EXPECT_EQ(completion.bytes, 65536u);
    EXPECT_EQ(completion.bounced, reason_of(Obstacle::holes));
    EXPECT_EQ(std::memcmp(memory_, seen.data() + 131072, 65536), 0);
    EXPECT_TRUE(judge().usable) << "that is no refusal";
  }
}

TEST_F(NvfsPathTest, ADriverThatStopsAskingIsFoundOutAndTheBytesAreRightAllTheSame) {
  for (const bool registered : {false, true}) {
    module_->is_hooked = [](std::uint64_t) { return true; };
    make_path();
    if (registered) register_memory();
    be_tested();
    module_->is_hooked = [](std::uint64_t offset) { return offset / 4096 % 2 == 0; };
    fill_memory('h');
    const Bytes moved = move(Op::read, 0, 200'000);
    EXPECT_EQ(moved, (Bytes{{nvfs_reason::not_direct, 196'608}, {Reason::none, 3392}}))
        << "the last block was asked for";
    EXPECT_EQ(std::memcmp(memory_, content_.data(), 200'000), 0);
    for (const Op op : {Op::read, Op::write}) EXPECT_EQ(judge(op).reason, nvfs_reason::not_direct);
  }
}

TEST_F(NvfsPathTest, AWriteThatWasNotAskedForIsBouncedAndTheFileHasTheRightBytes) {
  be_tested(Op::write);
  module_->is_hooked = [](std::uint64_t) { return false; };
  fill_memory('a');
  EXPECT_EQ(move(Op::write, 0, 65536 * 2).count(Reason::none), 0u);
  content_.replace(0, 65536 * 2, memory_, 65536 * 2);
  EXPECT_TRUE(file_content() == content_);
  EXPECT_FALSE(judge(Op::write).usable);
}

// A process that exits with a request in flight would leave a freed file under it, and memory pinned for good.
TEST_F(NvfsPathTest, NothingIsUnderWayWhenTheCallsHaveReturned) {
  register_memory();
  be_tested();
  const std::unique_ptr<Channel> channel = this->channel(4);
  const Plan plan = this->plan(Op::read, 0, 4 * kChunk);
  Completion completions[4];
  for (std::uint64_t next = 0; next < 4;) {
    while (next < 4 && channel->has_room()) channel->submit(request(Op::read), plan.chunk(next++), 0);
    EXPECT_EQ(module_->under_way, 0u);
    EXPECT_EQ(channel->poll(completions, false), 1u);
    EXPECT_EQ(module_->under_way, 0u);
  }
}

TEST_F(NvfsPathTest, WhereNothingMayBeBouncedHolesAreAnError) {
  make_path(true);
  be_tested();
  module_->is_hooked = [](std::uint64_t) { return false; };
  EXPECT_TRUE(run(Op::read, 0, 65536).status.is(Code::path_refused));
}

// ---- Errors --------------------------------------------------------------------------------------------------------

class NvfsErrorTest : public NvfsTest, public testing::WithParamInterface<int> {};

TEST_P(NvfsErrorTest, IsBouncedOnceWithTheRightBytes) {
  for (const Op op : {Op::read, Op::write}) {
    make_path();
    be_tested(op);
    module_->faults.push_back({op == Op::read ? nvfs::kRead : nvfs::kWrite, GetParam()});
    fill_memory('f');
    const Completion completion = run(op, 0, 65536);
    EXPECT_TRUE(completion.status.ok()) << describe(completion.status);
    EXPECT_EQ(completion.bytes, 65536u);
    EXPECT_NE(completion.bounced, Reason::none);
    if (op == Op::write) content_.replace(0, 65536, memory_, 65536);
    EXPECT_EQ(std::memcmp(memory_, content_.data(), 65536), 0);
    EXPECT_TRUE(file_content() == content_);
  }
}

INSTANTIATE_TEST_SUITE_P(Errors, NvfsErrorTest, testing::Values(EIO, EFAULT, ESTALE, EBUSY, 512, EOPNOTSUPP));

TEST_F(NvfsPathTest, AnInterruptedRequestsMappingIsThrownAwayAndThePairKept) {
  be_tested();
  const auto channel = this->channel();
  module_->faults.push_back({nvfs::kRead, 512});
  EXPECT_TRUE(channel->move_and_wait(request(Op::read), plan(Op::read, 0, 65536).chunk(0)).status.ok());
  EXPECT_TRUE(judge().usable);
  const Completion next = channel->move_and_wait(request(Op::read), plan(Op::read, 0, 65536).chunk(0));
  EXPECT_EQ(next.bounced, Reason::none);
}

TEST_F(NvfsPathTest, AFileOfOtherNumbersIsRefusedAlone) {
  be_tested();
  module_->faults.push_back({nvfs::kRead, ESTALE});
  EXPECT_TRUE(run(Op::read, 0, 65536).status.ok());
  EXPECT_EQ(judge().reason, nvfs_reason::identity);
  const std::unique_ptr<File> other = std::move(*File::open(storage_, fd_.get()));
  EXPECT_TRUE(path_->judge(*other, facts(), Op::read).usable);
}

TEST_F(NvfsPathTest, AFullDiskIsNoRefusal) {
  be_tested(Op::write);
  module_->faults.push_back({nvfs::kWrite, ENOSPC});
  EXPECT_TRUE(run(Op::write, 0, 4096).status.is_errno(ENOSPC));
  EXPECT_TRUE(judge(Op::write).usable);
}

TEST_F(NvfsPathTest, BufferSpaceThatIsUsedUpLeavesTheWayThroughOwnMemory) {
  register_memory();
  be_tested();
  module_->faults.push_back({nvfs::kMap, ENOMEM});
  EXPECT_EQ(run(Op::read, 0, 65536).bounced, Reason::none);
  EXPECT_EQ(std::memcmp(memory_, content_.data(), 65536), 0);
  EXPECT_EQ(requests_in_place(), 0u);
}

TEST_F(NvfsPathTest, AForkedChildDoesNotTouchTheModule) {
  register_memory();
  be_tested();
  ASSERT_TRUE(run(Op::read, 4096, 65536).status.ok());
  const std::size_t mapped = module_->mappings;
  const pid_t child = ::fork();
  if (child == 0) {
    const Verdict verdict = judge();
    deregister_memory();
    const bool is_untouched = module_->mappings == mapped;
    ::_exit(verdict.reason == nvfs_reason::refused && verdict.detail == ECHILD && is_untouched ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace penstock::core
