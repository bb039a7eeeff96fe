// SPDX-License-Identifier: Apache-2.0

#include "base/publish.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>

namespace penstock::core {
namespace {

class PublishTest : public testing::Test {
 protected:
  PublishTest() { EXPECT_NE(::mkdtemp(folder_.data()), nullptr); }
  ~PublishTest() override {
    ::unlink(name().c_str());
    ::rmdir(folder_.c_str());
  }
  std::string name() const { return folder_ + "/topology.json"; }
  std::string content() const {
    std::ostringstream text;
    text << std::ifstream(name()).rdbuf();
    return text.str();
  }
  unsigned entries() const {
    unsigned count = 0;
    DIR* directory = ::opendir(folder_.c_str());
    while (const dirent* entry = ::readdir(directory)) count += entry->d_name[0] != '.' || entry->d_name[1] == 'p';
    ::closedir(directory);
    return count;
  }

  std::string folder_ = testing::TempDir() + "penstock_publish_XXXXXX";
};

TEST_F(PublishTest, MakesTheFileOrReplacesIt) {
  ASSERT_TRUE(publish_file(name(), "first").ok());
  EXPECT_EQ(content(), "first");

  ASSERT_TRUE(publish_file(name(), "second, and longer").ok());

  EXPECT_EQ(content(), "second, and longer");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(PublishTest, ReplacesALinkAndLeavesItsTargetAlone) {
  ASSERT_EQ(::symlink("/proc/self/exe", name().c_str()), 0);

  ASSERT_TRUE(publish_file(name(), "text").ok());

  struct stat facts {};
  ASSERT_EQ(::lstat(name().c_str(), &facts), 0);
  EXPECT_TRUE(S_ISREG(facts.st_mode));
}

TEST_F(PublishTest, DoesNotReplaceAPipe) {
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(publish_file(pipe, "new").is(Code::unsupported_file));
  struct stat facts {};
  ASSERT_EQ(::lstat(pipe.c_str(), &facts), 0);
  EXPECT_TRUE(S_ISFIFO(facts.st_mode));
}

TEST_F(PublishTest, LeavesNothingBehindWhereItCannot) {
  EXPECT_TRUE(publish_file("", "text").is(Code::invalid_argument));
  EXPECT_TRUE(publish_file(folder_ + "/", "text").is(Code::invalid_argument));
  EXPECT_TRUE(publish_file(folder_ + "/none/topology.json", "text").is_errno(ENOENT));
  ASSERT_EQ(::mkdir(name().c_str(), 0700), 0);

  EXPECT_TRUE(publish_file(name(), "text").is_errno(EISDIR));

  EXPECT_EQ(entries(), 1u);
  ::rmdir(name().c_str());
}

}  // namespace
}  // namespace penstock::core
