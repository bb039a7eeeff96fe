// SPDX-License-Identifier: Apache-2.0

// Why the bytes go the way they do, in every world.
#include <gtest/gtest.h>

#include "contract/world.h"
#include "frontend/dry_run.h"

namespace penstock::core {
namespace {

// What every path says of a write from device memory.
class VerdictTest : public ContractTest {
 protected:
  void SetUp() override {
    ContractTest::SetUp();
    if (IsSkipped()) return;
    memory_ = allocate(4096);
    fd_ = open_fd();
    file_ = register_fd(fd_);
    const Result<unsigned> count =
        explain(session(), file_, session().devices().describe(memory_), Op::write, verdicts_);
    ASSERT_TRUE(count.ok());
    ASSERT_EQ(*count, 5u);
  }
  // What stands in the way of p2pdma: on a GPU machine whatever it is there.
  Reason obstacle() const { return world().cuda ? verdicts_[0].reason : Reason::stand_in; }
  Reason reason_of_ring() const { return world().io_uring ? Reason::none : Reason::io_uring_off; }

  std::byte* memory_ = nullptr;
  UniqueFd fd_;
  std::uint64_t file_ = 0;
  Verdict verdicts_[kPathCount];
};
INSTANTIATE_TEST_SUITE_P(Worlds, VerdictTest, testing::ValuesIn(all_worlds()), world_name);

TEST_P(VerdictTest, EveryPathThatRefusesSaysWhy) {
  EXPECT_STRNE(reason_name(obstacle()), "unknown");
  EXPECT_FALSE(verdicts_[0].usable);
  EXPECT_EQ(verdicts_[0].reason, obstacle());
  EXPECT_EQ(verdicts_[3].path, PathId::bounce);
  EXPECT_TRUE(verdicts_[3].usable);
  EXPECT_EQ(verdicts_[3].reason, reason_of_ring());
  EXPECT_EQ(verdicts_[4].reason, Reason::device_memory);
}

TEST_P(VerdictTest, ARequestIsReportedAndCountedWithTheReasonForItsPath) {
  const Outcome outcome = write(file_, memory_, 4096, 0);

  EXPECT_EQ(outcome.report.reason, obstacle());
  EXPECT_EQ(outcome.report.refused, static_cast<int>(PathId::p2pdma));
  EXPECT_EQ(outcome.report.path_reason, reason_of_ring());
  EXPECT_EQ(session().counters().total(PathId::bounce, obstacle(), Op::write).bytes, 4096u);
}

}  // namespace
}  // namespace penstock::core
