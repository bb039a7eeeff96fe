// SPDX-License-Identifier: Apache-2.0

// The built gdsio_verify from outside, with host memory standing in for a GPU.
#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

using Words = std::vector<std::string>;

class GdsioVerify : public Tool {
 protected:
  GdsioVerify() { call_it("gdsio_verify"); }
};

TEST_F(GdsioVerify, SaysThatBothWaysGiveTheSameBytes) {
  make("data", 1234567);
  for (const Words& more :
       {Words{}, Words{"-n", "100"}, Words{"-n", "100", "-t", "100K"}, Words{"-g", "8", "-n", "7"},
        Words{"-o", "777", "-s", "100001", "-n", "3", "-S"}, Words{"-m", "0", "-n", "10"}, Words{"-d", "1"}}) {
    Words words = {"-f", "data"};
    words.insert(words.end(), more.begin(), more.end());
    const Finished done = run(words);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    EXPECT_EQ(done.out.find("gpu index :"), 0u) << done.out;
    EXPECT_NE(done.out.find("\naddress = 0x"), std::string::npos) << done.out;
    EXPECT_NE(done.out.find("\nData Verification Success\n"), std::string::npos) << done.out;
  }
}

// The path that moves nothing is the proof that a difference would be seen.
TEST_F(GdsioVerify, NamesTheFirstByteThatDiffers) {
  std::string bytes = make("data", 100000);
  std::fill(bytes.begin(), bytes.begin() + 5000, static_cast<char>(0xa5));  // The memory is filled with it beforehand.
  std::ofstream(path("data"), std::ios::binary) << bytes;
  const Finished done = run({"-f", "data"}, [] { setenv("PENSTOCK_PATHS", "null", 1); });
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_EQ(done.err, "gdsio_verify: data: verify: the byte at offset 5000 is wrong\n");
  EXPECT_EQ(done.out.find("Success"), std::string::npos);
}

TEST_F(GdsioVerify, ExitCodesTellUsageFromFailure) {
  make("data", 8192);
  make("empty", 0);
  const std::pair<int, Words> cases[] = {
      {2, {}},
      {2, {"-f", "data", "-n", "0"}},
      {2, {"-f", "data", "-m", "2"}},
      {2, {"-f", "data", "-g", "2M"}},
      {2, {"-f", "data", "-t", "1"}},
      {2, {"-f", "data", "-t", "2G"}},
      {2, {"-f", "data", "-s", "8193"}},
      {2, {"-f", "data", "-o", "9000"}},
      {2, {"-f", "empty"}},
      {2, {"-f", "data", "-y"}},
      {1, {"-f", "none"}},
      {1, {"-f", "."}},
      {77, {"-f", "data", "-d", "9"}},
  };
  for (const auto& [exit_code, words] : cases) {
    const Finished done = run(words);
    EXPECT_EQ(done.exit_code, exit_code) << done.err;
    EXPECT_EQ(done.err.find("gdsio_verify: "), 0u) << done.err;
  }
}

}  // namespace
}  // namespace penstock::tools
