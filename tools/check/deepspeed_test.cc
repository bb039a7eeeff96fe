// SPDX-License-Identifier: Apache-2.0

// What `penstock check --deepspeed` says of configurations, wherever they may run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "tools/check/deepspeed_report.h"

namespace penstock::tools {
namespace {

std::vector<DeepSpeedFinding> findings_on(const std::string& text) {
  DeepSpeedDocument document = parse_deepspeed(text);
  EXPECT_EQ(document.fault, "") << text;
  const DeepSpeedConfig config(std::move(document));
  DeepSpeedFindings findings(config);
  check_deepspeed_keys(config, findings);
  check_deepspeed_rules(config, findings);
  return findings.worst_first();
}

// "error wrong_value aio.block_size", a line each.
std::string told(const std::string& text) {
  std::string lines;
  for (const DeepSpeedFinding& one : findings_on(text)) {
    lines += std::string(severity_name(one.severity)) + " " + one.code + " " + one.key + "\n";
  }
  return lines;
}

// At stage 3, with parameters on a drive from the first element on: what reads use_gds.
std::string with_parameters_offloaded(const std::string& more) {
  return R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/data",
            "max_in_cpu": 0}}, )" +
         more + "}";
}

std::string with_writer(const std::string& writer, int stage = 3) {
  return R"({"zero_optimization": {"stage": )" + std::to_string(stage) + R"(}, "checkpoint": {"writer": )" + writer +
         "}}";
}

std::string read_fixture(const std::string& name) {
  std::ifstream file(std::string(PENSTOCK_SOURCE_DIR "/test/fixtures/deepspeed/") + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// ---- Keys, each by itself.

TEST(DeepSpeedKeysTest, AFileWithAMillionFindingsIsAnsweredInBounds) {
  std::string text = "{\"aio\": {";
  for (int i = 0; i < 50000; ++i) text += "\"k" + std::to_string(i) + "\": 1,";
  EXPECT_LE(findings_on(text + "\"last\": 1}}").size(), 256u);
}

TEST(DeepSpeedKeysTest, AConfigurationWithoutFilesHasNothingToTell) {
  EXPECT_EQ(told("{}"), "");
  EXPECT_EQ(told(R"({"train_batch_size": "auto", "bf16": {"enabled": true}, "aio": {}, "checkpoint": null})"), "");
}

TEST(DeepSpeedKeysTest, ThreadCountIsNoKeyAndItsNameIsTold) {
  const std::vector<DeepSpeedFinding> findings = findings_on("{\"aio\": {\n\"thread_count\": 1}}");
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_EQ(findings[0].key, "aio.thread_count");
  EXPECT_EQ(findings[0].value, "1");
  EXPECT_EQ(findings[0].line, 2);
  EXPECT_NE(findings[0].expected.find("intra_op_parallelism"), std::string::npos);
}

TEST(DeepSpeedKeysTest, AMisspeltKeyIsAWarningWhereDeepSpeedReadsPastItAndElseAnError) {
  EXPECT_EQ(told(R"({"aio": {"blok_size": 1048576}})"), "warning no_such_key aio.blok_size\n");
  EXPECT_EQ(findings_on(R"({"aio": {"blok_size": 1}})")[0].remedy, "Write \"block_size\".");
  EXPECT_EQ(findings_on(R"({"aio": {"zzz": 1}})")[0].remedy, "Remove it.");
  EXPECT_EQ(told(R"({"checkpoint": {"writer": {"dekoupled": true}}})"),
            "warning no_such_key checkpoint.writer.dekoupled\nwarning file_names checkpoint.writer.type\nwarning "
            "load_refused checkpoint.writer\nnote launcher checkpoint.writer\n");
  EXPECT_EQ(told(R"({"zero_optimization": {"offload_param": {"buffer_cont": 5}}})"),
            "error no_such_key zero_optimization.offload_param.buffer_cont\n");
  EXPECT_EQ(told(R"({"zero_optimization": {"offload_params": {"device": "nvme"}}})"),
            "error no_such_key zero_optimization.offload_params\n");
}

TEST(DeepSpeedKeysTest, AValueOfAnotherKindIsAnError) {
  for (const char* value : {"\"auto\"", "1.5", "1e6", "true", "[8]", "{}", "18446744073709551615"}) {
    EXPECT_EQ(told(std::string(R"({"aio": {"queue_depth": )") + value + "}}"), "error wrong_value aio.queue_depth\n")
        << value;
  }
  for (const char* value : {"1", "\"true\"", "[]"}) {
    EXPECT_EQ(told(std::string(R"({"aio": {"single_submit": )") + value + "}}"),
              "error wrong_value aio.single_submit\n");
  }
  EXPECT_EQ(told(R"({"zero_optimization": {"offload_optimizer": {"device": "disk"}}})"),
            "error wrong_value zero_optimization.offload_optimizer.device\n");
  EXPECT_EQ(told(R"({"zero_optimization": {"offload_optimizer": {"ratio": 2}}})"),
            "error wrong_value zero_optimization.offload_optimizer.ratio\n");
  for (const char* block : {"aio", "checkpoint"}) {
    EXPECT_EQ(told(std::string("{\"") + block + "\": 1}"), std::string("error wrong_value ") + block + "\n");
  }
  EXPECT_EQ(told(R"({"checkpoint": {"writer": "fast"}})"), "error wrong_value checkpoint.writer\n");
}

TEST(DeepSpeedKeysTest, AutoStandsForTheDefaultInOffloadBlocksAlone) {
  EXPECT_EQ(told(R"({"zero_optimization": {"offload_param": {"buffer_size": "auto"}}})"), "");
  EXPECT_EQ(told(R"({"aio": {"block_size": "auto"}})"), "error wrong_value aio.block_size\n");
}

TEST(DeepSpeedKeysTest, NumbersOutOfRangeAreErrorsAndImmoderateOnesWarnings) {
  EXPECT_EQ(told(R"({"aio": {"queue_depth": 0}})"), "error out_of_range aio.queue_depth\n");
  EXPECT_EQ(told(R"({"aio": {"intra_op_parallelism": -1}})"), "error out_of_range aio.intra_op_parallelism\n");
  EXPECT_EQ(told(R"({"aio": {"block_size": 4294967296}})"), "error out_of_range aio.block_size\n");
  EXPECT_EQ(told(R"({"aio": {"queue_depth": 4096}})"), "warning unusual_value aio.queue_depth\n");
}

// ---- What they mean together.

TEST(DeepSpeedRulesTest, GdsWithTheOptimizerSwapAloneIsWithoutEffect) {
  EXPECT_NE(told(R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/data"}},
                     "aio": {"use_gds": true}})")
                .find("warning gds_without_effect aio.use_gds\n"),
            std::string::npos);
}

TEST(DeepSpeedRulesTest, GdsIsForTheParameterSwapOfStageThreeAndTheFastWriter) {
  const std::string swap = told(with_parameters_offloaded(R"("aio": {"use_gds": true})"));
  EXPECT_EQ(swap,
            "warning gds_wait aio.use_gds\nnote gds_users aio.use_gds\n"
            "note swap_buffers zero_optimization.offload_param.buffer_size\n");
  EXPECT_EQ(told(R"({"zero_optimization": {"stage": 3}, "checkpoint": {"writer": {"type": "FAST"}},
                     "aio": {"use_gds": true}})"),
            "warning gds_wait aio.use_gds\nwarning load_refused checkpoint.writer\nnote gds_users aio.use_gds\n"
            "note launcher checkpoint.writer\n");
  EXPECT_EQ(told(R"({"zero_optimization": {"stage": 3}, "checkpoint": {"writer": {"type": "python"}},
                     "aio": {"use_gds": true}})"),
            "warning gds_without_effect aio.use_gds\nwarning load_refused checkpoint.writer\nnote launcher "
            "checkpoint.writer\n");
}

TEST(DeepSpeedRulesTest, WithGdsABlockMustBeWhatCuFileTakesForOneOperation) {
  const auto told_of = [](const char* size) {
    return told(with_parameters_offloaded(std::string(R"("aio": {"use_gds": true, "block_size": )") + size + "}"));
  };
  for (const char* fit : {"65536", "1048576", "16777216"}) {
    EXPECT_EQ(told_of(fit).find("error"), std::string::npos) << fit;
  }
  for (const char* unfit : {"4096", "69632", "33554432"}) {
    EXPECT_EQ(told_of(unfit).find("error gds_block_size aio.block_size\n"), 0u) << unfit;
  }
}

TEST(DeepSpeedRulesTest, BlocksMustFitTheDrive) {
  EXPECT_EQ(told(R"({"aio": {"block_size": 1048577}})"), "error block_size_alignment aio.block_size\n");
  EXPECT_EQ(told(R"({"aio": {"block_size": 1049088}})"), "warning block_size_alignment aio.block_size\n");
  EXPECT_EQ(told(R"({"aio": {"block_size": 8192}})"), "warning unusual_value aio.block_size\n");
}

TEST(DeepSpeedRulesTest, WithoutOverlapBlocksTimesDepthMustFitThirtyTwoBits) {
  EXPECT_EQ(told(R"({"aio": {"block_size": 8388608, "queue_depth": 256, "overlap_events": false}})"),
            "error queue_too_large aio.queue_depth\n");
  EXPECT_EQ(told(R"({"aio": {"block_size": 8388608, "queue_depth": 128, "overlap_events": false}})"), "");
  EXPECT_EQ(told(R"({"aio": {"block_size": 8388608, "queue_depth": 256}})"), "");
}

TEST(DeepSpeedRulesTest, DrivesAreForStageThreeAndNeedAFolder) {
  const char* low = R"({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "nvme"}}})";
  EXPECT_EQ(told(low),
            "error no_nvme_path zero_optimization.offload_optimizer.nvme_path\n"
            "warning stage zero_optimization.offload_optimizer.device\n");
  EXPECT_EQ(told(R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}})"), "");
}

TEST(DeepSpeedRulesTest, SwapBuffersAreToldInBytesAndWhatStaysInMemory) {
  const std::vector<DeepSpeedFinding> findings =
      findings_on(R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/data"}}})");
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_NE(findings[0].cause.find("0.93 GiB of page-locked host memory"), std::string::npos) << findings[0].cause;
  EXPECT_EQ(findings[1].key, "zero_optimization.offload_param.max_in_cpu");
}

TEST(DeepSpeedRulesTest, AWriterThatWritesNothingIsAnError) {
  EXPECT_EQ(told(with_writer(R"({"type": "Mock"})")),
            "error mock_writer checkpoint.writer.type\nwarning load_refused checkpoint.writer\nnote launcher "
            "checkpoint.writer\n");
  EXPECT_EQ(told(with_writer(R"({"type": "torch"})")),
            "error wrong_value checkpoint.writer.type\nwarning load_refused checkpoint.writer\nnote launcher "
            "checkpoint.writer\n");
}

TEST(DeepSpeedRulesTest, TheWritersBufferHoldsWholeBlocks) {
  EXPECT_EQ(told(with_writer(R"({"io_buffer_size": 64000000})")),
            "warning writer_buffer checkpoint.writer.io_buffer_size\nwarning load_refused checkpoint.writer\nnote "
            "launcher checkpoint.writer\n");
  EXPECT_EQ(told(with_writer(R"({"io_buffer_size": 64000001})")),
            "error writer_buffer checkpoint.writer.io_buffer_size\nwarning load_refused checkpoint.writer\nnote "
            "launcher checkpoint.writer\n");
  EXPECT_EQ(told(with_writer(R"({"io_buffer_size": 4096, "io_buffer_double": false})")),
            "warning load_refused checkpoint.writer\nnote launcher checkpoint.writer\n");
  EXPECT_EQ(told(with_writer(R"({"io_buffer_size": 64e6})")),
            "error wrong_value checkpoint.writer.io_buffer_size\nwarning load_refused checkpoint.writer\nnote launcher "
            "checkpoint.writer\n");
}

TEST(DeepSpeedRulesTest, OptionsOfTheWriterThatTheStageLeavesUnreadAreNoted) {
  EXPECT_EQ(told(with_writer(R"({"data_parallel": "socket", "io_multiplier": 2})")),
            "warning load_refused checkpoint.writer\nnote without_effect checkpoint.writer.data_parallel\nnote "
            "without_effect checkpoint.writer.io_multiplier\nnote launcher checkpoint.writer\n");
  EXPECT_EQ(told(with_writer(R"({"data_parallel": "rack"})")),
            "error wrong_value checkpoint.writer.data_parallel\nwarning load_refused checkpoint.writer\nnote launcher "
            "checkpoint.writer\n");
  EXPECT_EQ(told(with_writer("{}", 1)),
            "warning file_names checkpoint.writer.type\nwarning load_refused checkpoint.writer\nnote launcher "
            "checkpoint.writer\n");
}

// PENSTOCK_REGENERATE=1 writes the page anew.
TEST(DeepSpeedReportTest, ThePageForAConfigurationAsTextsOnGdsHaveIt) {
  const std::vector<DeepSpeedFinding> findings = findings_on(read_fixture("optimizer-offload.json"));

  const std::string page = deepspeed_text("optimizer-offload.json", findings);

  if (std::getenv("PENSTOCK_REGENERATE") != nullptr) {
    std::ofstream(PENSTOCK_SOURCE_DIR "/test/fixtures/deepspeed/optimizer-offload.txt") << page;
  }
  EXPECT_EQ(page, read_fixture("optimizer-offload.txt"));
}

}  // namespace
}  // namespace penstock::tools
