// SPDX-License-Identifier: Apache-2.0

#include "path/nvfs/nvfs_group.h"

#include <sys/sysmacros.h>

#include <cerrno>
#include <functional>
#include <utility>

#include "fakes/forbidden_calls.h"
#include "fakes/nvfs_fixture.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kPage = nvfs::kGpuPage, kBlock = nvfs::kBlock;

// A mapping of the memory, with the smallest shadow buffer by default.
class NvfsGroupTest : public OpenedNvfsTest {
 protected:
  void SetUp() override {
    OpenedNvfsTest::SetUp();
    if (opened_ != nullptr) map(kPage);
  }
  void TearDown() override {
    group_.reset();
    OpenedNvfsTest::TearDown();
  }
  void map(std::uint64_t shadow) {
    group_.reset();
    group_ = std::move(*NvfsGroup::open(opened_, range(), shadow));
  }
  GpuRange range() { return {reinterpret_cast<std::uintptr_t>(memory_), kMemoryBytes, 0}; }
  NvfsRequest request(Op op, std::uint64_t file_offset, std::uint64_t gpu_offset, std::uint64_t size) {
    return {op, NvfsFile::of(direct_, file_->facts()), file_offset, gpu_offset, size};
  }
  bool is_read(std::uint64_t file_offset, std::uint64_t gpu_offset, std::uint64_t size) {
    return std::memcmp(memory_ + gpu_offset, content_.data() + file_offset, size) == 0;
  }

  std::unique_ptr<NvfsGroup> group_;
};

TEST_F(NvfsGroupTest, MovesBytesBothWaysAndTellsHowMany) {
  const NvfsAnswer answer = group_->run(request(Op::read, 8192, 4096, 12288));
  EXPECT_TRUE(answer.status.ok());
  EXPECT_EQ(answer.bytes, 12288u);
  EXPECT_EQ(answer.hole_count, 0u);
  EXPECT_TRUE(is_read(8192, 4096, 12288));
  fill_memory('w');
  EXPECT_EQ(group_->run(request(Op::write, 4096, kPage, kPage)).bytes, kPage);
  EXPECT_EQ(std::memcmp(file_content().data() + 4096, memory_ + kPage, kPage), 0);
}

TEST_F(NvfsGroupTest, WhatCannotBeAskedNeverReachesTheModule) {
  const std::uint64_t end = kMemoryBytes;
  const NvfsRequest refused[] = {request(Op::read, 0, 0, 0),           // Nothing.
                                 request(Op::read, 512, 0, kBlock),    // File offset is not block-aligned.
                                 request(Op::read, 0, 100, kBlock),    // Memory offset is not block-aligned.
                                 request(Op::read, 0, 0, 100),         // Size is not a multiple of a block.
                                 request(Op::read, 0, 0, 2 * kPage),   // Larger than the shadow buffer.
                                 request(Op::read, 0, kBlock, kPage),  // Crosses a GPU page that it begins within.
                                 request(Op::read, 0, end, kBlock),    // Past the end of the memory.
                                 request(Op::read, 0, end - kBlock, kPage),
                                 request(Op::read, 0, 0, end + kPage),
                                 request(Op::write, UINT64_MAX - kBlock + 1, 0, kBlock),  // File offset overflows.
                                 {Op::read, {.fd = direct_, .inode = 0}, 0, 0, kBlock},
                                 {Op::read, {.fd = -1, .inode = 7}, 0, 0, kBlock}};
  for (const NvfsRequest& one : refused) EXPECT_TRUE(group_->run(one).status.is(Code::invalid_argument));
  EXPECT_TRUE(module_->requests.empty());
  EXPECT_TRUE(group_->run(request(Op::read, 0, 0, kPage)).status.ok());
}

TEST_F(NvfsGroupTest, OnlyWholePagesAndShadowsThatTheModuleTakesAreMapped) {
  const unsigned before = module_->maps_made;
  const auto refuses = [&](const GpuRange& range, std::uint64_t shadow) {
    return NvfsGroup::open(opened_, range, shadow).status().is(Code::invalid_argument);
  };
  const GpuRange whole = range();
  EXPECT_TRUE(refuses({whole.address + 512, whole.bytes, 0}, kPage));
  EXPECT_TRUE(refuses({whole.address, whole.bytes - 512, 0}, kPage));
  EXPECT_TRUE(refuses({whole.address, 0, 0}, kPage));
  EXPECT_TRUE(refuses({whole.address, std::uint64_t{1} << 63, 0}, kPage));
  EXPECT_TRUE(refuses({0, whole.bytes, 0}, kPage));
  EXPECT_TRUE(refuses({UINT64_MAX - kPage + 1, 2 * kPage, 0}, kPage));
  for (const std::uint64_t shadow : {std::uint64_t{0}, kBlock, kPage + kBlock, nvfs::kShadowMax + kPage}) {
    EXPECT_TRUE(refuses(whole, shadow)) << shadow;
  }
  EXPECT_EQ(module_->maps_made, before);
}

TEST_F(NvfsGroupTest, PiecesEndWithTheGpuPageThatTheyDoNotBegin) {
  map(2 * kPage);
  EXPECT_EQ(group_->fit(0, 10 * kPage), 2 * kPage);
  EXPECT_EQ(group_->fit(kPage, kBlock), kBlock);
  EXPECT_EQ(group_->fit(kBlock, 10 * kPage), kPage - kBlock);
  EXPECT_EQ(group_->fit(3 * kPage - kBlock, 10 * kPage), kBlock);
}

TEST_F(NvfsGroupTest, ASecondRequestFailsHereAndTheFirstIsNotHarmed) {
  Status second;
  module_->drive = [&] { second = group_->run(request(Op::read, 0, 0, kBlock)).status; };
  const NvfsAnswer first = group_->run(request(Op::read, 0, 0, kPage));
  EXPECT_TRUE(second.is_errno(EBUSY));
  EXPECT_EQ(first.bytes, kPage);
  EXPECT_TRUE(is_read(0, 0, kPage));
  EXPECT_EQ(module_->requests.size(), 1u);
  EXPECT_FALSE(group_->is_broken());
}

TEST_F(NvfsGroupTest, ErrorsAreTheModulesOwnAndMostLeaveItReady) {
  for (const int error : {EIO, ESTALE, ENOSPC, EBADF}) {
    module_->faults.push_back({nvfs::kRead, error});
    const NvfsRequest one = request(Op::read, 0, 0, kBlock);
    EXPECT_TRUE(group_->run(one).status.is_errno(error));
    EXPECT_FALSE(group_->is_broken());
    EXPECT_TRUE(group_->run(one).status.ok());
  }
}

// The call returns 0 bytes, although the file has changed.
TEST_F(NvfsGroupTest, AWriteThatTheFileSystemFinishedByItselfIsNotTakenForMoved) {
  module_->is_hooked = [](std::uint64_t) { return false; };
  fill_memory('w');
  const NvfsAnswer answer = group_->run(request(Op::write, 0, 0, kPage));
  EXPECT_NE(file_content().compare(0, kPage, std::string(memory_, kPage)), 0) << "it has the shadow buffer's bytes";
  EXPECT_TRUE(answer.status.ok());
  EXPECT_EQ(answer.bytes, 0u);
}

TEST_F(NvfsGroupTest, WhatLeavesTheModuleInDoubtBreaksIt) {
  const std::pair<int, int> cases[] = {{EBUSY, EBUSY}, {EINVAL, EINVAL}, {512, EINTR},  {513, EINTR},
                                       {514, EINTR},   {516, EINTR},     {5000, EPROTO}};
  for (const auto& [reported, expected] : cases) {
    map(kPage);
    module_->faults.push_back({nvfs::kRead, reported});
    EXPECT_TRUE(group_->run(request(Op::read, 0, 0, kBlock)).status.is_errno(expected)) << reported;
    EXPECT_TRUE(group_->is_broken());
    const std::size_t asked = module_->requests.size();
    EXPECT_TRUE(group_->run(request(Op::read, 0, 0, kBlock)).status.is_errno(EBUSY));
    EXPECT_EQ(module_->requests.size(), asked);
  }
}

TEST_F(NvfsGroupTest, AMapThatFailsIsMadeOnceAndCounted) {
  group_.reset();
  module_->map_error = ENOMEM;
  for (unsigned i = 0; i < NvfsModule::kFailedMapsMax + 3; ++i) {
    EXPECT_TRUE(NvfsGroup::open(opened_, range(), kPage).status().is_errno(ENOMEM));
  }
  EXPECT_EQ(module_->maps_made, NvfsModule::kFailedMapsMax + 1);  // Plus the one that succeeded.
  EXPECT_EQ(module_->mappings, 0u);
}

// ---- Answers that are not as we know them --------------------------------------------------------------------------

struct Nonsense {
  const char* what;
  std::function<void(FakeNvfs&)> begin;
  int error;
};

void break_holes(FakeNvfs& module, std::function<void(nvfs::Fence&)> breaks) {
  module.is_hooked = [](std::uint64_t offset) { return offset != 0; };
  module.scribble = std::move(breaks);
}

TEST_F(NvfsGroupTest, NonsenseOfTheModuleBreaksItAndNoByteIsCalledMoved) {
  using Lie = FakeNvfs::Lie;
  const Nonsense cases[] = {
      {"a larger argument", [](FakeNvfs& module) { module.lie = Lie::larger_argument; }, EMSGSIZE},
      {"an answer where nothing was", [](FakeNvfs& module) { module.lie = Lie::writes_argument; }, EPROTO},
      {"no answer", [](FakeNvfs& module) { module.faults.push_back({.call = nvfs::kRead, .result = -EPERM}); }, EPROTO},
      {"more bytes than asked for",
       [](FakeNvfs& module) { module.faults.push_back({.call = nvfs::kRead, .told_besides = kBlock}); }, EPROTO},
      {"GPU memory that was freed",
       [](FakeNvfs& module) { module.scribble = [](nvfs::Fence& fence) { fence.state = nvfs::kDied; }; }, EFAULT},
      {"too many holes",
       [](FakeNvfs& module) {
         break_holes(module, [](nvfs::Fence& fence) { fence.hole_count = nvfs::kHolesMax + 1; });
       },
       EPROTO},
      {"holes of another version", [](FakeNvfs& module) { break_holes(module, [](nvfs::Fence& f) { ++f.magic; }); },
       EPROTO},
      {"holes of another request",
       [](FakeNvfs& module) { break_holes(module, [](nvfs::Fence& fence) { fence.file_offset += kBlock; }); }, EPROTO},
      {"a hole behind the request",
       [](FakeNvfs& module) { break_holes(module, [](nvfs::Fence& fence) { fence.holes[0].first = 2; }); }, EPROTO}};
  for (const auto& [what, begin, error] : cases) {
    map(kPage);
    begin(*module_);
    const NvfsAnswer answer = group_->run(request(Op::read, 0, 0, 2 * kBlock));
    EXPECT_TRUE(answer.status.is_errno(error)) << what << ": " << describe(answer.status);
    EXPECT_EQ(answer.bytes, 0u) << what;
    EXPECT_TRUE(group_->is_broken()) << what;
    module_->lie = Lie::none;
    module_->scribble = [](nvfs::Fence&) {};
    module_->is_hooked = [](std::uint64_t) { return true; };
  }
}

TEST_F(NvfsGroupTest, AnErrorOfTheCallItselfIsToldAsItIs) {
  module_->faults.push_back({.call = nvfs::kRead, .result = -ENOTTY});
  EXPECT_TRUE(group_->run(request(Op::read, 0, 0, kBlock)).status.is_errno(ENOTTY));
  EXPECT_FALSE(group_->is_broken());
}

TEST_F(NvfsGroupTest, EachFieldOfTheFenceThatARefusalWritesIsFoundOut) {
  void (*const writes[])(nvfs::Fence&) = {[](nvfs::Fence& fence) { fence.ticket = 1; },
                                          [](nvfs::Fence& fence) { fence.result = -1; },
                                          [](nvfs::Fence& fence) { fence.state = nvfs::kSparse; }};
  for (const auto& write : writes) {
    map(kPage);
    module_->scribble = write;
    EXPECT_EQ(group_->provoke(NvfsMisfit::offset, NvfsFile::of(direct_, file_->facts())), EPROTO);
    EXPECT_TRUE(group_->is_broken());
  }
}

TEST_F(NvfsGroupTest, NothingIsProvokedBesideARequest) {
  int error = 0;
  const NvfsFile file = NvfsFile::of(direct_, file_->facts());
  module_->drive = [&] { error = group_->provoke(NvfsMisfit::offset, file); };
  EXPECT_EQ(group_->run(request(Op::read, 0, 0, kBlock)).bytes, kBlock);
  EXPECT_EQ(error, EBUSY);
}

TEST_F(NvfsGroupTest, AMapThatIsAnsweredByNonsenseIsToldByItsCall) {
  struct Case {
    FakeNvfs::Lie lie;
    FakeNvfs::Fault fault;
    int error;
  };
  const Case cases[] = {{FakeNvfs::Lie::none, {nvfs::kMap, EIO}, EIO},
                        {FakeNvfs::Lie::moved_error, {nvfs::kMap, EIO}, EPERM},
                        {FakeNvfs::Lie::none, {nvfs::kMap, 5000}, EPERM},
                        {FakeNvfs::Lie::none, {.call = nvfs::kMap, .error = EIO, .result = -ENOTTY}, ENOTTY}};
  for (const auto& [lie, fault, error] : cases) {
    module_->lie = lie;
    module_->faults.push_back(fault);
    const Status status = NvfsGroup::open(opened_, range(), kPage).status();
    EXPECT_TRUE(status.is_errno(error)) << describe(status);
  }
  EXPECT_EQ(module_->mappings, 1u) << "the first alone";
}

// ---- Refusals of the system ----------------------------------------------------------------------------------------

TEST_F(NvfsGroupTest, WhatTheSystemRefusesWhileItOpensLeavesNothingMapped) {
  module_->shadow_error = ENOMEM;
  EXPECT_TRUE(NvfsGroup::open(opened_, range(), kPage).status().is_errno(ENOMEM));
  module_->shadow_error = 0;
  EXPECT_EQ(module_->mappings, 1u);
  const auto opens_without = [&](long call, int error) {
    Proof why_not;
    const auto own = NvfsModule::open(module_, NvfsUse::stand_in, why_not);  // The parent's serves no child.
    if (own == nullptr || !forbid_calls({call}, error)) return kFiltersRefused;
    const Status status = NvfsGroup::open(own, range(), kPage).status();
    return status.is(Code::out_of_memory) || status.is_errno(error) ? 0 : 1;
  };
  EXPECT_EQ(in_child([&] { return opens_without(SYS_mmap, ENOMEM); }), 0);
  EXPECT_EQ(in_child([&] { return opens_without(SYS_mprotect, EACCES); }), 0);
}

TEST_F(NvfsGroupTest, AForkedChildMapsNothing) {
  EXPECT_EQ(in_child([&] { return NvfsGroup::open(opened_, range(), kPage).status().code; }), ECHILD);
}

TEST_F(NvfsGroupTest, AFileIsKnownByTheNumbersOfItsDrive) {
  FileFacts drive{.type = FileType::block_device, .inode = 5};
  drive.block_device = makedev(259, 3);
  EXPECT_EQ(NvfsFile::of(7, drive).device_major, 259u);
  EXPECT_EQ(NvfsFile::of(7, drive).device_minor, 3u);
  EXPECT_EQ(NvfsFile::of(direct_)->inode, file_->facts().inode);
  EXPECT_TRUE(NvfsFile::of(-1).status().is_errno(EBADF));
}

// ---- Holes ---------------------------------------------------------------------------------------------------------

TEST_F(NvfsGroupTest, BlocksThatDidNotGoByDmaAreToldWithTheirBytes) {
  module_->is_hooked = [](std::uint64_t offset) { return offset / kBlock % 2 == 0; };
  fill_memory('x');
  const std::string before(memory_ + kBlock, kPage - kBlock);
  const NvfsAnswer answer = group_->run(request(Op::read, 0, kBlock, 6 * kBlock));
  ASSERT_TRUE(answer.status.ok());
  EXPECT_EQ(answer.bytes, 6 * kBlock);
  ASSERT_EQ(answer.hole_count, 3u);
  EXPECT_EQ(answer.hole_bytes, 3 * kBlock);
  for (unsigned i = 0; i < 3; ++i) {
    const NvfsHole hole = group_->hole(i);
    EXPECT_EQ(hole.offset, (2 * i + 1) * kBlock);
    EXPECT_EQ(std::memcmp(hole.seen, content_.data() + hole.offset, kBlock), 0);
    EXPECT_EQ(std::memcmp(memory_ + kBlock + hole.offset, before.data() + hole.offset, kBlock), 0) << "not touched";
  }
  module_->is_hooked = [](std::uint64_t) { return true; };
  EXPECT_EQ(group_->run(request(Op::read, 0, 0, kPage)).hole_count, 0u) << "what the last one left was cleared";
}

// A hook that was lost within a page left half of it in the shadow buffer, and told no hole.
TEST_F(NvfsGroupTest, APageOfSmallBlocksIsHookedAsAWhole) {
  module_->block_size = kBlock / 4;
  module_->is_hooked = [left = 2](std::uint64_t) mutable { return left-- > 0; };
  fill_memory('x');
  const NvfsAnswer answer = group_->run(request(Op::read, 0, 0, 3 * kBlock));
  ASSERT_TRUE(answer.status.ok());
  ASSERT_EQ(answer.hole_count, 1u);
  const NvfsHole hole = group_->hole(0);
  EXPECT_EQ(hole.offset, 2 * kBlock);
  EXPECT_EQ(std::memcmp(hole.seen, content_.data() + hole.offset, kBlock), 0);
  EXPECT_EQ(std::memcmp(memory_, content_.data(), hole.offset), 0) << "the rest went by DMA";
}

TEST_F(NvfsGroupTest, AFileThatTheModuleKnowsByOtherNumbersIsStale) {
  NvfsRequest one = request(Op::read, 0, 0, kBlock);
  one.file.inode += 1;
  EXPECT_TRUE(group_->run(one).status.is_errno(ESTALE));
  one = request(Op::read, 0, 0, kBlock);
  one.file.device_minor += 1;
  EXPECT_TRUE(group_->run(one).status.is_errno(ESTALE));
  EXPECT_FALSE(group_->is_broken());
}

}  // namespace
}  // namespace penstock::core
