// SPDX-License-Identifier: Apache-2.0

// The reasons for the chosen path, in every fixture.
#include <gtest/gtest.h>

#include "contract/fixture.h"
#include "fakes/dmabuf_machine.h"
#include "frontend/dry_run.h"

namespace penstock::core {
namespace {

// What every path says of requests between the file and device memory.
class VerdictTest : public ContractTest {
 protected:
  void SetUp() override {
    ContractTest::SetUp();
    if (IsSkipped()) return;
    memory_ = allocate(4096);
    fd_ = open_fd();
    file_ = register_fd(fd_);
  }
  Verdict verdict(PathId path, Op op = Op::write) {
    Verdict verdicts[kPathCount];
    const Result<unsigned> count = explain(session(), file_, session().devices().describe(memory_), op, verdicts);
    for (unsigned i = 0; count.ok() && i < *count; ++i) {
      if (verdicts[i].path == path) return verdicts[i];
    }
    ADD_FAILURE() << "no verdict of " << path_name(path);
    return {};
  }
  // The obstacle to p2pdma; for a stand-in device only that it is one.
  Reason obstacle() { return device().facts().stand_in ? Reason::stand_in : verdict(PathId::p2pdma).reason; }
  Reason reason_of_ring() const { return fixture().io_uring ? Reason::none : Reason::io_uring_off; }

  std::byte* memory_ = nullptr;
  UniqueFd fd_;
  std::uint64_t file_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Fixtures, VerdictTest, testing::ValuesIn(all_fixtures()), fixture_name);

class BounceVerdictTest : public VerdictTest {};
INSTANTIATE_TEST_SUITE_P(Fixtures, BounceVerdictTest, testing::ValuesIn(bounce_fixtures()), fixture_name);

TEST_P(VerdictTest, ThePathOfThisFixtureServesBothWays) {
  for (const Op op : {Op::read, Op::write}) {
    const Verdict its = verdict(fixture().path, op);
    EXPECT_TRUE(its.usable) << reason_name(its.reason) << " " << its.detail;
  }
}

TEST_P(VerdictTest, EveryPathThatIsTriedByDefaultHasAVerdict) {
  for (const PathRow& row : kPaths) {
    if (!row.traits.by_default()) continue;
    const Verdict its = verdict(row.id);
    EXPECT_STRNE(reason_name(its.reason), "unknown") << row.name;
    EXPECT_TRUE(its.usable || its.reason != Reason::none) << row.name;
  }
}

TEST_P(BounceVerdictTest, EveryPathThatRefusesSaysWhy) {
  EXPECT_FALSE(verdict(PathId::p2pdma).usable);
  EXPECT_EQ(verdict(PathId::p2pdma).reason, obstacle());
  EXPECT_EQ(verdict(PathId::bounce).reason, reason_of_ring());
  EXPECT_EQ(verdict(PathId::host).reason, Reason::device_memory);
}

TEST_P(BounceVerdictTest, ARequestIsReportedAndCountedWithTheReasonForItsPath) {
  const Outcome outcome = write(file_, memory_, 4096, 0);

  EXPECT_EQ(outcome.report.reason, obstacle());
  EXPECT_EQ(outcome.report.refused, static_cast<int>(PathId::p2pdma));
  EXPECT_EQ(outcome.report.path_reason, reason_of_ring());
  EXPECT_EQ(session().counters().total(PathId::bounce, obstacle(), Op::write).bytes, 4096u);
}

class DriveVerdictTest : public VerdictTest {
 protected:
  void adjust(Config& config) override { config.paths.insert(config.paths.begin(), PathId::p2pdma); }
};
INSTANTIATE_TEST_SUITE_P(Fixtures, DriveVerdictTest, testing::ValuesIn(drive_fixtures()), fixture_name);

TEST_P(DriveVerdictTest, ItsBytesAreNotCountedUnderTheRefusalOfAnother) {
  const Outcome outcome = write(file_, memory_, 4096, 0);

  EXPECT_EQ(outcome.report.path, fixture().path);
  EXPECT_EQ(session().counters().total(fixture().path, outcome.report.path_reason, Op::write).bytes, 4096u);
}

TEST_P(DriveVerdictTest, RegisteredMemoryIsReadIntoWhereItIs) {
  set_file_content(std::string(4096, 'x'));
  ASSERT_TRUE(session().register_buffer(memory_, 4096).ok());
  expect_moved(read(file_, memory_, 4096, 0), 4096);
  EXPECT_GT(dmabuf_machine_->requests_in_place(), 0u);
  EXPECT_EQ(download(memory_, 4096), std::string(4096, 'x'));

  ASSERT_TRUE(session().deregister_buffer(memory_).ok());

  const unsigned requests = dmabuf_machine_->requests_in_place();
  expect_moved(read(file_, memory_, 4096, 0), 4096);
  EXPECT_EQ(dmabuf_machine_->requests_in_place(), requests);
}

}  // namespace
}  // namespace penstock::core
