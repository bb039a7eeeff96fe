// SPDX-License-Identifier: Apache-2.0

#include "path/nvfs/nvfs_interface.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "fakes/nvfs_fixture.h"

namespace penstock::core {
namespace {

using Lie = FakeNvfs::Lie;

struct NvfsLie {
  Lie lie;
  Reason reason;
  int detail;
};

// The module as NVIDIA's: its version is none of a stand-in, and the device's memory is of an NVIDIA GPU.
class NvfsInterfaceTest : public NvfsTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    use_ = NvfsUse::on;
    module_->version = GetParam();
    NvfsTest::SetUp();
    if (IsSkipped()) return;
    const_cast<DeviceFacts&>(device_->facts()).is_nvidia = true;
  }
  void be_lied_to(Lie lie) {
    module_->lie = lie;
    module_->requests.clear();
    make_path();
  }
};

TEST_P(NvfsInterfaceTest, IsServedWhereItBehavesAsKnownVersionsDo) {
  EXPECT_TRUE(judge().usable) << reason_text(judge().reason).name;
  EXPECT_TRUE(judge(Op::write).usable);
  EXPECT_EQ(module_->mappings, 0u) << "the canary was thrown away";
  be_tested();
  EXPECT_EQ(run(Op::read, 0, 65536).bytes, 65536u);
  EXPECT_EQ(std::memcmp(memory_, content_.data(), 65536), 0);
}

TEST_P(NvfsInterfaceTest, IsTestedOnce) {
  ASSERT_TRUE(judge().usable);
  ASSERT_TRUE(judge(Op::write).usable);
  std::size_t refusals = 0;
  for (const auto& request : module_->requests) refusals += request.size % 4096 != 0 ? 1 : 0;
  EXPECT_EQ(refusals, 1u);
}

TEST_P(NvfsInterfaceTest, EachLieClosesThePathByItsNameAndNoByteIsDelivered) {
  module_->is_hooked = [this](std::uint64_t) { return module_->lie != Lie::hides_holes; };
  const NvfsLie lies[] = {{Lie::larger_argument, nvfs_reason::argument_size, 0},
                          {Lie::larger_answer, nvfs_reason::argument_size, 0},
                          {Lie::moved_error, nvfs_reason::argument_layout, 0},
                          {Lie::writes_argument, nvfs_reason::argument_layout, 0},
                          {Lie::writes_map, nvfs_reason::argument_layout, 0},
                          {Lie::writes_fence, nvfs_reason::argument_layout, 0},
                          {Lie::takes_offset, nvfs_reason::takes_offset, 0},
                          {Lie::takes_size, nvfs_reason::takes_size, 0},
                          {Lie::takes_alignment, nvfs_reason::takes_alignment, 0},
                          {Lie::takes_inode, nvfs_reason::takes_inode, 0},
                          {Lie::takes_buffered, nvfs_reason::takes_buffered, 0},
                          {Lie::other_errno, nvfs_reason::takes_inode, EBADF},
                          {Lie::dies_of_refusals, nvfs_reason::takes_buffered, EBUSY},
                          {Lie::moves_refused, nvfs_reason::moves_refused, 0},
                          {Lie::reads_wrong, pipeline_reason::self_test_wrong, 0},
                          {Lie::hides_holes, pipeline_reason::self_test_wrong, 0},
                          {Lie::reads_at_beginning, pipeline_reason::self_test_wrong, 0}};
  fill_memory('u');
  const std::string before(memory_, kMemoryBytes);
  for (const auto& [lie, reason, detail] : lies) {
    be_lied_to(lie);
    for (const Op op : {Op::read, Op::write}) {
      EXPECT_EQ(judge(op).reason, reason) << static_cast<int>(lie) << ' ' << reason_text(judge(op).reason).name;
      EXPECT_EQ(judge(op).detail, detail) << static_cast<int>(lie);
    }
    for (const auto& request : module_->requests) EXPECT_EQ(request.call, nvfs::kRead) << "nothing was written";
    EXPECT_EQ(module_->mappings, 0u);
  }
  EXPECT_TRUE(std::string(memory_, kMemoryBytes) == before);
  EXPECT_TRUE(file_content() == content_);
}

TEST_P(NvfsInterfaceTest, AWriteOfWrongBytesClosesWritesAlone) {
  be_lied_to(Lie::writes_wrong);
  EXPECT_TRUE(judge().usable);
  EXPECT_EQ(judge(Op::write).reason, pipeline_reason::self_test_wrong);
  EXPECT_TRUE(file_content() == content_);
}

TEST_P(NvfsInterfaceTest, AKernelThatItStopsOrMightStopIsNotTried) {
  const bool is_known = module_->version == "2.28.4";
  module_->kernel = "6.12.117+deb12-cloud-amd64";
  make_path();
  EXPECT_EQ(judge().reason, is_known ? pipeline_reason::nvidia_fs_task_switch : Reason::none);
  use_ = NvfsUse::automatic;
  for (const char* kernel : {"6.12.117+deb12-cloud-amd64", "6.14.0-33-generic"}) {
    module_->kernel = kernel;
    make_path();
    EXPECT_EQ(judge().reason, pipeline_reason::nvidia_fs_task_switch) << kernel;
  }
  module_->kernel = "6.8.0-1020-nvidia";
  make_path();
  EXPECT_TRUE(judge().usable);
}

INSTANTIATE_TEST_SUITE_P(Versions, NvfsInterfaceTest, testing::Values("2.28.4", "2.29.4", "2.30.2", "9.99.0"));

// ---- Calls that must never be sent
// ---------------------------------------------------------------------------------------

// The stand-in aborts at each of these, so the other tests would not end if one of them was sent.
class NvfsNeverTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kBytes = 2 * nvfs::kGpuPage;

  NvfsNeverTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  int map(std::uint64_t offset, std::uint32_t blocks) {
    int error = 0;
    if (shadow_ == nullptr) shadow_ = module_.map(0, kBytes, error);
    nvfs::Argument argument;
    argument.put(nvfs::MapArgument{.gpu_bytes = kBytes,
                                   .shadow = reinterpret_cast<std::uintptr_t>(shadow_) + offset,
                                   .gpu_address = reinterpret_cast<std::uintptr_t>(gpu_),
                                   .fence_page = reinterpret_cast<std::uintptr_t>(&fence_),
                                   .shadow_blocks = blocks});
    return module_.control(0, nvfs::kMap, argument);
  }
  FakeNvfs module_;
  std::byte* shadow_ = nullptr;
  alignas(4096) nvfs::Fence fence_{};
  alignas(4096) std::byte gpu_[kBytes] = {};
};

TEST_F(NvfsNeverTest, TheStandInAbortsWhereTheKernelWould) {
  EXPECT_DEATH(map(0, 0), "sbuf_block 0");
  EXPECT_DEATH(map(0, 33), "larger than the mapping");
  EXPECT_DEATH(map(4096, 16), "inside a shadow buffer");
  EXPECT_DEATH((map(0, 32), map(0, 32)), "MAP twice");
  nvfs::Argument argument;
  EXPECT_DEATH(module_.control(0, 0x40047408, argument), "a batch");
  ASSERT_EQ(map(0, 32), 0);
  EXPECT_DEATH(module_.unmap(shadow_, 4096), "partial munmap");
  module_.unmap(shadow_, kBytes);
}

}  // namespace
}  // namespace penstock::core
