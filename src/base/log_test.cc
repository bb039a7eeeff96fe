// SPDX-License-Identifier: Apache-2.0

#include "base/log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

namespace penstock::core {
namespace {

class LogTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "penstock_log_XXXXXX";
    ASSERT_NE(::mkdtemp(directory_.data()), nullptr);
    path_ = directory_ + "/cufile.log";
  }
  void TearDown() override {
    log_to({});
    std::filesystem::remove_all(directory_);
  }
  std::string content() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  std::string directory_;
  std::string path_;
};

TEST_F(LogTest, NoFileIsMadeBeforeThereIsSomethingToSay) {
  log_to({path_, LogLevel::error});
  log(LogLevel::warn, "a warning");
  EXPECT_FALSE(std::filesystem::exists(path_));

  log(LogLevel::error, "an error");

  EXPECT_TRUE(std::filesystem::exists(path_));
  struct stat facts {};
  ASSERT_EQ(::stat(path_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST_F(LogTest, ALineHasTheShapeOfCuFiles) {
  log_to({path_, LogLevel::info});
  log(LogLevel::info, "two\nlines\x1b and more", "/far/away/place.cc", 12);

  const std::regex shape(
      R"( \d\d-\d\d-\d{4} \d\d:\d\d:\d\d:\d{3} \[pid=\d+ tid=\d+\] INFO  place\.cc:12 two\?lines\? and more\n)");
  EXPECT_TRUE(std::regex_match(content(), shape)) << content();
}

TEST_F(LogTest, LevelsTakeThoseBeforeThemAlong) {
  EXPECT_EQ(log_level_named("WARN"), LogLevel::warn);
  EXPECT_FALSE(log_level_named("warn").has_value());
  EXPECT_FALSE(logs(LogLevel::notice));
  log_to({path_, LogLevel::warn});
  EXPECT_TRUE(logs(LogLevel::notice));
  EXPECT_TRUE(logs(LogLevel::warn));
  EXPECT_FALSE(logs(LogLevel::info));
}

TEST_F(LogTest, AFullFileBeginsAnew) {
  log_to({path_, LogLevel::error, 1000});
  for (int i = 0; i < 100; ++i) log(LogLevel::error, "line " + std::to_string(i));

  EXPECT_LE(content().size(), 1000u);
  EXPECT_NE(content().find("line 99\n"), std::string::npos);
  EXPECT_EQ(content().find("line 1\n"), std::string::npos);
}

TEST_F(LogTest, AFileThatIsNoLogIsNeverChanged) {
  for (const std::string& data : {std::string(5000, 'd'), std::string("x"), std::string(" 01-02-2026 and so on\n")}) {
    std::ofstream(path_) << data;
    log_to({path_, LogLevel::error, 1000});

    log(LogLevel::error, "an error");

    EXPECT_TRUE(is_no_log(path_));
    EXPECT_EQ(content(), data);
  }
}

TEST_F(LogTest, ALogOfNvidiasLibraryIsAddedToAndBegunAnew) {
  const std::string theirs =
      " 29-03-2021 19:24:05:119 [pid=1 tid=1] NOTICE  cufio-drv:625 running in compatible mode\n";
  std::ofstream(path_) << theirs;
  log_to({path_, LogLevel::error, 1000});

  log(LogLevel::error, "an error");

  EXPECT_FALSE(is_no_log(path_));
  EXPECT_TRUE(content().starts_with(theirs));
  EXPECT_TRUE(content().ends_with("an error\n"));
  for (int i = 0; i < 10; ++i) log(LogLevel::error, std::string(80, 'x'));
  EXPECT_FALSE(content().starts_with(theirs));
}

TEST_F(LogTest, AnEmptyFileAndNoneMayBecomeALog) {
  EXPECT_FALSE(is_no_log(path_));
  std::ofstream(path_) << "";
  EXPECT_FALSE(is_no_log(path_));
  log_to({path_, LogLevel::error});

  log(LogLevel::error, "an error");

  EXPECT_TRUE(content().ends_with("an error\n"));
}

TEST_F(LogTest, LinksPipesAndMissingDirectoriesGetNothing) {
  const std::string target = directory_ + "/target";
  std::filesystem::create_symlink(target, path_);
  log_to({path_, LogLevel::error});
  log(LogLevel::error, "through a link");
  EXPECT_FALSE(std::filesystem::exists(target));
  const std::string pipe = directory_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  log_to({pipe, LogLevel::error});
  log(LogLevel::error, "into a pipe");
  log_to({directory_ + "/missing/cufile.log", LogLevel::error});
  log(LogLevel::error, "nowhere");
  log(LogLevel::error, std::string(100000, 'x'));
}

}  // namespace
}  // namespace penstock::core
