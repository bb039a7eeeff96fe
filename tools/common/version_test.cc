// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

using nlohmann::json;

class VersionTest : public Tool {};

TEST_F(VersionTest, TheFirstLineIsTheVersionAndTheOthersTellHowItWasBuilt) {
  const Finished done = run({"--version"});

  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_TRUE(done.out.starts_with("penstock " PENSTOCK_PROJECT_VERSION "\n  libraries: libpenstock.so.")) << done.out;
  for (const char* line : {", libcufile.so.0\n", "\n  compiler: ", "\n  built with: ", "\n  licence: Apache-2.0\n"}) {
    EXPECT_NE(done.out.find(line), std::string::npos) << line << "in\n" << done.out;
  }
}

TEST_F(VersionTest, AProgramReadsTheSameAsOneObject) {
  const std::string text = run({"--version"}).out;
  const Finished done = run({"--version", "--json"});
  const json told = json::parse(done.out, nullptr, false);

  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(told["schema"], 1) << done.out;
  EXPECT_EQ(told["version"], PENSTOCK_PROJECT_VERSION);
  EXPECT_EQ(told["libraries"]["libcufile"], "libcufile.so.0");
  EXPECT_EQ(told["licence"], "Apache-2.0");
  for (const char* fact : {"compiler", "architecture", "build_type", "cxx_library", "liburing", "revision"}) {
    ASSERT_TRUE(told.contains(fact)) << fact;
    const std::string line = told[fact].is_string() ? ": " + told[fact].get<std::string>() + "\n" : "";
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
  }
  for (const auto& [name, is_there] : told["features"].items()) {
    const std::string line = is_there.get<bool>() ? "\n  built with: " : "\n  built without: ";
    const std::string features = text.substr(text.find(line) + line.size());
    EXPECT_NE(features.substr(0, features.find('\n')).find(name + " ("), std::string::npos) << name << " in\n" << text;
  }
  EXPECT_EQ(run({"--json", "--version"}).out, done.out);
}

TEST_F(VersionTest, ItNamesNoFolderOfTheMachineThatBuiltIt) {
  for (const auto& words : std::vector<std::vector<std::string>>{{"--version"}, {"--version", "--json"}}) {
    const std::string out = run(words).out;
    EXPECT_EQ(out.find(PENSTOCK_SOURCE_DIR), std::string::npos) << out;
    EXPECT_EQ(out.find('/'), std::string::npos) << out;
  }
}

TEST_F(VersionTest, JsonOfTheToolItselfGoesWithVersionAlone) {
  for (const auto& words : std::vector<std::vector<std::string>>{{"--json"}, {"--json", "settings"}}) {
    const Finished done = run(words);
    EXPECT_EQ(done.exit_code, 2) << done.out;
    EXPECT_TRUE(done.err.starts_with("penstock: ")) << done.err;
  }
}

}  // namespace
}  // namespace penstock::tools
