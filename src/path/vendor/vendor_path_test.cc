// SPDX-License-Identifier: Apache-2.0

#include "path/vendor/vendor_path.h"

#include <sys/wait.h>

#include <cstring>

#include "fakes/vendor_fixture.h"
#include "fakes/waiting.h"

namespace penstock::core {
namespace {

// ---- Verdicts ------------------------------------------------------------------------------------------------------

TEST_F(VendorPathTest, IsUsableWhereNvidiaFsCountsTheRequestsOfItsSelfTest) {
  EXPECT_TRUE(judge(Op::read).usable);
  EXPECT_TRUE(judge(Op::write).usable);
  EXPECT_EQ(judge().reason, Reason::none);
  EXPECT_TRUE(file_content() == content_);
}

TEST_F(VendorPathTest, APairIsTestedOnce) {
  ASSERT_TRUE(judge(Op::read).usable);
  const int moves = seen()->reads + seen()->writes;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(judge(Op::write).usable);
  EXPECT_EQ(seen()->reads + seen()->writes, moves);
  EXPECT_EQ(seen()->files, 1) << "the user's file alone, not the self-test's own";
}

TEST_F(VendorPathTest, AGpuWhoseMemoryIsPinnedForNoModuleIsRefused) {
  const_cast<DeviceFacts&>(device_->facts()).is_pinned_for_modules = false;
  EXPECT_EQ(judge().reason, vendor_reason::gpu);
  const_cast<DeviceFacts&>(device_->facts()).is_pinned_for_modules = true;
  EXPECT_TRUE(judge().usable);
}

TEST_F(VendorPathTest, CompatibilityModeIsRefusedSinceItHidesASlowerCopy) {
  behave("compat");
  EXPECT_FALSE(judge(Op::read).usable);
  EXPECT_EQ(judge(Op::read).reason, vendor_reason::not_direct);
  EXPECT_EQ(judge(Op::write).reason, vendor_reason::not_direct);
}

// NVIDIA's library uses the same module, which reports 4096 bytes as direct if any of them were.
TEST_F(VendorPathTest, AFileSystemWithBlocksBelow4096IsRefusedUnlessTheCpuCopies) {
  storage_.block_size = 1024;
  const std::unique_ptr<File> small = std::move(*File::open(storage_, fd_.get()));
  for (const Op op : {Op::read, Op::write}) EXPECT_EQ(judge(*small, op).reason, pipeline_reason::small_blocks);
  EXPECT_TRUE(judge().usable) << "of a file with others";
  path_->forget_file(*small);
  behave("compat");
  make_path(VendorUse::force);
  EXPECT_TRUE(judge(*small, Op::read).usable);
  path_->forget_file(*small);
}

TEST_F(VendorPathTest, OthersRequestsDoNotPassForItsOwn) {
  behave("compat");
  std::atomic<bool> stop{false};
  std::thread others([&] {
    for (int count = 0; !stop; count += 3) {
      write_text(stats_file().string() + ".other", stats_text(count, count));
      std::filesystem::rename(stats_file().string() + ".other", stats_file());
      be_slow(std::chrono::milliseconds(1));
    }
  });
  const Verdict verdict = judge();
  stop = true;
  others.join();
  EXPECT_EQ(verdict.reason, vendor_reason::not_direct);
}

TEST_F(VendorPathTest, WithoutCountersThereIsNoProof) {
  write_text(stats_file(), "Reads\t\t\t\t: err=0 io_state_err=0\n");
  ::unsetenv("FAKE_VENDOR_STATS");
  EXPECT_EQ(judge().reason, vendor_reason::not_direct);
}

TEST_F(VendorPathTest, WrongBytesAreFoundOut) {
  behave("wrong");
  EXPECT_EQ(judge(Op::read).reason, pipeline_reason::self_test_wrong);
  EXPECT_EQ(judge(Op::write).reason, pipeline_reason::self_test_wrong);
}

TEST_F(VendorPathTest, ItsOwnErrorsAreToldByTheirNumbers) {
  const std::pair<const char*, int> cases[] = {
      {"closed", 5001}, {"refusing", 5027}, {"negative", 5011}, {"errno", EIO}};
  for (const auto& [script, number] : cases) {
    behave(script);
    make_path();
    EXPECT_EQ(judge().reason, vendor_reason::refused) << script;
    EXPECT_EQ(judge().detail, number) << script;
  }
}

TEST_F(VendorPathTest, NothingIsLoadedWhereItIsOffOrMissingOrOfNoUse) {
  make_path(VendorUse::off);
  EXPECT_EQ(judge().reason, vendor_reason::off);
  std::filesystem::remove(root() / "proc/driver/nvidia-fs/modules");
  make_path();
  EXPECT_EQ(judge().reason, vendor_reason::nvidia_fs_missing);
  char host[64];
  EXPECT_EQ(path_->judge(*file_, devices_->describe(host), Op::read).reason, Reason::host_memory);
  EXPECT_EQ(seen(), nullptr);
  std::filesystem::remove(library_file());
  make_path();
  EXPECT_EQ(judge().reason, vendor_reason::library_missing);
}

TEST_F(VendorPathTest, ALibraryThatLacksACallOrIsNoneIsIncomplete) {
  install(PENSTOCK_FAKE_VENDOR_INCOMPLETE);
  make_path();
  EXPECT_EQ(judge().reason, vendor_reason::incomplete);
  std::filesystem::remove(library_file());  // Not in place: the loaded library may still be mapped.
  write_text(library_file(), "no library");
  make_path();
  EXPECT_EQ(judge().reason, vendor_reason::incomplete);
}

// ---- Names ---------------------------------------------------------------------------------------------------------

TEST_F(VendorPathTest, ItsScratchHasANameForTheLibraryAndLosesItHoweverTheSelfTestEnds) {
  for (const char* script : {"direct", "compat", "short", "wrong", "refusing", "errno", "negative", "torn", "full"}) {
    behave(script);
    make_path();
    const Verdict verdict = judge();
    EXPECT_NE(verdict.detail, 5031) << script;
    EXPECT_EQ(leftovers(), "") << script;
    EXPECT_EQ(seen()->closed_first, 0) << script;
    EXPECT_TRUE(file_content() == content_) << script;
  }
}

TEST_F(VendorPathTest, WhereTheFolderTakesNoScratchWritesAreRefusedAndReadsTriedOnTheFileItself) {
  std::filesystem::permissions(folder_, std::filesystem::perms(0555));
  const ObeyingModes obeying;
  EXPECT_EQ(judge(Op::write).reason, pipeline_reason::no_scratch);
  EXPECT_TRUE(judge(Op::read).usable);
  std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  EXPECT_EQ(leftovers(), "");
  EXPECT_TRUE(file_content() == content_);
}

// The library opens files by their names.
TEST_F(VendorPathTest, AFileWithoutANameIsRefusedAloneWithTheLibrarysNumber) {
  for (const int flags : {0, O_DIRECT}) {
    const UniqueFd fd(::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600));
    ASSERT_TRUE(fd.valid());
    const std::unique_ptr<File> nameless = std::move(*File::open(storage_, fd.get()));
    expect_refused_alone(*nameless, 5031);
  }
}

// A descriptor without O_DIRECT is reopened by us, without the flag.
TEST_F(VendorPathTest, ADescriptorWithOpenFlagsThatTheLibraryTakesNotIsRefusedAlone) {
  for (const int flag : {O_NOFOLLOW, O_NONBLOCK, O_NOATIME}) {
    SCOPED_TRACE(flag);
    const UniqueFd direct(::open((folder_ / "file").c_str(), O_RDWR | O_CLOEXEC | O_DIRECT | flag));
    ASSERT_TRUE(direct.valid());
    expect_refused_alone(**File::open(storage_, direct.get()), 5019);
  }
  const UniqueFd buffered(::open((folder_ / "file").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  const std::unique_ptr<File> file = std::move(*File::open(storage_, buffered.get()));
  EXPECT_TRUE(judge(*file, Op::read).usable);
  path_->forget_file(*file);
}

// ---- Forced --------------------------------------------------------------------------------------------------------

TEST_F(VendorPathTest, ForcedItIsUsedAlthoughItIsNotDirectAndSaysSo) {
  std::filesystem::remove_all(root() / "proc");
  behave("compat");
  make_path(VendorUse::force);
  EXPECT_TRUE(judge().usable);
  EXPECT_EQ(judge().reason, vendor_reason::not_direct);
  EXPECT_EQ(move(Op::read, 0, kFileBytes), (Bytes{{Reason::none, kFileBytes}}));
  EXPECT_EQ(std::memcmp(memory_, content_.data(), kFileBytes), 0);
  EXPECT_EQ(io_modes_, std::set<IoMode>{IoMode::buffered});
}

TEST_F(VendorPathTest, RequiredItHasToBeDirectAllTheSame) {
  behave("compat");
  make_path(VendorUse::force, true);
  EXPECT_FALSE(judge().usable);
  EXPECT_EQ(judge().reason, vendor_reason::not_direct);
}

TEST_F(VendorPathTest, ForceMakesNoWrongBytesRight) {
  behave("wrong");
  make_path(VendorUse::force);
  EXPECT_EQ(judge().reason, pipeline_reason::self_test_wrong);
}

}  // namespace
}  // namespace penstock::core
