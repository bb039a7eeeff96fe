// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/timeline_svg.h"

#include <pugixml.hpp>

#include "model/pcie/test_fixture.h"

namespace penstock::model {
namespace {

TEST(Timeline, KeepsWhatItWasGivenWhenTheRunOutgrowsItsBins) {
  Timeline timeline(2);
  for (Picoseconds i = 0; i < 1000; ++i) timeline.add(1, i * 1000000000, 2);

  double sum = 0;
  for (std::size_t bin = 0; bin < Timeline::kBins; ++bin) sum += timeline.at(1, bin);

  EXPECT_DOUBLE_EQ(sum, 2000);
  EXPECT_GE(timeline.bin_seconds() * Timeline::kBins, 0.999);
  EXPECT_EQ(timeline.at(0, 0), 0);
}

TEST(TimelineSvg, IsWellFormedAndShowsEveryStreamWhateverItsName) {
  const Machine machine = plain_machine(2, 2, 14 * kGiga);
  Workload workload;
  workload.streams = {stream_of("nvme0", "gpu0", 16 * kMebibyte), stream_of("nvme1", "gpu1", 16 * kMebibyte)};
  workload.streams[0].name = "<script>\"&\n";
  const Network network = compile(machine, workload);

  const std::string svg = timeline_svg(network, simulate(network, workload), "a & b");

  pugi::xml_document document;
  ASSERT_TRUE(document.load_string(svg.c_str()));
  const pugi::xml_node root = document.child("svg");
  const auto curves = root.children("polyline");
  EXPECT_EQ(std::distance(curves.begin(), curves.end()), 2);
  // The stream's name has the same colour.
  EXPECT_TRUE(root.find_child_by_attribute("text", "fill", "hsl(0,65%,42%)")) << svg;
  EXPECT_STREQ(curves.begin()->child("title").text().as_string(), "<script>\"& ");
}

}  // namespace
}  // namespace penstock::model
