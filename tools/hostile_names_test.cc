// SPDX-License-Identifier: Apache-2.0

// Texts that others may choose (the names of files, of topologies and of paths in JSON, the lines of /sys) must not
// reach a terminal as they are: they would move the cursor, set the title, or pass for a line of the tool's own.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

// Sets a terminal's title, clears it with a C1 control as a lone byte and as UTF-8, turns text around, ends a line.
const std::string kHostile =
    "a\x1b]0;owned\a\x9b\xc2\x9b"
    "2J\xe2\x80\xae\xff\nb";
const std::string kShown = "a\\x1b]0;owned\\x07\\x9b\\xc2\\x9b2J\\xe2\\x80\\xae\\xff\\x0ab";

class HostileNames : public Tool {
 protected:
  void expect_shown(const Names& arguments, int exit_code) {
    const Finished done = run(arguments);
    const std::string all = done.out + done.err;
    EXPECT_EQ(done.exit_code, exit_code) << arguments[0] << ": " << all;
    EXPECT_EQ(all.find_first_of("\x1b\a\x9b\xff"), std::string::npos) << arguments[0] << ": " << all;
    EXPECT_EQ(all.find("\xe2\x80\xae"), std::string::npos) << arguments[0] << ": " << all;
    EXPECT_NE(all.find(kShown), std::string::npos) << arguments[0] << ": " << all;
  }
};

TEST_F(HostileNames, OfFilesAreShownEscaped) {
  make(kHostile, 8192);
  expect_shown({"explain", kHostile}, 0);
  expect_shown({"bench", kHostile, "--repeat", "1"}, 0);
  expect_shown({"cp", kHostile, "copy", "--verify"}, 0);
  expect_shown({"explain", "--fix", kHostile + "2", "--size", "4k"}, 0);
}

TEST_F(HostileNames, OfFilesAreShownEscapedInErrors) {
  make(kHostile, 8192);
  expect_shown({kHostile}, 2);
  expect_shown({"explain", kHostile + "2"}, 1);
  expect_shown({"bench", kHostile, "--rw", "write"}, 2);
  expect_shown({"cp", kHostile, kHostile}, 1);
  expect_shown({"explain", "--fix", kHostile + "/b", "--size", "4k"}, 1);
}

TEST_F(HostileNames, OfFilesAreShownEscapedByNvidiasNames) {
  make(kHostile, 8192);
  expect_shown({"gdscheck", "-f", kHostile}, 0);
  expect_shown({"gdscheck", "-f", kHostile + "2"}, 1);
  expect_shown({"gdsio", "-f", kHostile + "2", "-d", "0", "-w", "1", "-s", "1M", "-x", "0", "-I", "0"}, 1);
  expect_shown({"gdsio_verify", "-f", kHostile + "2"}, 1);
}

TEST_F(HostileNames, AreAsciiInJson) {
  make(kHostile, 8192);
  for (const Names& arguments :
       {Names{"explain", kHostile, "--json"}, Names{"bench", kHostile, "--repeat", "1", "--json"},
        Names{"cp", kHostile, "copy", "--json"}, Names{"explain", kHostile + "2", "--json"}}) {
    const Finished done = run(arguments);
    for (const char byte : done.out) ASSERT_TRUE(byte == '\n' || (byte >= ' ' && byte <= '~')) << done.out;
    EXPECT_FALSE(json::parse(done.out, nullptr, false).is_discarded()) << done.out;
  }
}

TEST_F(HostileNames, OfADrivesModelAreShownEscaped) {
  const std::string machine = PENSTOCK_MACHINES "h200-p2pdma";
  fs::copy(machine, path("machine"), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  int models = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path("machine/sys"))) {
    if (entry.path().filename() != "model" || !entry.is_regular_file()) continue;
    std::ofstream(entry.path()) << "a\x1b]0;owned\a\x9b";
    ++models;
  }
  ASSERT_GT(models, 0);
  const Finished done = run({"explain", "-v", "--root", "machine", "/data/file"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_NE(done.out.find("a\\x1b]0;owned\\x07\\x9b"), std::string::npos) << done.out;
  EXPECT_EQ(done.out.find_first_of("\x1b\a\x9b"), std::string::npos) << done.out;
}

}  // namespace
}  // namespace penstock::tools
