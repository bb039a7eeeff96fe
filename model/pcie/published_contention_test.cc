// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/published_contention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace penstock::model {
namespace {

// Figures that the model cannot reproduce, because each contradicts its own arithmetic; the note says how.
const std::set<std::string> kContradictory = {
    "two streams on one link, each",        "coalesced fences of 500 ns",
    "four-stage pipeline, of its ceiling",  "fences of 1,000 ns, 16 I/Os a stage, add",
    "NIC to GPU loses beside drive to NIC", "GPU 0 and GPU 4 at 128 KiB, each",
    "GPU 0 and GPU 1 at 128 KiB, each"};

TEST(PublishedContention, EveryFigureIsMetWithinATenthOrContradictsItself) {
  const std::vector<PublishedPoint> points = published_contention();
  std::size_t held_out = 0;
  for (const PublishedPoint& point : points) {
    if (kContradictory.count(point.what) != 0) {
      EXPECT_GT(std::abs(point.error()), kPublishedTolerance) << point.what << ": no longer contradictory?";
      EXPECT_NE(point.note, "") << point.what;
    } else {
      EXPECT_LE(std::abs(point.error()), kPublishedTolerance) << point.what << ": " << point.predicted;
    }
    if (!point.is_calibration) ++held_out;
  }
  EXPECT_GE(held_out, points.size() / 2);
}

TEST(PublishedContention, TheErrorOfARangeCountsFromItsNearerEnd) {
  PublishedPoint point{"", "", 100, 200, 150, false, ""};
  EXPECT_EQ(point.error(), 0);
  point.predicted = 90;
  EXPECT_NEAR(point.error(), -0.1, 1e-12);
  point.predicted = 220;
  EXPECT_NEAR(point.error(), 0.1, 1e-12);
}

}  // namespace
}  // namespace penstock::model
