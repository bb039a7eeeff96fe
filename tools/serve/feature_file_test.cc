// SPDX-License-Identifier: Apache-2.0

#include "tools/serve/feature_file.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace penstock::tools {
namespace {

using std::chrono::system_clock;

NodeFacts some_facts() {
  NodeFacts facts;
  facts.paths = {{PENSTOCK_PATH_P2PDMA, {facts::need("peer_unseen", facts::State::fail, "", "Mount one.")}},
                 {PENSTOCK_PATH_BOUNCE, {}}};
  return facts;
}

TEST(FeatureFileTest, PathsAndNvidiaFsAreFeaturesThatExpire) {
  NodeFacts facts = some_facts();
  facts.iommu = core::IommuMode::translating;
  facts.nvidia_fs = {.is_loaded = true, .version = "2.28", .storage_drivers = {"nvme"}};

  const std::string text = feature_file_text(facts, system_clock::from_time_t(1'800'000'000));

  EXPECT_TRUE(text.starts_with("# +expiry-time=2027-01-15T08:00:00Z\n")) << text;
  EXPECT_NE(text.find("\nfeature.node.kubernetes.io/penstock-path-p2pdma=false\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nfeature.node.kubernetes.io/penstock-path-bounce=true\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nfeature.node.kubernetes.io/penstock-iommu=translating\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nfeature.node.kubernetes.io/penstock-nvidia-fs=true\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nfeature.node.kubernetes.io/penstock-nvidia-fs-nvme=true\n"), std::string::npos) << text;
}

TEST(FeatureFileTest, ValuesAreMadeFitForLabels) {
  EXPECT_EQ(label_value("0.1.0"), "0.1.0");
  EXPECT_EQ(label_value("a b/c\n=d\xff"), "a_b_c__d");
  EXPECT_EQ(label_value("--x.-"), "x");
  EXPECT_EQ(label_value(" \n"), "");
  EXPECT_EQ(label_value(std::string(100, 'x')).size(), 63u);
}

TEST(FeatureFileTest, WhatDriversAreCalledCanAddNoLine) {
  NodeFacts facts = some_facts();
  facts.nvidia_fs.storage_drivers = {"a=b\n# +no-label", "", "////", std::string(500, 'y')};
  for (int i = 0; i < 1000; ++i) facts.nvidia_fs.storage_drivers.push_back("driver" + std::to_string(i));

  const std::string text = feature_file_text(facts, system_clock::from_time_t(0));

  EXPECT_LT(text.size(), 4096u);
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    EXPECT_TRUE(line.starts_with("feature.node.kubernetes.io/penstock-")) << line;
    const std::size_t equals = line.find('=');
    ASSERT_NE(equals, std::string::npos) << line;
    const std::string value = line.substr(equals + 1),
                      name = line.substr(line.find('/') + 1, equals - line.find('/') - 1);
    EXPECT_EQ(value, label_value(value));
    EXPECT_EQ(name, label_value(name));
  }
}

}  // namespace
}  // namespace penstock::tools
