// SPDX-License-Identifier: Apache-2.0

#include "base/new_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

namespace penstock::core {
namespace {

using Names = std::vector<std::string>;

Names names_in(const std::string& folder) {
  Names names;
  DIR* directory = ::opendir(folder.c_str());
  while (const dirent* entry = ::readdir(directory)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(directory);
  std::sort(names.begin(), names.end());
  return names;
}

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

mode_t mode_of(const std::string& path) {
  struct stat facts {};
  EXPECT_EQ(::lstat(path.c_str(), &facts), 0);
  return facts.st_mode;
}

// A temporary folder, removed with its contents.
class InFolder : public testing::Test {
 protected:
  InFolder() { EXPECT_NE(::mkdtemp(folder_.data()), nullptr); }
  ~InFolder() override { EXPECT_EQ(std::system(("rm -r '" + folder_ + "'").c_str()), 0); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void make(const std::string& name, const std::string& content) { std::ofstream(path(name)) << content; }

  std::string folder_ = testing::TempDir() + "penstock_new_file_XXXXXX";
};

// ---- A file under construction, without a name and with one --------------------------------------------------------

class FileUnderConstructionTest : public InFolder, public testing::WithParamInterface<bool> {
 protected:
  std::unique_ptr<NewFile> create(const std::string& name, mode_t mode = 0600) {
    NewFile::Options options;
    options.mode = mode;
    options.needs_name = GetParam();
    Result<std::unique_ptr<NewFile>> file = NewFile::create(path(name), options);
    EXPECT_TRUE(file.ok()) << describe(file.status());
    EXPECT_EQ(::write((*file)->fd(), "new", 3), 3);
    return std::move(*file);
  }
};

INSTANTIATE_TEST_SUITE_P(, FileUnderConstructionTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "Named" : "Nameless"; });

TEST_P(FileUnderConstructionTest, StandsUnderItsNameOnceItIsPublished) {
  const auto file = create("weights");
  EXPECT_NE(::access(path("weights").c_str(), F_OK), 0);

  ASSERT_TRUE(file->publish(false).ok());

  EXPECT_TRUE(file->is_published());
  EXPECT_EQ(content_of(path("weights")), "new");
  EXPECT_EQ(names_in(folder_), Names{"weights"});
}

TEST_P(FileUnderConstructionTest, LeavesNothingBehindUnlessItIsPublished) {
  create("weights").reset();

  EXPECT_EQ(names_in(folder_), Names{});
}

TEST_P(FileUnderConstructionTest, ReplacesAnotherOneWhereItMay) {
  make("weights", "old");
  const auto file = create("weights");
  EXPECT_EQ(content_of(path("weights")), "old");

  ASSERT_TRUE(file->publish(true).ok());

  EXPECT_EQ(content_of(path("weights")), "new");
  EXPECT_EQ(names_in(folder_), Names{"weights"});
}

TEST_P(FileUnderConstructionTest, ReplacesNothingWhereItMayNot) {
  make("weights", "old");
  auto file = create("weights");

  EXPECT_TRUE(file->publish(false).is_errno(EEXIST));
  EXPECT_FALSE(file->is_published());
  file.reset();

  EXPECT_EQ(content_of(path("weights")), "old");
  EXPECT_EQ(names_in(folder_), Names{"weights"});
}

TEST_P(FileUnderConstructionTest, MayBePublishedAfterItCouldNotBe) {
  make("weights", "old");
  const auto file = create("weights");
  ASSERT_FALSE(file->publish(false).ok());

  EXPECT_TRUE(file->publish(true).ok());

  EXPECT_EQ(content_of(path("weights")), "new");
}

TEST_P(FileUnderConstructionTest, DoesNotReplaceWhatIsNoRegularFile) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  auto file = create("pipe");

  EXPECT_TRUE(file->publish(true).is(Code::unsupported_file));
  file.reset();

  EXPECT_TRUE(S_ISFIFO(mode_of(path("pipe"))));
  EXPECT_EQ(names_in(folder_), Names{"pipe"});
}

TEST_P(FileUnderConstructionTest, GoesWithItsFolderWhereThatIsMoved) {
  ASSERT_EQ(::mkdir(path("before").c_str(), 0700), 0);
  const auto file = create("before/weights");
  ASSERT_EQ(::rename(path("before").c_str(), path("after").c_str()), 0);

  ASSERT_TRUE(file->publish(false).ok());

  EXPECT_EQ(content_of(path("after/weights")), "new");
  EXPECT_EQ(names_in(folder_), Names{"after"});
}

TEST_P(FileUnderConstructionTest, HasTheModeThatWasAskedForLessTheUmask) {
  const mode_t before = ::umask(027);
  const auto file = create("weights", 0666);
  ::umask(before);

  ASSERT_TRUE(file->publish(false).ok());

  EXPECT_EQ(mode_of(path("weights")) & 0777, 0640u);
}

// ---- Names ---------------------------------------------------------------------------------------------------------

class TemporaryNameTest : public InFolder, protected TemporaryName {
 protected:
  void appears(int folder_fd, const std::string& name) override {
    EXPECT_NE(::faccessat(folder_fd, name.c_str(), F_OK, 0), 0);
    names_.push_back(name);
  }
  void is_gone(const std::string& name) override {
    EXPECT_NE(::access(path(name).c_str(), F_OK), 0);
    names_.push_back("gone");
  }
  std::unique_ptr<NewFile> create(bool needs_name) {
    NewFile::Options options;
    options.needs_name = needs_name;
    options.watcher = this;
    return std::move(NewFile::create(path("weights"), options).value());
  }

  Names names_;
};

TEST_F(TemporaryNameTest, ATemporaryNameIsToldBeforeItIsThereAndWhenItIsGone) {
  auto file = create(true);
  ASSERT_EQ(names_.size(), 1u);
  EXPECT_EQ(names_in(folder_), names_);

  file.reset();

  EXPECT_EQ(names_.size(), 2u);
  EXPECT_EQ(names_.back(), "gone");
}

TEST_F(TemporaryNameTest, AFileWithoutANameNeedsOneOnlyToReplaceAnother) {
  ASSERT_TRUE(create(false)->publish(true).ok());
  if (!names_.empty() && names_[0] != "gone") GTEST_SKIP() << "the file system knows no files without a name";

  ASSERT_TRUE(create(false)->publish(true).ok());

  EXPECT_EQ(names_.size(), 2u);
}

TEST_F(TemporaryNameTest, ANameThatTheFileSystemDoesNotTakeIsToldBeforeAnyByteIsWritten) {
  const auto longest = static_cast<std::size_t>(::pathconf(folder_.c_str(), _PC_NAME_MAX));

  EXPECT_TRUE(NewFile::create(path(std::string(longest, 'n')), {}).ok());
  EXPECT_TRUE(NewFile::create(path(std::string(longest + 1, 'n')), {}).status().is_errno(ENAMETOOLONG));
}

TEST_F(TemporaryNameTest, AFolderOrNothingIsNoNameOfAFile) {
  EXPECT_TRUE(NewFile::create("", {}).status().is_errno(ENOENT));
  EXPECT_TRUE(NewFile::create(folder_ + "/", {}).status().is_errno(EISDIR));
  EXPECT_TRUE(NewFile::create(path("none/weights"), {}).status().is_errno(ENOENT));

  EXPECT_EQ(names_in(folder_), Names{});
}

// ---- Files of a known content --------------------------------------------------------------------------------------

using PublishTest = InFolder;

TEST_F(PublishTest, MakesTheFileOrReplacesIt) {
  ASSERT_TRUE(publish_file(path("topology"), "first").ok());
  EXPECT_EQ(content_of(path("topology")), "first");

  ASSERT_TRUE(publish_file(path("topology"), "second, and longer").ok());

  EXPECT_EQ(content_of(path("topology")), "second, and longer");
  EXPECT_EQ(mode_of(path("topology")) & 0777, 0644u);
}

TEST_F(PublishTest, ReplacesALinkAndLeavesItsTargetAlone) {
  make("target", "as it was");
  ASSERT_EQ(::symlink("target", path("topology").c_str()), 0);

  ASSERT_TRUE(publish_file(path("topology"), "text").ok());

  EXPECT_TRUE(S_ISREG(mode_of(path("topology"))));
  EXPECT_EQ(content_of(path("target")), "as it was");
}

TEST_F(PublishTest, LeavesNothingBehindWhereItCannot) {
  ASSERT_EQ(::mkdir(path("topology").c_str(), 0700), 0);

  EXPECT_TRUE(publish_file(path("topology"), "text").is_errno(EISDIR));

  EXPECT_EQ(names_in(folder_), Names{"topology"});
}

}  // namespace
}  // namespace penstock::core
