// SPDX-License-Identifier: Apache-2.0

#include "model/cost.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/input.h"

namespace penstock::model {
namespace {

std::vector<Platform> built_in() { return parse_platforms(std::string(platforms_text()), "built in"); }

const CostRow& row(const std::vector<CostRow>& rows, const std::string& platform, bool is_spot, PathModel path) {
  for (const CostRow& one : rows) {
    if (one.platform->name == platform && one.is_spot == is_spot && one.path == path) return one;
  }
  ADD_FAILURE() << "no row of " << platform;
  return rows.front();
}

// One GPU saves all through one Gen4 drive.
CostInput as_published() {
  CostInput input;
  input.job.is_sharded = false;
  input.fleet.drives = 1;
  input.fleet.drive_bytes_per_s = 7e9;
  return input;
}

TEST(Cost, ThePublishedTableComesOut) {
  const std::vector<Platform> platforms = built_in();
  const std::vector<CostRow> rows = cost_rows(platforms, as_published(), Constants());

  const CostRow& host = row(rows, "spheron-h100", false, PathModel::kPoor);
  EXPECT_NEAR(host.node_hour, 32.48, 1e-9);
  EXPECT_NEAR(host.compute, 5457, 1);
  EXPECT_NEAR(host.waiting_hours, 67, 0.7);
  EXPECT_NEAR(host.waiting, 2176, 22);
  const CostRow& direct = row(rows, "spheron-h100", false, PathModel::kDirect);
  EXPECT_NEAR(direct.waiting_hours, 9.4, 0.2);
  EXPECT_NEAR(direct.waiting, 305, 6);
  const CostRow& other = row(rows, "aws-p5.48xlarge", false, PathModel::kPoor);
  EXPECT_NEAR(other.node_hour, 55.04, 1e-9);
  EXPECT_NEAR(other.compute, 9247, 1);
  EXPECT_NEAR(other.waiting, 3688, 37);
}

TEST(Cost, SpotPricesMakeItCheaperInProportion) {
  const std::vector<Platform> platforms = built_in();
  const std::vector<CostRow> rows = cost_rows(platforms, {}, Constants());
  EXPECT_NEAR(row(rows, "spheron-h100", true, PathModel::kPoor).waiting /
                  row(rows, "spheron-h100", false, PathModel::kPoor).waiting,
              1.43 / 4.06, 1e-9);
}

TEST(Cost, WithoutDrivesOrPricesThereAreNoSuchRows) {
  const std::vector<Platform> platforms = built_in();
  for (const CostRow& one : cost_rows(platforms, {}, Constants())) EXPECT_NE(one.platform->name, "gcp-a3-mega");
  Platform bare = platforms.back();
  bare.on_demand = 5;
  const std::vector<Platform> priced = {bare};
  const std::vector<CostRow> rows = cost_rows(priced, {}, Constants());
  ASSERT_EQ(rows.size(), 2u);
  for (const CostRow& one : rows) EXPECT_NE(one.path, PathModel::kDirect);
}

TEST(Cost, ARateCostsWhatTheNodesDoDividedByIt) {
  const std::vector<Platform> platforms = built_in();
  CostInput input;
  input.fleet.nodes = 2;
  const std::vector<CostRow> rows = cost_rows(platforms, input, Constants());
  const CostRow& direct = row(rows, "spheron-h100", false, PathModel::kDirect);
  EXPECT_NEAR(direct.rate_hour, 2 * 32.48 / (140 / direct.save_s), 1e-9);
  EXPECT_GT(row(rows, "spheron-h100", false, PathModel::kPoor).rate_hour, direct.rate_hour);
}

TEST(Cost, TheSetUpHasPaidWhenItsSavesHaveSavedItsPrice) {
  const std::vector<Platform> platforms = built_in();
  const CostInput input = as_published();
  const std::vector<CostRow> rows = cost_rows(platforms, input, Constants());
  const CostRow& host = row(rows, "spheron-h100", false, PathModel::kPoor);
  const CostRow& good = row(rows, "spheron-h100", false, PathModel::kBounce);
  const CostRow& direct = row(rows, "spheron-h100", false, PathModel::kDirect);
  const double saves = break_even_saves(host, direct, input);
  EXPECT_NEAR(saves * (host.save_s - direct.save_s) / 3600 * direct.node_hour, 2 * 32.48, 1e-6);
  EXPECT_TRUE(std::isinf(break_even_saves(good, direct, input)));  // A good host path is as fast on one drive.
}

TEST(Cost, TimeIsRoundedUpToWhatIsBilled) {
  std::vector<Platform> platforms = built_in();
  platforms.resize(1);
  platforms[0].billing_s = 3600;
  CostInput input;
  input.hours = 1.01;
  EXPECT_NEAR(cost_rows(platforms, input, Constants())[0].compute, 2 * 32.48, 1e-9);
}

TEST(Cost, BadInputsAreRefused) {
  for (const double bad : {0.0, -1.0, std::nan(""), 1e30}) {
    CostInput input;
    input.job.bytes = bad;
    EXPECT_THROW(cost_report(built_in(), input, Constants()), InvalidInput) << bad;
    input = {};
    input.hours = bad;
    EXPECT_THROW(cost_report(built_in(), input, Constants()), InvalidInput) << bad;
  }
}

}  // namespace
}  // namespace penstock::model
