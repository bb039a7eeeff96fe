// SPDX-License-Identifier: Apache-2.0

// `penstock kv bench` on short traces.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "fakes/tool_fixture.h"
#include "fakes/waiting.h"

namespace penstock::tools {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

class KvBench : public Tool {
 protected:
  // Prompts of 100 tokens a block, 1 KiB each token.
  void trace(const std::vector<std::vector<int>>& prompts) const {
    std::ofstream file(path("trace"));
    for (const auto& blocks : prompts) {
      file << json{{"timestamp", 1}, {"input_length", 100 * blocks.size()}, {"hash_ids", blocks}}.dump() << "\n";
    }
  }
  static Words words_of(const Words& more) {
    Words words = {"kv", "bench",          ".",    "--trace",    "trace", "--block-tokens", "100", "--token-bytes",
                   "1k", "--prefill-rate", "1000", "--capacity", "2M",    "--device",       "host"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  json told(Words more = {}) {
    more.push_back("--json");
    const Finished done = run(words_of(more));
    EXPECT_EQ(done.exit_code, 0) << done.out << done.err;
    return json::parse(done.out, nullptr, false);
  }
  bool is_clean() const {
    for (const auto& entry : fs::directory_iterator(path(""))) {
      if (entry.path().filename() != "trace") return false;
    }
    return true;
  }
};

TEST_F(KvBench, OfEachPromptTheBeginningThatWasSeenIsAHit) {
  trace({{1, 2, 3}, {1, 2, 4}, {5}, {9, 2, 3}, {1, 2, 3, 6}});
  const json report = told();
  EXPECT_EQ(report["schema"], 1);
  EXPECT_EQ(report["trace"]["requests"], 5);
  EXPECT_EQ(report["trace"]["blocks"], 14);
  EXPECT_EQ(report["trace"]["distinct_blocks"], 7);
  EXPECT_EQ(report["hit_tokens"], 200 + 300) << "a block behind one that is not there is no hit";
  EXPECT_EQ(report["gets"]["from_drive"], 5);
  EXPECT_EQ(report["gets"]["bytes"], 5 * 102'400);
  EXPECT_EQ(report["puts"]["done"], 7);
  EXPECT_EQ(report["puts"]["present"], 2);
  EXPECT_EQ(report["decisions"]["count"], 1) << "before the first get nothing is foretold";
  EXPECT_EQ(report["decisions"]["right"], 1) << "a tenth of a second for each block is long";
  EXPECT_EQ(report["wrong_chunks"], 0);
  EXPECT_DOUBLE_EQ(report["first_token_seconds"]["without"]["mean"], 0.28);
  EXPECT_NEAR(report["first_token_seconds"]["with"]["mean"], 0.18 + report["gets"]["seconds"].get<double>() / 5, 1e-9);
  EXPECT_TRUE(is_clean());
}

TEST_F(KvBench, WhereComputingIsQuickerNothingIsGot) {
  trace({{1, 2, 3}, {1, 2, 3}, {1, 2, 3}, {1, 2, 3}});
  Words words = words_of({"--json"});
  *std::find(words.begin(), words.end(), "1000") = "1e12";
  const Finished done = run(words);
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const json report = json::parse(done.out);
  EXPECT_EQ(report["decisions"]["count"], 2);
  EXPECT_EQ(report["decisions"]["right"], 2);
  EXPECT_LT(report["first_token_seconds"]["with"]["p50"], 1e-6);
}

TEST_F(KvBench, ChunksMakeRoomForOthers) {
  std::vector<std::vector<int>> prompts;
  for (int i = 0; i < 60; ++i) prompts.push_back({i, 1000 + i});
  for (int i = 59; i >= 55; --i) prompts.push_back({i, 1000 + i});
  trace(prompts);
  const json report = told({"--pieces", "4", "--window", "1k"});
  EXPECT_GT(report["evicted"], 80);
  EXPECT_EQ(report["hit_tokens"], 1000);
  EXPECT_EQ(report["wrong_chunks"], 0);
  const Finished done = run(words_of({}));
  EXPECT_NE(done.out.find("made room for others"), std::string::npos) << done.out;
}

TEST_F(KvBench, WhatHostMemoryHasComesFromIt) {
  trace({{1, 2}, {1, 2}, {1, 2, 3}});
  const json report = told({"--host-memory", "1M"});
  EXPECT_EQ(report["gets"]["from_host"], 4);
  EXPECT_EQ(report["gets"]["from_drive"], 0);
  EXPECT_EQ(report["puts"]["done"], 3);
  EXPECT_EQ(report["wrong_chunks"], 0);
  const Finished done = run(words_of({"--host-memory", "1M"}));
  EXPECT_NE(done.out.find("100 % of the chunks from host memory"), std::string::npos) << done.out;
}

TEST_F(KvBench, ATraceWithNonsenseIsRefusedByItsLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"[1]", "line 2: expected a JSON object"},
      {"{", "line 2: expected a JSON object"},
      {R"({"hash_ids": [1]})", "line 2: expected 'input_length'"},
      {R"({"input_length": -3, "hash_ids": [1]})", "line 2: expected 'input_length'"},
      {R"({"input_length": 1e3, "hash_ids": [1]})", "line 2: expected 'input_length'"},
      {R"({"input_length": 99999999999999, "hash_ids": [1]})", "line 2: expected 'input_length'"},
      {R"({"input_length": 100})", "line 2: expected 'hash_ids'"},
      {R"({"input_length": 100, "hash_ids": ["a"]})", "line 2: 'hash_ids' has something that is no number"},
      {R"({"input_length": 1000, "hash_ids": [1]})", "line 2: 1 'hash_ids' for 1000 tokens, expected 10"},
  };
  for (const auto& [line, sentence] : cases) {
    std::ofstream(path("trace")) << R"({"input_tokens": 150, "hash_ids": [1, 2]})"
                                 << "\n"
                                 << line << "\n";
    const Finished done = run(words_of({}));
    EXPECT_EQ(done.exit_code, 1) << line;
    EXPECT_NE(done.err.find(sentence), std::string::npos) << line << "\n" << done.err;
    EXPECT_EQ(run(words_of({"--requests", "1"})).exit_code, 0) << "the second line is not read";
  }
  std::ofstream(path("trace")) << "\n \n";
  EXPECT_NE(run(words_of({})).err.find("there is no request in it"), std::string::npos);
  EXPECT_TRUE(is_clean());
}

TEST_F(KvBench, SettingsThatFitNothingAreToldBeforeAnythingIsMade) {
  trace({{1}});
  const std::pair<Words, const char*> cases[] = {
      {{"--capacity", "64k"}, "expected room for a block of 100 KiB, at least"},
      {{"--host-memory", "64k"}, "expected room for a block of 100 KiB, at least"},
      {{"--pieces", "3"}, "a block of 102400 bytes has no 3 equal pieces"},
      {{"--prefill-rate", "0"}, "--prefill-rate 0: expected tokens a second"},
      {{"--prefill-rate", "nan"}, "--prefill-rate nan: expected tokens a second"},
      {{"--prefill-rate", "inf"}, "--prefill-rate inf: expected tokens a second"},
      {{"--token-bytes", "0"}, "expected a block of 1 byte to 1 TiB"},
      {{"--token-bytes", "1T"}, "expected a block of 1 byte to 1 TiB"},
  };
  for (const auto& [more, sentence] : cases) {
    Words words = words_of({});
    if (const auto given = std::find(words.begin(), words.end(), more[0]); given != words.end()) *(given + 1) = more[1];
    else words.insert(words.end(), more.begin(), more.end());
    const Finished done = run(words);
    EXPECT_EQ(done.exit_code, 2) << sentence << done.err;
    EXPECT_NE(done.err.find(sentence), std::string::npos) << done.err;
  }
  EXPECT_TRUE(is_clean());
}

TEST_F(KvBench, AnInterruptedOneLeavesNothingBehind) {
  std::vector<std::vector<int>> prompts(20'000);
  for (std::size_t i = 0; i < prompts.size(); ++i) prompts[i] = {static_cast<int>(i)};
  trace(prompts);
  const pid_t child = start(words_of({}));
  ASSERT_TRUE(wait_until([&] { return !is_clean(); }));
  kill(child, SIGINT);
  EXPECT_EQ(wait(child).signal_number, SIGINT);
  EXPECT_TRUE(is_clean());
}

TEST_F(KvBench, AFolderThatIsNotThereIsNamed) {
  trace({{1}});
  Words words = words_of({});
  words[2] = "nowhere";
  const Finished done = run(words);
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_NE(done.err.find("nowhere: could not make a folder in it"), std::string::npos) << done.err;
}

}  // namespace
}  // namespace penstock::tools
