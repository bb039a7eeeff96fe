// SPDX-License-Identifier: Apache-2.0

#include "tools/serve/problem_detector.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::tools {
namespace {

NodeFacts some_facts() {
  NodeFacts facts;
  facts.paths = {
      {PENSTOCK_PATH_P2PDMA, {facts::need("kernel_no_p2pdma", facts::State::fail, "", "Take another kernel.")}},
      {PENSTOCK_PATH_BOUNCE, {}}};
  return facts;
}

TEST(ProblemDetectorTest, APathThatIsThereIsNoProblem) {
  const Diagnosis diagnosis = diagnose(some_facts(), "bounce");

  EXPECT_EQ(diagnosis.exit_code, 0);
  EXPECT_EQ(diagnosis.line, "bounce is available");
}

TEST(ProblemDetectorTest, APathThatIsMissingIsAProblemWithAReasonAndARemedy) {
  const Diagnosis diagnosis = diagnose(some_facts(), "p2pdma");

  EXPECT_EQ(diagnosis.exit_code, 1);
  EXPECT_EQ(diagnosis.line, "p2pdma is not available: kernel_no_p2pdma");
  EXPECT_EQ(diagnosis.remedy, "Take another kernel.");
}

TEST(ProblemDetectorTest, APathThatIsOffIsAProblemAndOneThatOnlyATryTellsOfIsUnknown) {
  NodeFacts facts = some_facts();
  facts.paths[0].needs = {facts::switched_off("nvidia_export", "off", "Set it.")};
  EXPECT_EQ(diagnose(facts, "p2pdma").exit_code, 1);
  EXPECT_EQ(diagnose(facts, "p2pdma").line, "p2pdma is off: pointer_not_exportable");

  facts.paths[0].needs = {facts::need("iommu_translating", facts::State::unknown, "bytes may go wrong")};
  EXPECT_EQ(diagnose(facts, "p2pdma").exit_code, 2);
  EXPECT_EQ(diagnose(facts, "p2pdma").line, "p2pdma is unknown: iommu_translating");
}

TEST(ProblemDetectorTest, APathThatIsNoneIsUnknown) {
  const Diagnosis diagnosis = diagnose(some_facts(), "teleport");

  EXPECT_EQ(diagnosis.exit_code, 2);
  EXPECT_EQ(diagnosis.line, "there is no path 'teleport'");
}

TEST(ProblemDetectorTest, NoLineIsLongerThanThePluginsMayBe) {
  NodeFacts facts = some_facts();
  const std::string reason = std::string(200, 'x') + "\n";
  facts.paths[0].needs[0].code = reason.c_str();

  EXPECT_EQ(diagnose(facts, "p2pdma").line.size(), 80u);
  EXPECT_EQ(diagnose(facts, std::string(300, '\n')).line.size(), 80u);
}

}  // namespace
}  // namespace penstock::tools
