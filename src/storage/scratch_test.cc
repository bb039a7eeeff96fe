// SPDX-License-Identifier: Apache-2.0

#include "storage/scratch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "fakes/obeying_modes.h"
#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

// A folder that holds one file.
class ScratchTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/penstock_scratch_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    fd_.reset(::open((folder_ / "file").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    ASSERT_EQ(::pwrite(fd_.get(), "weights", 7, 0), 7);
    if (!storage_.reopen(fd_.get(), O_RDWR, true).ok()) GTEST_SKIP() << "no O_DIRECT in " << testing::TempDir();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::vector<std::filesystem::path> strangers() const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (entry.path().filename() != "file") found.push_back(entry.path());
    }
    return found;
  }
  static struct stat status_of(int fd) {
    struct stat status {};
    EXPECT_EQ(::fstat(fd, &status), 0);
    return status;
  }

  PosixStorage storage_{true};
  std::filesystem::path folder_;
  UniqueFd fd_;
};

TEST_F(ScratchTest, WithANameItIsOursAloneBesideTheFileAndGoesWithItsObject) {
  {
    const Result<Scratch> scratch = storage_.open_scratch(fd_.get(), ScratchKind::named);
    ASSERT_TRUE(scratch.ok()) << describe(scratch.status());
    ASSERT_EQ(strangers().size(), 1u);
    const std::filesystem::path path = strangers()[0];
    EXPECT_TRUE(path.filename().string().starts_with(".penstock-scratch-")) << path;
    const UniqueFd again(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(again.valid());
    EXPECT_EQ(status_of(again.get()).st_ino, status_of(scratch->get()).st_ino);
    EXPECT_EQ(status_of(again.get()).st_mode & 07777, 0600u);
    EXPECT_NE(::fcntl(scratch->get(), F_GETFL) & O_DIRECT, 0);
    EXPECT_EQ(::fcntl(scratch->get(), F_GETFL) & (O_TMPFILE | O_NOFOLLOW), 0);
  }
  EXPECT_TRUE(strangers().empty());
  EXPECT_EQ(status_of(fd_.get()).st_size, 7);
}

TEST_F(ScratchTest, WithoutANameNobodySeesIt) {
  const Result<Scratch> scratch = storage_.open_scratch(fd_.get(), ScratchKind::nameless);
  if (scratch.status().is_errno(EOPNOTSUPP)) GTEST_SKIP() << "no O_TMPFILE in " << folder_;
  ASSERT_TRUE(scratch.ok()) << describe(scratch.status());
  EXPECT_TRUE(strangers().empty());
  EXPECT_EQ(status_of(scratch->get()).st_nlink, 0u);
}

TEST_F(ScratchTest, TwoDoNotMeet) {
  const Result<Scratch> first = storage_.open_scratch(fd_.get(), ScratchKind::named);
  const Result<Scratch> second = storage_.open_scratch(fd_.get(), ScratchKind::named);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(strangers().size(), 2u);
}

TEST_F(ScratchTest, LeftOpenItLosesItsNameAllTheSame) {
  UniqueFd left;
  {
    Result<Scratch> scratch = storage_.open_scratch(fd_.get(), ScratchKind::named);
    ASSERT_TRUE(scratch.ok());
    left.reset(scratch->get());
    scratch->leave_open();
  }
  EXPECT_TRUE(strangers().empty());
  EXPECT_EQ(status_of(left.get()).st_nlink, 0u);
}

TEST_F(ScratchTest, WhereTheFolderIsGoneThereIsNone) {
  const std::filesystem::path gone = folder_ / "gone";
  std::filesystem::create_directory(gone);
  const UniqueFd fd(::open((gone / "file").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  std::filesystem::remove_all(gone);
  for (const ScratchKind kind : {ScratchKind::named, ScratchKind::nameless}) {
    EXPECT_TRUE(storage_.open_scratch(fd.get(), kind).status().is_errno(ENOENT));
  }
  EXPECT_TRUE(strangers().empty());
}

TEST_F(ScratchTest, WhereTheFolderTakesNoneThereIsNone) {
  std::filesystem::permissions(folder_, std::filesystem::perms(0555));
  const ObeyingModes obeying;
  EXPECT_TRUE(storage_.open_scratch(fd_.get(), ScratchKind::named).status().is_errno(EACCES));
  EXPECT_FALSE(storage_.open_scratch(fd_.get(), ScratchKind::nameless).ok());
  std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  EXPECT_TRUE(strangers().empty());
}

}  // namespace
}  // namespace penstock::core
