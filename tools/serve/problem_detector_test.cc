// SPDX-License-Identifier: Apache-2.0

#include "tools/serve/problem_detector.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::tools {
namespace {

NodeFacts some_facts() {
  NodeFacts facts;
  facts.paths = {{"p2pdma", false, "kernel_no_p2pdma", "Take another kernel."}, {"bounce", true, "none", ""}};
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

TEST(ProblemDetectorTest, APathThatIsNoneIsUnknown) {
  const Diagnosis diagnosis = diagnose(some_facts(), "teleport");

  EXPECT_EQ(diagnosis.exit_code, 2);
  EXPECT_EQ(diagnosis.line, "there is no path 'teleport'");
}

TEST(ProblemDetectorTest, NoLineIsLongerThanThePluginsMayBe) {
  NodeFacts facts = some_facts();
  facts.paths[0].reason = std::string(200, 'x') + "\n";

  EXPECT_EQ(diagnose(facts, "p2pdma").line.size(), 80u);
  EXPECT_EQ(diagnose(facts, std::string(300, '\n')).line.size(), 80u);
}

}  // namespace
}  // namespace penstock::tools
