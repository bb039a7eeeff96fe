// SPDX-License-Identifier: Apache-2.0

#include "tools/serve/metrics.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fakes/prometheus_check.h"
#include "stats/layout.h"

namespace penstock::tools {
namespace {

using core::Op;

const ContainerName kPod{"0f3c9a52-7f5c-4d8a-9b1e-2c4d6e8f0a1b", std::string(64, 'a')};

core::StatsSnapshot session(std::uint64_t id, int ways) {
  core::StatsSnapshot snapshot;
  snapshot.id = id;
  snapshot.opened_ns = 1;
  for (int i = 0; i < ways; ++i) snapshot.rows.push_back({"bounce", "reason_" + std::to_string(i), Op::read, 4096, 1});
  return snapshot;
}

NodeFacts facts_of_gpu_node() {
  NodeFacts facts;
  facts.paths = {{PENSTOCK_PATH_P2PDMA, {facts::need("iommu_translating", facts::State::fail, "", "")}},
                 {PENSTOCK_PATH_BOUNCE, {}}};
  facts.gpus = 8;
  facts.driver = {
      .is_loaded = true, .is_open = true, .version_text = "595.45.04", .static_bar1 = 1, .write_combining_off = 0};
  facts.nvidia_fs = {.is_loaded = true, .version = "2.28", .storage_drivers = {"nvme", "lustre"}};
  facts.nvidia_fs_stats = core::nvidia_fs_stats(
      "Reads : ok=12\nWrites : ok=3\nSparse Reads : pages=5\nGPU 0000:3b:00.0 : Registered_MiB=16\n",
      "0000:3b:00.0\t0000:19:00.0\t7\tnvme\n");
  facts.iommu = core::IommuMode::passthrough;
  return facts;
}

// Served pages must be well-formed in both formats, and say the same.
PrometheusPage page_of(const NodeView& node) {
  const std::string open = metrics_text(node, MetricFormat::openmetrics);
  const std::string plain = metrics_text(node, MetricFormat::prometheus);
  PrometheusPage page = parse_openmetrics(open);
  EXPECT_EQ(page.faults, std::vector<std::string>{}) << open;
  EXPECT_EQ(parse_prometheus(plain).faults, std::vector<std::string>{}) << plain;
  EXPECT_EQ(parse_prometheus(plain).values, page.values);
  return page;
}

TEST(NodeMetricsTest, TellsWhatContainersMovedAndWhatTheNodeOffers) {
  const NodeFacts facts = facts_of_gpu_node();
  Totals totals(0);
  totals.begin_look({});
  core::StatsSnapshot moved = session(1, 1);
  moved.histograms.push_back({"bounce", Op::read, std::vector<std::uint64_t>(core::kSizeBuckets),
                              std::vector<std::uint64_t>(core::kLatencyBuckets), 3'000});
  moved.histograms[0].sizes[core::size_bucket(4096)] = 1;
  moved.histograms[0].latencies[core::latency_bucket(3'000)] = 1;
  moved.histograms[0].failures = 1;
  moved.saves = {2, 8192, 1'500'000'000, 0, 0, 0, 0, 3};
  totals.add(kPod, moved);

  const PrometheusPage page = page_of({facts, totals, {.looked_at = 40, .hidden = 2}});

  const std::string way = R"(path="bounce",reason="reason_0",op="read"})";
  const std::string pod = "{pod_uid=\"" + kPod.pod_uid + "\",container_id=\"" + kPod.container_id + "\"";
  EXPECT_EQ(page.values.at("penstock_node_bytes_total{" + way), 4096);
  EXPECT_EQ(page.values.at("penstock_container_bytes_total" + pod + "," + way), 4096);
  EXPECT_EQ(page.values.at("penstock_container_operations_total" + pod + "," + way), 1);
  EXPECT_EQ(page.values.at("penstock_container_sessions" + pod + "}"), 1);
  const std::string request = R"({path="bounce",op="read")";
  EXPECT_EQ(page.values.at("penstock_node_request_bytes_bucket" + request + R"(,le="4095"})"), 0);
  EXPECT_EQ(page.values.at("penstock_node_request_bytes_bucket" + request + R"(,le="16383"})"), 1);
  EXPECT_EQ(page.values.at("penstock_node_request_bytes_sum" + request + "}"), 4096);
  EXPECT_EQ(page.values.at("penstock_node_request_seconds_bucket" + request + R"(,le="1.024e-06"})"), 0);
  EXPECT_EQ(page.values.at("penstock_node_request_seconds_bucket" + request + R"(,le="4.096e-06"})"), 1);
  EXPECT_EQ(page.values.at("penstock_node_request_seconds_sum" + request + "}"), 3e-6);
  EXPECT_EQ(page.values.at("penstock_node_failed_operations_total" + request + "}"), 1);
  EXPECT_EQ(page.values.at("penstock_node_saves_total"), 2);
  EXPECT_EQ(page.values.at("penstock_node_save_bytes_total"), 8192);
  EXPECT_EQ(page.values.at(R"(penstock_node_save_seconds_total{part="stood"})"), 1.5);
  EXPECT_EQ(page.values.at(R"(penstock_node_save_seconds_total{part="flushed"})"), 3e-9);
  EXPECT_EQ(page.values.at(R"(penstock_path_available{path="p2pdma",reason="iommu_translating"})"), 0);
  EXPECT_EQ(page.values.at(R"(penstock_path_available{path="bounce",reason="none"})"), 1);
  EXPECT_EQ(page.values.at("penstock_gpus"), 8);
  EXPECT_EQ(page.values.at(R"(penstock_gpu_driver_info{version="595.45.04",modules="open"})"), 1);
  EXPECT_EQ(page.values.at(R"(penstock_gpu_driver_parameter{name="RmForceDisableIomapWC"})"), 0);
  EXPECT_EQ(page.values.at(R"(penstock_nvidia_fs_storage_driver{driver="lustre"})"), 1);
  EXPECT_EQ(page.values.at(R"(penstock_nvidia_fs_operations_total{op="read"})"), 12);
  EXPECT_EQ(page.values.at(R"(penstock_nvidia_fs_stat{line="Sparse Reads",name="pages"})"), 5);
  EXPECT_EQ(page.values.at(R"(penstock_nvidia_fs_pinned_mebibytes{gpu="0000:3b:00.0",kind="registered"})"), 16);
  EXPECT_EQ(page.values.at(R"(penstock_nvidia_fs_dma_mappings_total{gpu="0000:3b:00.0",peer="0000:19:00.0"})"), 7);
  EXPECT_EQ(page.values.at(R"(penstock_iommu_info{mode="passthrough"})"), 1);
  EXPECT_EQ(page.values.at(R"(penstock_node_processes{state="forbidden"})"), 2);
}

TEST(NodeMetricsTest, ANodeWithNothingHasAPageThatIsWellFormed) {
  const NodeFacts facts;
  const Totals totals(0);

  const PrometheusPage page = page_of({facts, totals, {}});

  EXPECT_EQ(page.values.at("penstock_gpu_driver_loaded"), 0);
  EXPECT_EQ(page.values.at("penstock_nvidia_fs_loaded"), 0);
}

TEST(NodeMetricsTest, WhatOthersNamedCannotBreakThePage) {
  NodeFacts facts = facts_of_gpu_node();
  facts.driver.version_text = "a\"b\\c\nd} 5\xff\x01";
  facts.nvidia_fs.storage_drivers = {"\n# EOF\n", "\xc3"};
  const Totals totals(0);

  EXPECT_EQ(page_of({facts, totals, {}})
                .values.count("penstock_gpu_driver_info{version=\"a\\\"b\\\\c\\nd} 5??\",modules=\"open\"}"),
            1u);
}

TEST(NodeMetricsTest, HoweverManyContainersThereAreThePageIsBounded) {
  const NodeFacts facts = facts_of_gpu_node();
  Totals totals(0);
  totals.begin_look({});
  for (unsigned i = 0; i < 2000; ++i) totals.add({"", std::to_string(i)}, session(i, 60));

  const std::string text = metrics_text({facts, totals, {}}, MetricFormat::openmetrics);

  EXPECT_LT(page_of({facts, totals, {}}).values.size(), 6'000u);
  EXPECT_LT(text.size(), std::size_t{3} << 19);
}

TEST(OpenMetricsCheckTest, TheCheckFindsFaults) {
  const std::string good = "# HELP a_bytes x\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\na_bytes_total 1\n# EOF\n";
  EXPECT_EQ(parse_openmetrics(good).faults, std::vector<std::string>{});
  for (const std::string page :
       {"# HELP a x\n# TYPE a counter\na_total 1\n", "# HELP a x\n# TYPE a counter\na_total 1\n# EOF\na_total 2\n",
        "# HELP a x\n# TYPE a counter\na 1\n# EOF\n",
        "# HELP a_total x\n# TYPE a_total counter\na_total_total 1\n# EOF\n",
        "# HELP a x\n# TYPE a counter\n\na_total 1\n# EOF\n",
        "# HELP a x\n# TYPE a gauge\n# UNIT a bytes\na 1\n# EOF\n", "# note\n# EOF\n",
        "# HELP a x\n# HELP a x\n# TYPE a gauge\na 1\n# EOF\n"}) {
    EXPECT_FALSE(parse_openmetrics(page).faults.empty()) << page;
  }
}

}  // namespace
}  // namespace penstock::tools
