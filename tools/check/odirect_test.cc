// SPDX-License-Identifier: Apache-2.0

// `penstock check --try` on whatever file system this is, and on one of memory.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/vfs.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

using nlohmann::json;

class Odirect : public Tool {
 protected:
  std::map<std::string, json> cases(const std::string& folder) {
    const Finished done = run({"odirect", folder, "--json"});
    EXPECT_EQ(done.exit_code, 0) << done.out << done.err;
    std::map<std::string, json> found;
    const json report = json::parse(done.out);
    for (const json& one : report["cases"]) found[one["case"]] = one;
    return found;
  }
};

TEST_F(Odirect, ThePageSaysWhatDirectMeansAndHasNoRateOfAFewBytes) {
  const std::string page = run({"odirect", "."}).out;
  EXPECT_NE(page.find("says nothing of a GPU's"), std::string::npos) << page;
  EXPECT_NE(page.find("NVIDIA'S GUIDE\n"), std::string::npos);
  EXPECT_EQ(page.find(" 0.00 "), std::string::npos) << page;
  EXPECT_EQ(page.find("rw,relatime,rw"), std::string::npos);
}

TEST_F(Odirect, EveryConditionIsTriedAndNothingIsLeft) {
  const auto found = cases(".");
  EXPECT_EQ(found.size(), 20u);
  for (const auto& [name, one] : found) {
    EXPECT_NE(one["verdict"], "wrong") << one.dump();
    EXPECT_EQ(one["verdict"] == "absent" && one["note"].is_null(), false) << name;
  }
  for (const char* name : {"read", "overwrite", "extending_write", "hole_write"}) {
    EXPECT_EQ(found.at(name)["bytes"], 8 << 20) << found.at(name).dump();
  }
  EXPECT_EQ(found.at("file_end")["bytes"], 100);
  EXPECT_EQ(found.at("compression")["guide_section"], "2.3.4");
  EXPECT_EQ(found.at("unaligned_size")["guide"], nullptr);
  EXPECT_TRUE(fs::is_empty(path("")));
}

TEST_F(Odirect, MemoryHasNoDirectWay) {
  struct statfs place {};
  if (statfs("/dev/shm", &place) != 0 || place.f_type != 0x01021994 || access("/dev/shm", W_OK) != 0) {
    GTEST_SKIP() << "/dev/shm is no tmpfs that can be written";
  }
  for (const auto& [name, one] : cases("/dev/shm")) {
    EXPECT_NE(one["verdict"], "direct") << one.dump();
    EXPECT_NE(one["verdict"], "wrong") << one.dump();
  }
}

// Facts of file systems, if scripts/with_filesystems has mounted some.
TEST_F(Odirect, FileSystemsAreToldApart) {
  const char* const dirs = std::getenv("PENSTOCK_TEST_DIRS");
  std::istringstream listed(dirs == nullptr ? "" : dirs);
  bool is_any = false;
  for (std::string dir; std::getline(listed, dir, ':');) {
    const std::string name = dir.substr(0, dir.find('='));
    if (name != "ext4" && name != "ext4-journal" && name != "xfs" && name != "btrfs") continue;
    is_any = true;
    const auto found = cases(dir.substr(dir.find('=') + 1));
    const bool is_journaled = name == "ext4-journal", has_checksums = name == "btrfs";
    EXPECT_EQ(found.at("read")["verdict"], is_journaled ? "cached" : "direct") << name;
    for (const char* write : {"overwrite", "extending_write", "preallocated_write", "hole_write"}) {
      if (!has_checksums) {  // Which kernels differ in.
        EXPECT_EQ(found.at(write)["verdict"], is_journaled ? "cached" : "direct") << name << " " << write;
      }
    }
    EXPECT_EQ(found.at("unaligned_size")["verdict"], is_journaled || has_checksums ? "cached" : "refused") << name;
    EXPECT_EQ(found.at("inline_data")["verdict"], has_checksums ? "cached" : "absent") << name;
    EXPECT_EQ(found.at("no_checksums")["verdict"], has_checksums ? "direct" : "absent") << name;
    EXPECT_EQ(found.at("compression")["verdict"], has_checksums ? "cached" : "absent") << name;
    EXPECT_EQ(found.at("shared_blocks")["verdict"] == "absent", name.starts_with("ext4")) << name;
  }
  if (!is_any) GTEST_SKIP() << "no file systems are mounted for tests (scripts/with_filesystems)";
}

TEST_F(Odirect, ItSaysInAScreenWhatItFound) {
  const Finished done = run({"odirect", "."});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_NE(done.out.find("mounted at"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("write behind the file's end"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("may be buffered (2.3.3)"), std::string::npos) << done.out;
}

TEST_F(Odirect, WhatCannotBeTriedIsTold) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"odirect", "nowhere"}, "nowhere/penstock-odirect: could not open"},
      {{"odirect", "/proc"}, "/proc/penstock-odirect: could not"},
  };
  for (const auto& [words, sentence] : cases) {
    const Finished done = run(words);
    EXPECT_EQ(done.exit_code, 1) << done.out;
    EXPECT_NE(done.err.find(sentence), std::string::npos) << done.err;
  }
  EXPECT_EQ(run({"odirect"}).exit_code, 2);
}

TEST_F(Odirect, WhereFilesMayNotBeLargeItFails) {
  const pid_t child = start({"odirect", "."}, [] {
    const rlimit limit{1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_IGN);
  });
  const Finished done = wait(child);
  EXPECT_EQ(done.exit_code, 1) << done.out;
  EXPECT_NE(done.err.find("could not write a scratch file: File too large"), std::string::npos) << done.err;
  EXPECT_TRUE(fs::is_empty(path("")));
}

}  // namespace
}  // namespace penstock::tools
