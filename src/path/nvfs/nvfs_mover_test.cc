// SPDX-License-Identifier: Apache-2.0

// How a self-test's bytes go by nvidia-fs, and what is told where they do not.
#include "path/nvfs/nvfs_mover.h"

#include <functional>

#include "fakes/fake_gpu.h"
#include "fakes/nvfs_fixture.h"
#include "path/nvfs/nvfs_reasons.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kBlock = nvfs::kBlock;

class NvfsMoverTest : public OpenedNvfsTest {
 protected:
  std::byte* memory() { return reinterpret_cast<std::byte*>(memory_); }

  bool is_interface_known_ = true;
};

TEST_F(NvfsMoverTest, MemoryThatNoDeviceHasOrOfWhichOthersMayHaveAPartIsNotMapped) {
  NvfsMover mover(opened_, *devices_, is_interface_known_);
  std::byte host[64];
  EXPECT_EQ(mover.prepare(host).reason, nvfs_reason::memory);
  FakeGpu gpu;
  NvfsMover of_gpu(opened_, gpu, is_interface_known_);
  EXPECT_EQ(of_gpu.prepare(static_cast<std::byte*>(*gpu.allocate(1000))).reason, nvfs_reason::memory);
  EXPECT_EQ(module_->maps_made, 0u);
}

struct Case {
  const char* what;
  std::function<void(FakeNvfs&)> begin;
  Op op;
  std::uint64_t offset;
  Reason reason;
  int error;
};

TEST_F(NvfsMoverTest, EachRefusalIsToldByItsReason) {
  const auto none = [](FakeNvfs&) {};
  const Case cases[] = {
      {"no map", [](FakeNvfs& module) { module.map_error = ENOMEM; }, Op::read, 0, nvfs_reason::map_refused, ENOMEM},
      {"half a block", none, Op::read, 512, nvfs_reason::refused, EINVAL},
      {"other numbers",
       [](FakeNvfs& module) {
         module.faults.push_back({nvfs::kRead, ESTALE});
       },
       Op::read, 0, nvfs_reason::identity, 0},
      {"a hole", [](FakeNvfs& module) { module.is_hooked = [](std::uint64_t) { return false; }; }, Op::read, 0,
       nvfs_reason::not_direct, 0},
      {"a write by nobody", [](FakeNvfs& module) { module.is_hooked = [](std::uint64_t) { return false; }; }, Op::write,
       0, nvfs_reason::not_direct, 0}};
  for (const auto& [what, begin, op, offset, reason, error] : cases) {
    NvfsMover mover(opened_, *devices_, is_interface_known_);
    ASSERT_EQ(mover.prepare(memory()).reason, Reason::none);
    begin(*module_);
    const Result<std::size_t> moved = mover.move(op, direct_, memory(), 2 * kBlock, offset);
    ASSERT_FALSE(moved.ok()) << what;
    EXPECT_EQ(mover.proof_of(moved.status()).reason, reason) << what;
    EXPECT_EQ(mover.proof_of(moved.status()).error, error) << what;
    module_->map_error = 0;
    module_->is_hooked = [](std::uint64_t) { return true; };
  }
  NvfsMover mover(opened_, *devices_, is_interface_known_);
  EXPECT_EQ(mover.proof_of(failure(Code::device_lost, "")).error, EFAULT) << "an error without a number";
}

TEST_F(NvfsMoverTest, ADescriptorOfNoFileIsRefused) {
  NvfsMover mover(opened_, *devices_, is_interface_known_);
  ASSERT_EQ(mover.prepare(memory()).reason, Reason::none);
  EXPECT_TRUE(mover.move(Op::read, -1, memory(), kBlock, 0).status().is_errno(EBADF));
}

TEST_F(NvfsMoverTest, AShortTransferEndsTheMoveAndWhatIsNotCountedIsToldWhereThereAreCounts) {
  NvfsMover mover(opened_, *devices_, is_interface_known_);
  ASSERT_EQ(mover.prepare(memory()).reason, Reason::none);
  module_->faults.push_back({nvfs::kRead, 0, kBlock});
  EXPECT_EQ(*mover.move(Op::read, direct_, memory(), 4 * kBlock, 0), kBlock);
  EXPECT_EQ(mover.look_back().reason, Reason::none);
  module_->counts_grow = false;
  EXPECT_EQ(*mover.move(Op::read, direct_, memory(), kBlock, 0), kBlock);
  EXPECT_EQ(mover.look_back().reason, nvfs_reason::not_counted);
  module_->counts = false;
  EXPECT_EQ(*mover.move(Op::read, direct_, memory(), kBlock, 0), kBlock);
  EXPECT_EQ(mover.look_back().reason, Reason::none) << "the module counts nothing";
}

}  // namespace
}  // namespace penstock::core
