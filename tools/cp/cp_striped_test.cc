// SPDX-License-Identifier: Apache-2.0

// The built `penstock cp`, explain, bench and doctor on objects that lie on several drives.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

using nlohmann::json;

class CpStriped : public Tool {
 protected:
  void SetUp() override {
    for (const char* drive : {"d0", "d1", "d2"}) fs::create_directory(path(drive));
  }
  std::string make_object(std::size_t size = 3'000'001) {
    const std::string bytes = make("data", size);
    const Finished done = run({"cp", "data", "object", "--stripe", "d0,d1,d2", "--stripe-size", "64k", "--verify"});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return bytes;
  }
  std::string member(const char* drive) { return fs::directory_iterator(path(drive))->path().string(); }
};

TEST_F(CpStriped, AFileBecomesAnObjectAndAFileAgain) {
  for (const std::size_t size : {0, 1, 65536, 65537, 3'000'001}) {
    const std::string bytes = make_object(size);
    const Finished back = run({"cp", "object", "back", "--verify"});
    ASSERT_EQ(back.exit_code, 0) << back.err;
    EXPECT_TRUE(text_of(path("back")) == bytes) << size;
    for (const char* name : {"object", "back"}) fs::remove(path(name));
    for (const char* drive : {"d0", "d1", "d2"}) fs::remove_all(path(drive)), fs::create_directory(path(drive));
  }
}

TEST_F(CpStriped, TheReportSumsTheBytesOfAllMembers) {
  make_object();
  const json told = json::parse(run({"cp", "object", "back", "--json"}).out);
  EXPECT_EQ(told["size"], 3'000'001);
  EXPECT_EQ(told["read"]["bytes_by_path"]["bounce"], 3'000'001);
}

TEST_F(CpStriped, AnObjectBecomesOneOfOtherStripesAndReplacesAnother) {
  const std::string bytes = make_object();
  make("data", 1000);
  ASSERT_EQ(run({"cp", "data", "other", "--stripe", "d0,d1"}).exit_code, 0);
  EXPECT_EQ(run({"cp", "object", "other", "--stripe", "d1"}).exit_code, 1) << "it exists";
  const Finished done = run({"cp", "object", "other", "--stripe", "d1", "--stripe-size", "1M", "--force"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(std::distance(fs::directory_iterator(path("d0")), {}), 1) << "the old one's members are gone";
  ASSERT_EQ(run({"cp", "other", "back"}).exit_code, 0);
  EXPECT_TRUE(text_of(path("back")) == bytes);
}

TEST_F(CpStriped, AMemberThatIsNotWhatItShouldBeIsNamedAndNothingIsCopied) {
  make_object();
  const std::string second = member("d1");
  fs::resize_file(second, 4096);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"cp", "object", "back"}, {"explain", "object"}, {"bench", "object", "--time", "1"}}) {
    const Finished done = run(command);
    EXPECT_EQ(done.exit_code, 1) << command[0] << done.out << done.err;
    EXPECT_NE(done.err.find(second + ": it has 4096 bytes instead of"), std::string::npos) << done.err;
  }
  EXPECT_FALSE(fs::exists(path("back")));
  fs::remove(second);
  EXPECT_NE(run({"cp", "object", "back"}).err.find(second + ": it is missing"), std::string::npos);
}

TEST_F(CpStriped, ExplainTellsOfEachMemberAndBenchReadsTheObject) {
  make_object();
  const Finished told = run({"explain", "object"});
  EXPECT_EQ(told.exit_code, 0) << told.err;
  EXPECT_NE(told.out.find("object: a striped object of 3 members, 64 KiB a stripe"), std::string::npos) << told.out;
  const json all = json::parse(run({"explain", "object", "--json"}).out);
  EXPECT_EQ(all["files"].size(), 3u);
  EXPECT_EQ(all["striped"][0]["members"].size(), 3u);
  EXPECT_EQ(all["striped"][0]["size"], 3'000'001);
  for (const char* depth : {"1", "8"}) {
    const Finished done = run({"bench", "object", "--bs", "256k", "--depth", depth, "--time", "1", "--json"});
    ASSERT_EQ(done.exit_code, 0) << done.err;
    EXPECT_NE(done.out.find("\"bounce\""), std::string::npos) << done.out;
  }
  EXPECT_EQ(run({"bench", "object", "--drop-cache"}).exit_code, 2);
}

TEST_F(CpStriped, WhatMakesNoObjectIsRefused) {
  make("data", 1000);
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--stripe", "d0,,d1"},
                                               {"--stripe", ","},
                                               {"--stripe", "d0,d1", "--stripe-size", "1000"}}) {
    std::vector<std::string> command = {"cp", "data", "object"};
    command.insert(command.end(), more.begin(), more.end());
    EXPECT_EQ(run(command).exit_code, 2) << more[1];
  }
  const Finished done = run({"cp", "data", "object", "--stripe", "d0,nowhere"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_NE(done.err.find("nowhere"), std::string::npos) << done.err;
  EXPECT_TRUE(fs::is_empty(path("d0")));
  EXPECT_FALSE(fs::exists(path("object")));
}

TEST_F(CpStriped, DoctorTakesAnObjectForOneFileOnSeveralDrives) {
  make_object(24'000'001);
  const auto told = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all = {"explain", "--measure", "--time", "0.1", "--json"};
    all.insert(all.end(), words.begin(), words.end());
    const Finished done = run(all);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return json::parse(done.out, nullptr, false);
  };
  const json one = told({"object"});
  ASSERT_EQ(one["files"].size(), 1u) << one;
  EXPECT_EQ(one["files"][0]["path"], "object");
  EXPECT_EQ(one["files"][0]["size"], 24'000'001);
  EXPECT_EQ(one["files"][0]["members"].size(), 3u);
  EXPECT_EQ(one["bytes"], 24'000'001);
  for (const json& stage : one["stages"]) EXPECT_GT(stage["bytes_per_second"], 0) << stage;
  std::uint64_t bytes = 0;
  for (const json& place : one["places"]) bytes += place["bytes"].get<std::uint64_t>();
  EXPECT_EQ(bytes, 24'000'001u) << "of all members, by the devices that they lie on";
  EXPECT_EQ(told({"object", "d0", "d1", "d2"})["bytes"], 24'000'001) << "its members do not count twice";
  const std::string text = run({"explain", "--measure", "object", "--time", "0.1"}).out;
  EXPECT_NE(text.find("object: a striped object of 3 members, "), std::string::npos) << text;
}

TEST_F(CpStriped, WhatDoctorMeasuresLeavesThePageCacheOfMembersAsItWas) {
  make_object(6'000'001);
  const auto forget = [](const std::string& file) {
    const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
  };
  const auto cached = [&](const std::string& file) {
    return json::parse(run({"explain", file, "--json"}).out, nullptr, false)["cached_bytes"];
  };
  for (const char* drive : {"d0", "d1", "d2"}) forget(member(drive));
  if (cached(member("d0")) != 0) GTEST_SKIP() << "the file system of " << path("d0") << " keeps all of it cached";
  ASSERT_EQ(run({"explain", "--measure", "object", "--time", "0.1"}).exit_code, 0);
  // The block behind a member's bytes is looked at, and stays.
  for (const char* drive : {"d0", "d1", "d2"}) EXPECT_LE(cached(member(drive)), 64 << 10) << drive;
}

TEST_F(CpStriped, DoctorNamesAMemberThatIsCutOff) {
  make_object();
  fs::resize_file(member("d1"), 1000);
  const Finished done = run({"explain", "--measure", "object", "--time", "0.1"});
  EXPECT_EQ(done.exit_code, 1) << done.out;
  EXPECT_NE(done.err.find("member"), std::string::npos) << done.err;
}

}  // namespace
}  // namespace penstock::tools
