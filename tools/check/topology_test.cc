// SPDX-License-Identifier: Apache-2.0

#include <nlohmann/json.hpp>

#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

class TopologyTool : public Tool {
 protected:
  static std::string machine(const char* name) { return std::string(PENSTOCK_MACHINES) + name; }
};

TEST_F(TopologyTool, OfACapturedMachineTheTreeTheDistancesAndThePlanAreShown) {
  const Finished done = run({"topology", "--root", machine("dgx-h100")});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  for (const char* part : {"NUMA node 0\n", "  host bridge pci", "switch 0000:", "GPU    0000:", "drive  ", "How far: ",
                           "reads from", "PENSTOCK_PLACEMENT=", "node:0", "In all ", "By a model of links"}) {
    EXPECT_NE(done.out.find(part), std::string::npos) << part << "\n" << done.out;
  }
}

TEST_F(TopologyTool, ProgramsAreToldTheSameAsCheckSaysOfDrivesAndGpus) {
  const auto told = nlohmann::json::parse(run({"topology", "--json", "--root", machine("dgx-h100")}).out);
  const auto checked = nlohmann::json::parse(run({"check", "--json", "--root", machine("dgx-h100")}).out);
  std::size_t compared = 0;
  for (const auto& row : checked["placement"]) {
    for (const auto& mine : told["distances"]) {
      if (mine["from"] != row["drive"] || mine["gpu"] != row["gpu"]) continue;
      EXPECT_EQ(mine["relation"], row["relation"]) << mine;
      ++compared;
    }
  }
  EXPECT_EQ(compared, checked["placement"].size());
  EXPECT_GT(compared, 0u);
}

TEST_F(TopologyTool, EveryCapturedMachineHasAPlanOrASentence) {
  for (const auto& entry : fs::directory_iterator(PENSTOCK_MACHINES)) {
    if (!entry.is_directory()) continue;
    const Finished done = run({"topology", "--json", "--root", entry.path()});
    ASSERT_TRUE(done.exit_code == 0 || done.exit_code == 77) << entry.path() << done.err;
    const auto told = nlohmann::json::parse(done.out, nullptr, false);
    ASSERT_FALSE(told.is_discarded()) << entry.path();
    EXPECT_EQ(told["devices"].empty(), done.exit_code == 77) << entry.path();
    EXPECT_NE(told["plan"].contains("not_made"), told["plan"].contains("reads")) << entry.path();
  }
}

TEST_F(TopologyTool, ThisMachineIsLookedAt) {
  const Finished done = run({"topology"});
  EXPECT_TRUE(done.exit_code == 0 || done.exit_code == 77) << done.err;
  EXPECT_EQ(run({"topology", "--root", "nowhere"}).exit_code, 2);
}

}  // namespace
}  // namespace penstock::tools
