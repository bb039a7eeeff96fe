// SPDX-License-Identifier: Apache-2.0

// Files under construction on mounts that lack what local file systems have: names for files without one, hard links,
// renames that replace nothing, renames at all, the removal of open files.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <utility>
#include <vector>

#include "base/new_file.h"

namespace penstock::core {
namespace {

using Names = std::vector<std::string>;

bool is_open_here(int folder, const char* name) {
  struct stat wanted {
  }, found{};
  if (::fstatat(folder, name, &wanted, 0) != 0) return false;
  for (int fd = 0; fd < 256; ++fd) {
    if (::fstat(fd, &found) == 0 && found.st_dev == wanted.st_dev && found.st_ino == wanted.st_ino) return true;
  }
  return false;
}

// An object store's mount, as with libfuse: removing an open file is a rename there.
class Mount final : public NameCalls {
 public:
  int open(int folder, const char* name, int flags, mode_t mode) override {
    if ((flags & O_TMPFILE) == O_TMPFILE) return refuse(EOPNOTSUPP);
    return NameCalls::open(folder, name, flags, mode);
  }
  int link_open(int, int, const char*) override { return refuse(EOPNOTSUPP); }
  int link(int folder, const char* from, const char* name) override {
    return link_error != 0 ? refuse(link_error) : NameCalls::link(folder, from, name);
  }
  int rename(int folder, const char* from, const char* name, unsigned flags) override {
    if (flags != 0) return refuse(EINVAL);
    if (before_rename) std::exchange(before_rename, nullptr)(folder, name);
    if (renames_left == 0) return refuse(ENOSYS);
    --renames_left;
    return NameCalls::rename(folder, from, name, flags);
  }
  int unlink(int folder, const char* name) override {
    if (renames_left == 0 && is_open_here(folder, name)) return refuse(ENOSYS);
    if (late_removals > 0 && !is_open_here(folder, name)) return --late_removals, refuse(EBUSY);
    return NameCalls::unlink(folder, name);
  }
  int flush(int fd) override {
    struct stat facts {};
    const bool is_folder = ::fstat(fd, &facts) == 0 && S_ISDIR(facts.st_mode);
    if (is_folder) return folder_error != 0 ? refuse(folder_error) : NameCalls::flush(fd);
    return file_error != 0 ? refuse(std::exchange(file_error, 0)) : NameCalls::flush(fd);
  }

  int link_error = EOPNOTSUPP;
  int renames_left = 1000;
  int late_removals = 0;  // Removals that fail although the file was closed: the mount has not seen the close yet.
  int folder_error = 0;   // The errno of flushing a folder.
  int file_error = 0;     // The errno of flushing a file, once.
  std::function<void(int folder, const char* name)> before_rename;  // Once.

 private:
  static int refuse(int error) {
    errno = error;
    return -1;
  }
};

class MountTest : public testing::Test {
 protected:
  MountTest() { EXPECT_NE(::mkdtemp(folder_.data()), nullptr); }
  ~MountTest() override { EXPECT_EQ(std::system(("rm -r '" + folder_ + "'").c_str()), 0); }

  Result<std::unique_ptr<NewFile>> create(const std::string& content = "new") {
    Result<std::unique_ptr<NewFile>> file = NewFile::create(path("weights"), {.calls = &mount_});
    if (!file.ok()) return file;
    EXPECT_EQ(::write((*file)->fd(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
    return file;
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string content() const {
    std::ostringstream text;
    text << std::ifstream(path("weights")).rdbuf();
    return text.str();
  }
  Names names() const {
    Names found;
    DIR* directory = ::opendir(folder_.c_str());
    while (const dirent* entry = ::readdir(directory)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") found.push_back(name);
    }
    ::closedir(directory);
    std::sort(found.begin(), found.end());
    return found;
  }

  Mount mount_;
  std::string folder_ = testing::TempDir() + "penstock_mount_XXXXXX";
};

// The kernel tells of bytes that it could not write once, and forgets them.
TEST_F(MountTest, AFileThatCouldNotBeFlushedNeverGetsItsName) {
  auto file = create();
  ASSERT_TRUE(file.ok()) << describe(file.status());
  mount_.file_error = EIO;

  EXPECT_TRUE((*file)->publish(false).is_errno(EIO));
  EXPECT_TRUE((*file)->publish(false).is_errno(EIO));

  EXPECT_FALSE((*file)->is_published());
  file = failure(Code::closed, "end");
  EXPECT_EQ(names(), Names{});
}

TEST_F(MountTest, WithoutHardLinksAFileIsPublishedAllTheSame) {
  for (const int error : {EOPNOTSUPP, EPERM, ENOSYS}) {
    mount_.link_error = error;
    auto file = create();
    ASSERT_TRUE(file.ok()) << describe(file.status());

    const Status status = (*file)->publish(false);

    EXPECT_TRUE(status.ok()) << describe(status);
    file->reset();
    EXPECT_EQ(content(), "new");
    EXPECT_EQ(names(), Names{"weights"});
    ASSERT_EQ(::unlink(path("weights").c_str()), 0);
  }
}

class Watcher final : public TemporaryName {
 public:
  void appears(int, const std::string& name) override { names.push_back(name); }
  void is_gone(const std::string& name) override { std::erase(names, name); }
  Names names;
};

TEST_F(MountTest, WhoRemovesUnfinishedFilesKnowsBothNamesOfOneThatIsRenamed) {
  Watcher watcher;
  Names known;
  mount_.before_rename = [&](int, const char*) { known = watcher.names; };

  auto file = NewFile::create(path("weights"), {.watcher = &watcher, .calls = &mount_});

  ASSERT_TRUE(file.ok());
  EXPECT_EQ(known.size(), 2u);
  EXPECT_EQ(watcher.names, names());
  file->reset();
  EXPECT_EQ(watcher.names, Names{});
}

TEST_F(MountTest, WithoutHardLinksAFileReplacesNothingWhereItMayNot) {
  auto first = create("first"), second = create("second");
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE((*first)->publish(false).ok());

  EXPECT_TRUE((*second)->publish(false).is_errno(EEXIST));
  second->reset();

  EXPECT_EQ(content(), "first");
  EXPECT_EQ(names(), Names{"weights"});
}

TEST_F(MountTest, WithHardLinksOneMoreNameIsEnough) {
  mount_.link_error = 0;
  auto file = create();
  ASSERT_TRUE(file.ok());
  mount_.renames_left = 1;

  EXPECT_TRUE((*file)->publish(false).ok());

  EXPECT_EQ(names(), Names{"weights"});
}

TEST_F(MountTest, ANameThatWasHeldForARenameThatFailedIsFreeAgain) {
  auto file = create();
  ASSERT_TRUE(file.ok());
  mount_.renames_left = 0;

  EXPECT_TRUE((*file)->publish(false).is_errno(ENOSYS));
  EXPECT_FALSE((*file)->is_published());
  file->reset();

  EXPECT_EQ(names(), Names{});
}

TEST_F(MountTest, WhatOthersHavePutInPlaceOfAHeldNameStaysWhereTheRenameFails) {
  auto file = create();
  ASSERT_TRUE(file.ok());
  mount_.before_rename = [&](int folder, const char* name) {
    const UniqueFd theirs(::openat(folder, "theirs", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    EXPECT_EQ(::write(theirs.get(), "theirs", 6), 6);
    EXPECT_EQ(::renameat(folder, "theirs", folder, name), 0);
  };
  mount_.renames_left = 0;

  EXPECT_TRUE((*file)->publish(false).is_errno(ENOSYS));
  file->reset();

  EXPECT_EQ(names(), Names{"weights"});
}

TEST_F(MountTest, WithoutRenamesNoFileIsBegun) {
  mount_.renames_left = 0;
  mount_.late_removals = 3;

  const Status status = create().status();

  EXPECT_TRUE(status.is_errno(ENOSYS));
  EXPECT_EQ(describe(status),
            "could not rename a file in this folder, as publishing it does: Function not implemented; "
            "check that the kernel, its drivers and the file system can do this");
  EXPECT_EQ(names(), Names{});
}

TEST_F(MountTest, AnUnfinishedFileThatCannotBeRemovedWhileItIsOpenIsRemovedOnceItIsClosed) {
  auto file = create();
  ASSERT_TRUE(file.ok());
  mount_.renames_left = 0;
  mount_.late_removals = 3;

  file->reset();

  EXPECT_EQ(names(), Names{});
}

TEST_F(MountTest, AFolderThatCannotBeFlushedIsAFailureUnlessItsFileSystemDoesNotKnowHow) {
  mount_.folder_error = EINVAL;
  EXPECT_TRUE((*create())->publish(true).ok());
  mount_.folder_error = EIO;
  const auto file = create();

  EXPECT_TRUE((*file)->publish(true).is_errno(EIO));

  EXPECT_TRUE((*file)->is_published());
  mount_.folder_error = 0;
  EXPECT_TRUE((*file)->publish(true).ok());
}

}  // namespace
}  // namespace penstock::core
