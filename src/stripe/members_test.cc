// SPDX-License-Identifier: Apache-2.0

#include "stripe/members.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

namespace penstock::core {

// The kernel may write less than it was asked to.
static std::size_t write_max = ~std::size_t{0};

// In place of the C library's, in this program.
extern "C" ssize_t pwrite(int fd, const void* from, std::size_t size, off_t offset) {
  return ::syscall(SYS_pwrite64, fd, from, std::min(size, write_max), offset);
}

// The flush of a folder that fails, counted from now on; 0: none does.
static int failing_flush = 0;

extern "C" int fsync(int fd) {
  struct stat facts {};
  const bool is_folder = ::fstat(fd, &facts) == 0 && S_ISDIR(facts.st_mode);
  if (is_folder && failing_flush > 0 && --failing_flush == 0) return errno = EIO, -1;
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kStripe = StripeLayout::kStripeUnit;

class MembersTest : public testing::Test {
 protected:
  MembersTest() : folder_(testing::TempDir() + "/members_XXXXXX") {
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    for (const char* drive : {"/a", "/b", "/c"}) fs::create_directory(folder_ + drive);
  }
  ~MembersTest() override { fs::remove_all(folder_); }

  NewStripe::Options options(bool replace = false) const {
    return {.folders = {folder_ + "/a", folder_ + "/b", folder_ + "/c"},
            .size = 4 * kStripe + 1,
            .stripe_bytes = kStripe,
            .replace = replace};
  }
  std::string name() const { return folder_ + "/object"; }
  Manifest make(bool replace = false) const {
    Result<std::unique_ptr<NewStripe>> made = NewStripe::create(name(), options(replace));
    EXPECT_TRUE(made.ok()) << describe(made.status());
    const Status status = (*made)->publish();
    EXPECT_TRUE(status.ok()) << describe(status);
    return (*made)->manifest();
  }
  std::string fault() const {
    const Result<StripeMembers> opened = open_members(name());
    return opened.ok() ? "" : describe(opened.status());
  }
  std::size_t files_in(const char* drive) const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_ + drive), {}));
  }

  std::string folder_;
};

TEST_F(MembersTest, WhatWasPublishedIsOpened) {
  const Manifest made = make();
  const Result<StripeMembers> opened = open_members(name());
  ASSERT_TRUE(opened.ok()) << fault();
  EXPECT_EQ(opened->manifest.id, made.id);
  EXPECT_EQ(opened->files.size(), 3u);
  EXPECT_EQ(fs::file_size(made.files[0]), 2 * kStripe + kTrailerBytes);
  EXPECT_EQ(fs::file_size(made.files[1]), kStripe + kTrailerBytes + kTrailerBytes) << "one byte more than a stripe";
  EXPECT_EQ(fs::file_size(made.files[2]), kStripe + kTrailerBytes);
}

TEST_F(MembersTest, BeforeItIsPublishedNothingIsThere) {
  {
    const Result<std::unique_ptr<NewStripe>> made = NewStripe::create(name(), options());
    ASSERT_TRUE(made.ok());
    EXPECT_FALSE(fs::exists(name()));
  }
  EXPECT_EQ(files_in("/a") + files_in("/b") + files_in("/c"), 0u);
}

TEST_F(MembersTest, ATrailerThatTheKernelWritesInPartsIsNoErrorOfTheDrive) {
  write_max = 512;
  (void)make();
  write_max = ~std::size_t{0};
  EXPECT_EQ(fault(), "");
}

TEST_F(MembersTest, WhereOnlyTheFoldersFlushFailedPublishingAgainFindsItsOwnManifest) {
  const Manifest before = make();
  for (const bool replace : {true, false}) {
    if (!replace) fs::remove(name());
    Result<std::unique_ptr<NewStripe>> made = NewStripe::create(name(), options(replace));
    ASSERT_TRUE(made.ok()) << describe(made.status());
    failing_flush = 4;  // Behind those of three members.
    EXPECT_TRUE((*made)->publish().is_errno(EIO));
    const Status status = (*made)->publish();
    EXPECT_TRUE(status.ok()) << describe(status);
  }
  EXPECT_EQ(fault(), "");
  EXPECT_FALSE(fs::exists(before.files[0])) << "it was replaced";
}

TEST_F(MembersTest, AnObjectThatHasItsNameKeepsItsMembersThoughPublishingItAgainFails) {
  {
    Result<std::unique_ptr<NewStripe>> made = NewStripe::create(name(), options());
    ASSERT_TRUE(made.ok()) << describe(made.status());
    for (int tries = 0; tries < 2; ++tries) {
      failing_flush = 4;
      EXPECT_TRUE((*made)->publish().is_errno(EIO));
    }
  }
  EXPECT_EQ(fault(), "");
}

TEST_F(MembersTest, WhereTheManifestCannotBePublishedItsMembersAreRemoved) {
  {
    Result<std::unique_ptr<NewStripe>> made = NewStripe::create(name(), options());
    ASSERT_TRUE(made.ok());
    std::ofstream(name()) << "somebody else's";
    EXPECT_TRUE((*made)->publish().is_errno(EEXIST));
    EXPECT_EQ(files_in("/b"), 1u);
  }
  EXPECT_EQ(files_in("/a") + files_in("/b") + files_in("/c"), 0u);
}

TEST_F(MembersTest, AMemberThatIsMissingCutOffGrownOrAnothersIsNamed) {
  const Manifest made = make();
  const std::string member = made.files[1], kept = folder_ + "/kept";
  fs::rename(member, kept);
  EXPECT_NE(fault().find("open member 1 of the striped object, " + member + ": it is missing"), std::string::npos)
      << fault();

  fs::copy_file(kept, member);
  fs::resize_file(member, kStripe);
  EXPECT_NE(fault().find("it has 65536 bytes instead of 73728"), std::string::npos) << fault();
  fs::resize_file(member, 73728);
  EXPECT_NE(fault().find("never finished"), std::string::npos) << "cut off, and grown again: " << fault();
  fs::resize_file(member, 73729);
  EXPECT_NE(fault().find("it has 73729 bytes"), std::string::npos) << fault();

  fs::remove(member);
  fs::copy_file(made.files[2], member);
  EXPECT_NE(fault().find("bytes instead of"), std::string::npos) << fault();
  fs::rename(name(), folder_ + "/old");
  const Manifest other = make();
  fs::remove(name());
  fs::rename(folder_ + "/old", name());
  fs::copy_file(other.files[1], member, fs::copy_options::overwrite_existing);
  EXPECT_NE(fault().find("it belongs to another object, " + other.id), std::string::npos) << fault();

  fs::remove(member);
  ASSERT_EQ(::mkfifo(member.c_str(), 0600), 0);
  EXPECT_NE(fault().find(member), std::string::npos) << "and it does not wait for a writer: " << fault();
  fs::remove(member);
  fs::rename(kept, member);
  EXPECT_EQ(fault(), "");
}

TEST_F(MembersTest, AManifestThatIsCutOffIsNamed) {
  make();
  fs::resize_file(name(), fs::file_size(name()) / 2);
  EXPECT_NE(fault().find(name() + ": it is not a whole JSON object"), std::string::npos) << fault();
  fs::resize_file(name(), kManifestBytesMax + 1);
  EXPECT_NE(fault().find("larger than 256 KiB"), std::string::npos) << fault();
  fs::remove(name());
  EXPECT_NE(fault().find("No such file"), std::string::npos) << fault();
}

TEST_F(MembersTest, AReplacedObjectsMembersAreRemovedAndNobodyElses) {
  const Manifest first = make();
  EXPECT_TRUE(NewStripe::create(name(), options()).status().is_errno(EEXIST));
  const Manifest second = make(true);
  EXPECT_NE(first.id, second.id);
  for (const char* drive : {"/a", "/b", "/c"}) EXPECT_EQ(files_in(drive), 1u);
  EXPECT_EQ(fault(), "");

  std::ofstream(folder_ + "/precious") << "mine";
  Manifest liar = second;
  liar.files[0] = folder_ + "/precious";
  std::ofstream(name()) << manifest_text(liar);
  make(true);
  EXPECT_TRUE(fs::exists(folder_ + "/precious")) << "a manifest names it, and it is no member";
}

TEST_F(MembersTest, WhatCannotBeIsRefused) {
  NewStripe::Options bad = options();
  bad.stripe_bytes = 1000;
  EXPECT_TRUE(NewStripe::create(name(), bad).status().is(Code::invalid_argument));
  bad = options();
  bad.folders.resize(33, folder_);
  EXPECT_TRUE(NewStripe::create(name(), bad).status().is(Code::invalid_argument));
  bad = options();
  bad.folders[1] = folder_ + "/nowhere";
  EXPECT_TRUE(NewStripe::create(name(), bad).status().is_errno(ENOENT));
  EXPECT_EQ(files_in("/a"), 0u);
}

}  // namespace
}  // namespace penstock::core
