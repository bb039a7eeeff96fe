// SPDX-License-Identifier: Apache-2.0

#include "storage/posix_storage.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "fakes/forbidden_calls.h"
#include "fakes/loop_file_system.h"
#include "storage/file.h"

namespace penstock::core {
namespace {

constexpr long kCachestatCall = 451;  // The same number on every architecture.

class PosixStorageTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "penstock_storage_XXXXXX";
    fd_.reset(::mkstemp(name.data()));
    ASSERT_TRUE(fd_.valid());
    name_ = name;
    ASSERT_EQ(::pwrite(fd_.get(), "weights", 7, 0), 7);
  }
  void TearDown() override { ::unlink(name_.c_str()); }

  PosixStorage storage_{true};
  std::string name_;
  UniqueFd fd_;
};

TEST_F(PosixStorageTest, FactsOfARegularFile) {
  const FileFacts facts = *storage_.facts(fd_.get());

  EXPECT_EQ(facts.type, FileType::regular);
  EXPECT_EQ(facts.size, 7u);
  EXPECT_TRUE(facts.readable());
  EXPECT_TRUE(facts.writable());
  EXPECT_FALSE(facts.opened_o_direct());
  EXPECT_NE(facts.file_system_magic, 0u);
  struct statfs file_system {};
  ASSERT_EQ(::fstatfs(fd_.get(), &file_system), 0);
  EXPECT_EQ(facts.block_size, static_cast<std::uint64_t>(file_system.f_bsize));
}

TEST_F(PosixStorageTest, HowFarAFileReachesIsToldByItsOwnDescriptorsAlone) {
  const FileFacts facts = *storage_.facts(fd_.get());
  std::string name = name_ + "_other";
  const UniqueFd other(::open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600));
  ASSERT_EQ(::ftruncate(other.get(), 1 << 20), 0);
  ::unlink(name.c_str());
  std::uint64_t reached = 1;

  EXPECT_FALSE(storage_.is_descriptor_of(other.get(), facts, &reached));
  EXPECT_EQ(reached, 1u);
  EXPECT_TRUE(storage_.is_descriptor_of(fd_.get(), facts, &reached));
  EXPECT_EQ(reached, 7u);
}

TEST_F(PosixStorageTest, WhatIsNoFileIsRefusedByType) {
  const UniqueFd directory(::open("/", O_RDONLY | O_DIRECTORY));
  const UniqueFd device(::open("/dev/null", O_RDWR));
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  const UniqueFd read_end(pipes[0]);
  const UniqueFd write_end(pipes[1]);

  EXPECT_TRUE(storage_.facts(directory.get()).status().is(Code::unsupported_file));
  EXPECT_TRUE(storage_.facts(device.get()).status().is(Code::unsupported_file));
  EXPECT_TRUE(storage_.facts(read_end.get()).status().is(Code::unsupported_file));
}

TEST_F(PosixStorageTest, AppendingAndPathDescriptorsAreRefused) {
  const UniqueFd append(::open(name_.c_str(), O_WRONLY | O_APPEND));
  const UniqueFd path(::open(name_.c_str(), O_PATH));

  EXPECT_TRUE(storage_.facts(append.get()).status().is(Code::unsupported_flags));
  EXPECT_TRUE(storage_.facts(path.get()).status().is(Code::unsupported_flags));
}

TEST_F(PosixStorageTest, ADeadDescriptorIsAnErrno) {
  EXPECT_TRUE(storage_.facts(-1).status().is_errno(EBADF));
  EXPECT_TRUE(storage_.facts(987654).status().is_errno(EBADF));
}

TEST_F(PosixStorageTest, AMemoryFileHasNoDirectIo) {
  const UniqueFd memory(::memfd_create("storage_test", MFD_CLOEXEC));

  const FileFacts facts = *storage_.facts(memory.get());

  EXPECT_FALSE(facts.can_do_o_direct());
  EXPECT_EQ(facts.alignment_source, AlignmentSource::none);
  EXPECT_EQ(facts.block_device, 0u);
}

TEST_F(PosixStorageTest, AlignmentIsAPowerOfTwoWithinItsBounds) {
  const FileFacts facts = *storage_.facts(fd_.get());
  if (!facts.can_do_o_direct()) GTEST_SKIP() << "the temporary directory's file system has no direct I/O";

  EXPECT_LE(facts.direct_memory_align, 4096u);
  EXPECT_EQ(facts.direct_offset_align & (facts.direct_offset_align - 1), 0u);
  EXPECT_NE(facts.alignment_source, AlignmentSource::none);
}

TEST_F(PosixStorageTest, ReopeningLeavesTheUsersDescriptorAsItWas) {
  const int before = ::fcntl(fd_.get(), F_GETFL);

  const Result<UniqueFd> second = storage_.reopen(fd_.get(), O_RDWR, false);

  ASSERT_TRUE(second.ok());
  EXPECT_NE(second->get(), fd_.get());
  EXPECT_EQ(::fcntl(fd_.get(), F_GETFL), before);
  EXPECT_NE(::fcntl(second->get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(PosixStorageTest, ADeletedFileCanStillBeReopened) {
  ::unlink(name_.c_str());

  const Result<UniqueFd> second = storage_.reopen(fd_.get(), O_RDONLY, false);

  ASSERT_TRUE(second.ok()) << describe(second.status());
  char text[7];
  EXPECT_EQ(*storage_.read(second->get(), text, 7, 0), 7u);
  EXPECT_EQ(std::string(text, 7), "weights");
}

TEST_F(PosixStorageTest, WhatWasJustWrittenIsResidentAndAHoleIsNot) {
  EXPECT_TRUE(storage_.is_resident(fd_.get(), 0, 7));
  ASSERT_EQ(::ftruncate(fd_.get(), 64 << 20), 0);
  EXPECT_FALSE(storage_.is_resident(fd_.get(), 32 << 20, 4 << 20));
}

TEST_F(PosixStorageTest, SwitchedOffIoUringIsOnRecord) {
  PosixStorage without(false);

  EXPECT_EQ(without.io_uring_error(), ECANCELED);
  EXPECT_TRUE((*without.open_ring(1))->register_memory(&without, 1).is(Code::unsupported));
}

TEST_F(PosixStorageTest, AFileKeepsWorkingWhenTheUserClosesTheirDescriptor) {
  const std::unique_ptr<File> file = std::move(File::open(storage_, fd_.get()).value());
  fd_.reset(::open("/dev/null", O_RDONLY));  // Very likely reuses the descriptor number for another file.

  char text[7];
  EXPECT_EQ(*storage_.read(*file->descriptor(IoMode::buffered), text, 7, 0), 7u);

  EXPECT_EQ(std::string(text, 7), "weights");
}

TEST_F(PosixStorageTest, AFlushThatWasStartedHarmsNoFileAndNoneThatCannotBeFlushed) {
  const UniqueFd pipe(::open("/dev/null", O_WRONLY));

  storage_.start_flush(fd_.get());
  storage_.start_flush(pipe.get());
  storage_.start_flush(-1);

  char text[7];
  EXPECT_EQ(*storage_.read(fd_.get(), text, 7, 0), 7u);
  EXPECT_EQ(std::string(text, 7), "weights");
}

TEST_F(PosixStorageTest, PreallocationLeavesTheSizeAlone) {
  constexpr std::uint64_t kSize = 8 << 20;
  ASSERT_EQ(::ftruncate(fd_.get(), 5000), 0);
  if (!storage_.preallocate(fd_.get(), 4096, kSize)) GTEST_SKIP() << "on this file system nothing is preallocated";

  struct stat status {};
  ASSERT_EQ(::fstat(fd_.get(), &status), 0);
  EXPECT_EQ(status.st_size, 5000);
  EXPECT_GE(static_cast<std::uint64_t>(status.st_blocks) * 512, kSize - 4096);
  EXPECT_FALSE(storage_.is_data(fd_.get(), 5000, 4096));
}

TEST_F(PosixStorageTest, WhatIsThereAlreadyIsNotPreallocatedASecondTime) {
  ASSERT_EQ(::ftruncate(fd_.get(), 0), 0);
  if (!storage_.preallocate(fd_.get(), 0, 8 << 20)) GTEST_SKIP() << "on this file system nothing is preallocated";

  EXPECT_FALSE(storage_.preallocate(fd_.get(), 0, 8 << 20)) << "it is not ours to give back";
}

TEST_F(PosixStorageTest, BlocksBehindTheEndAreReleasedAndTheFileStaysAsItIs) {
  if (!storage_.preallocate(fd_.get(), 0, 8 << 20)) GTEST_SKIP() << "on this file system nothing is preallocated";
  ASSERT_EQ(::fsync(fd_.get()), 0);

  EXPECT_TRUE(storage_.release_blocks_behind_end(fd_.get()));

  struct stat status {};
  ASSERT_EQ(::fstat(fd_.get(), &status), 0);
  EXPECT_LE(status.st_blocks * 512, 64 << 10);
  EXPECT_EQ(status.st_size, 7);
  char text[7];
  EXPECT_EQ(*storage_.read(fd_.get(), text, 7, 0), 7u);
  EXPECT_EQ(std::string(text, 7), "weights");
  EXPECT_EQ(::fcntl(fd_.get(), F_GETLEASE), F_UNLCK);
  EXPECT_EQ(::fcntl(fd_.get(), F_GETOWN), 0);
  EXPECT_EQ(::fcntl(fd_.get(), F_GETSIG), 0);
}

// Another process that has the file open may be extending it.
TEST_F(PosixStorageTest, BlocksBehindTheEndStayWhileOthersHaveTheFileOpen) {
  const UniqueFd other(::open(name_.c_str(), O_WRONLY | O_CLOEXEC));

  EXPECT_FALSE(storage_.release_blocks_behind_end(fd_.get()));
}

TEST_F(PosixStorageTest, AProgramsOwnLeaseIsLeftAlone) {
  if (::fcntl(fd_.get(), F_SETLEASE, F_WRLCK) != 0) GTEST_SKIP() << "no leases here";

  EXPECT_FALSE(storage_.release_blocks_behind_end(fd_.get()));

  EXPECT_EQ(::fcntl(fd_.get(), F_GETLEASE), F_WRLCK);
}

TEST_F(PosixStorageTest, WhatMakesNoFileLongerIsNotPreallocated) {
  ASSERT_EQ(::ftruncate(fd_.get(), 0), 0);
  ASSERT_EQ(::ftruncate(fd_.get(), 1 << 20), 0);
  const UniqueFd memory(::memfd_create("storage_test", MFD_CLOEXEC));
  const UniqueFd device(::open("/dev/null", O_RDWR));
  const UniqueFd reader(::open(name_.c_str(), O_RDONLY));

  EXPECT_FALSE(storage_.preallocate(fd_.get(), 0, 1 << 20)) << "it ends where the file ends";
  EXPECT_FALSE(storage_.preallocate(fd_.get(), 4096, 4096));
  EXPECT_FALSE(storage_.preallocate(reader.get(), 0, 2 << 20));
  EXPECT_FALSE(storage_.preallocate(memory.get(), 0, 4096));
  EXPECT_FALSE(storage_.preallocate(device.get(), 0, 4096));
  EXPECT_FALSE(storage_.preallocate(-1, 0, 4096));

  struct stat status {};
  ASSERT_EQ(::fstat(fd_.get(), &status), 0);
  EXPECT_EQ(status.st_size, 1 << 20);
  EXPECT_EQ(status.st_blocks, 0);
}

// Profiles of seccomp that are older than a call forbid it with EPERM, where a kernel that is older says ENOSYS.
int move_without_newer_calls(int fd, int error) {
  if (!forbid_calls(
          {SYS_preadv2, SYS_pwritev2, SYS_sync_file_range, SYS_statx, kCachestatCall, SYS_kcmp, SYS_renameat2}, error))
    return kFiltersRefused;
  PosixStorage storage(false);
  char bytes[7];
  if (!storage.facts(fd).ok()) return 1;
  const Result<std::size_t> put = storage.write(fd, "WEIGHTS", 7, 0);
  if (!put.ok() || *put != 7) return 2;
  const Result<std::size_t> got = storage.read(fd, bytes, 7, 0);
  if (!got.ok() || *got != 7 || std::memcmp(bytes, "WEIGHTS", 7) != 0) return 3;
  if (!storage.flush(fd, 0, 7).ok()) return 4;
  if (!storage.read_if_cached(fd, bytes, 7, 0).status().is_errno(EAGAIN)) return 5;
  return storage.is_resident(fd, 0, 7) ? 0 : 6;
}

TEST_F(PosixStorageTest, WhereNewerCallsAreForbiddenOlderOnesDo) {
  for (const int error : {EPERM, ENOSYS}) {
    const int outcome = in_child([&] { return move_without_newer_calls(fd_.get(), error); });
    if (outcome == kFiltersRefused) GTEST_SKIP() << "seccomp filters are refused here";
    EXPECT_EQ(outcome, 0) << error;
  }
}

// Kernels before 6.1 have no statx that tells of direct I/O; the sector is asked of the block device itself.
int look_at_drive_without_statx(int drive) {
  if (!forbid_calls({SYS_statx})) return kFiltersRefused;
  const Result<FileFacts> facts = PosixStorage(false).facts(drive);
  if (!facts.ok() || facts->alignment_source != AlignmentSource::block_device) return 1;
  return facts->direct_offset_align == 512 && facts->direct_memory_align == 512 ? 0 : 2;
}

TEST_F(PosixStorageTest, ABlockDeviceTellsItsSizeAndItsSectorOnEveryKernel) {
  const LoopFileSystem place("ext4", "mkfs.ext4 -q -F", {.size = "8M"});
  if (!place.failure().empty()) GTEST_SKIP() << place.failure();

  const FileFacts facts = *storage_.facts(place.drive());
  const int outcome = in_child([&] { return look_at_drive_without_statx(place.drive()); });

  EXPECT_EQ(facts.type, FileType::block_device);
  EXPECT_EQ(facts.size, 8u << 20);
  EXPECT_EQ(facts.direct_offset_align, 512u);
  EXPECT_EQ(*storage_.size(place.drive()), 8u << 20);
  if (outcome == kFiltersRefused) GTEST_SKIP() << "seccomp filters are refused here";
  EXPECT_EQ(outcome, 0);
}

// A file that forbids the newer call forbids the older one as well, so there is no fallback.
TEST_F(PosixStorageTest, AWriteThatAFileForbidsIsNoCallThatIsMissing) {
  const UniqueFd sealed(::memfd_create("storage_test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(sealed.get(), 4096), 0);
  ASSERT_EQ(::fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);

  EXPECT_TRUE(storage_.write(sealed.get(), "x", 1, 0).status().is_errno(EPERM));
}

}  // namespace
}  // namespace penstock::core
