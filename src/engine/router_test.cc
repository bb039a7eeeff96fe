// SPDX-License-Identifier: Apache-2.0

#include "engine/router.h"

#include "fakes/nvfs_fixture.h"

namespace penstock::core {
namespace {

class RouterTest : public NvfsTest {
 protected:
  Report choose(bool memory_is_staging) {
    Flight flight;
    flight.request.op = Op::read;
    flight.request.file = file_.get();
    flight.request.facts = facts();
    flight.memory_is_staging = memory_is_staging;
    EXPECT_TRUE(router_->choose(flight).ok());
    return flight.report;
  }
  void SetUp() override {
    NvfsTest::SetUp();
    if (IsSkipped()) return;
    rules_.paths = {PathId::nvfs, PathId::bounce};
    settings_.nvfs = NvfsUse::stand_in;
    settings_.nvfs_kernel = module_;
    router_ = std::make_unique<Router>(rules_, PathEnvironment{storage_, *devices_, settings_});
  }
  void TearDown() override {
    router_.reset();
    NvfsTest::TearDown();
  }

  EngineRules rules_;
  PathSettings settings_;
  std::unique_ptr<Router> router_;
};

// A self-test would free memory of the device, which waits for all streams, also for the one that waits for it.
TEST_F(RouterTest, AStreamsRequestHasNoPathTestedThatItCannotUse) {
  const Report report = choose(true);

  EXPECT_EQ(report.path, PathId::bounce);
  EXPECT_EQ(report.refused, static_cast<int>(PathId::nvfs));
  EXPECT_EQ(report.reason, Reason::on_stream);
  EXPECT_EQ(module_->maps_made.load(), 0u);
  EXPECT_EQ(choose(false).path, PathId::nvfs);
  EXPECT_GT(module_->maps_made.load(), 0u);
}

}  // namespace
}  // namespace penstock::core
