// SPDX-License-Identifier: Apache-2.0

// Files, and parts of files, that are not read straight from their drive; and bytes that are only in the page cache.
#include <grp.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "fakes/held_fixture.h"
#include "storage/cachestat.h"

namespace penstock::core {
namespace {

class UnfitFiles : public HeldFile {
 protected:
  // Sets a flag of chattr; false if the file system has none such.
  bool set_flag(const char* name, unsigned flag) {
    const UniqueFd fd = open_file(O_RDONLY, name);
    unsigned flags = 0;
    if (::ioctl(fd.get(), FS_IOC_GETFLAGS, &flags) != 0) return false;
    flags |= flag;
    return ::ioctl(fd.get(), FS_IOC_SETFLAGS, &flags) == 0;
  }
  void make(const char* name, const std::string& content) {
    const UniqueFd fd = open_file(O_WRONLY | O_CREAT | O_TRUNC, name);
    EXPECT_EQ(::write(fd.get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
  }
  // Makes "clone", which shares all blocks of "file"; false if the file system cannot.
  bool clone() {
    const UniqueFd source = open_file(O_RDONLY);
    const UniqueFd clone = open_file(O_RDWR | O_CREAT, "clone");
    return ::ioctl(clone.get(), FICLONE, source.get()) == 0;
  }
};

class HeldRanges : public UnfitFiles {};

TEST_P(UnfitFiles, OneThatSomebodyHasOpenForWritingIsRefused) {
  const UniqueFd writer = open_file(O_WRONLY);
  EXPECT_EQ(open(), "writers");
}

TEST_P(UnfitFiles, OneThatTheProgramItselfHasOpenForWritingIsRefused) {
  EXPECT_EQ(open(kPatient, "file", O_RDWR), "writers");
}

TEST_P(UnfitFiles, OneThatIsStillMappedForWritingIsRefused) {
  UniqueFd fd = open_file(O_RDWR);
  void* const at = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(at, MAP_FAILED);
  fd.reset();

  EXPECT_EQ(open(), "writers");

  ::munmap(at, 4096);
  EXPECT_EQ(open(), "");
}

// A lease is for the file's owner; root may take any.
TEST_P(UnfitFiles, OneOfAnotherUserIsRefused) {
  const std::string folder = files_.path("");
  ASSERT_EQ(::chmod(folder.c_str(), 0755), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_other =
        ::setgroups(0, nullptr) == 0 && ::setresgid(1000, 1000, 1000) == 0 && ::setresuid(1000, 1000, 1000) == 0;
    const UniqueFd user = open_file(O_RDONLY);
    const auto file = File::open(storage_, user.get());
    const auto with_drive = HeldExtents::open(**file, files_.drive(), kPatient);
    const auto without = HeldExtents::open(**file, -1, kPatient);
    const bool is_denied = with_drive.cause == ExtentCause::lease_denied && without.cause == ExtentCause::drive_node;
    ::_exit(is_other && is_denied && without.error == EACCES ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_P(UnfitFiles, ItsDriveIsTheOneOfItsNumber) {
  const UniqueFd user = open_file(O_RDONLY);
  const auto file = File::open(storage_, user.get());
  const FilesOnDrive others(GetParam());
  ASSERT_EQ(others.failure(), "");

  const auto wrong = HeldExtents::open(**file, others.drive(), kPatient);
  const auto found = HeldExtents::open(**file, -1, kPatient);

  EXPECT_EQ(wrong.cause, ExtentCause::drive_node);
  EXPECT_EQ(wrong.error, ENXIO);
  EXPECT_STREQ(name_of(found.cause), "none") << found.error;
}

TEST_P(UnfitFiles, DataInTheJournalIsRefused) {
  if (is_xfs()) GTEST_SKIP() << "XFS journals no data";
  if (!set_flag("file", FS_JOURNAL_DATA_FL)) GTEST_SKIP() << "chattr +j needs CAP_SYS_RESOURCE";
  EXPECT_EQ(open(), "journaled");
}

TEST_P(UnfitFiles, DataThatGoesIntoTheJournalFromNowOnIsRefused) {
  if (is_xfs()) GTEST_SKIP() << "XFS journals no data";
  ASSERT_EQ(open(), "");
  if (!set_flag("file", FS_JOURNAL_DATA_FL)) GTEST_SKIP() << "chattr +j needs CAP_SYS_RESOURCE";
  EXPECT_EQ(hold(), "journaled");
}

TEST_P(HeldRanges, HolesAndWhatWasOnlyAllocatedHaveCauses) {
  files_.write("old", FilesOnDrive::kForeign, 4 * kBytes);
  files_.remove("old");
  files_.sync();
  {
    const UniqueFd fd = open_file(O_RDWR | O_CREAT, "sparse");
    ASSERT_TRUE(files_.write(fd.get(), FilesOnDrive::kOwn));
    ASSERT_EQ(::fallocate(fd.get(), 0, kBytes, kBytes), 0);
    ASSERT_EQ(::ftruncate(fd.get(), 3 * kBytes), 0);
    ASSERT_EQ(::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096), 0);
    ASSERT_EQ(::fallocate(fd.get(), FALLOC_FL_ZERO_RANGE, 16384, 4096), 0);
  }
  ASSERT_EQ(open(kPatient, "sparse"), "");
  ASSERT_EQ(hold(), "none");

  EXPECT_EQ(read(0, 4096), "0");
  EXPECT_EQ(read(4096, 4096), "hole");
  EXPECT_EQ(read(8192, 8192), "0");
  EXPECT_EQ(read(16384, 512), "unwritten");
  EXPECT_EQ(read(65536, 65536), "0");
  EXPECT_EQ(read(kBytes, kBytes), "unwritten");
  EXPECT_EQ(read(kBytes - 512, 1024), "unwritten");
  EXPECT_EQ(read(2 * kBytes, 4096), "hole");
  EXPECT_EQ(read(3 * kBytes, 512), "beyond_end");
  EXPECT_EQ(read(100, 512), "misaligned");
  EXPECT_EQ(intact(65536, 65536), "none");
  held_->let_go();
}

TEST_P(HeldRanges, BytesThatAreOnlyInThePageCacheAreWrittenBackFirst) {
  DirectMemory words(kBytes / 8);
  for (std::uint64_t i = 0; i < kBytes / 8; ++i) words.words()[i] = FilesOnDrive::word(8 * i, 7);
  {
    const UniqueFd fd = open_file(O_WRONLY);
    ASSERT_EQ(::pwrite(fd.get(), words.words(), kBytes, 0), static_cast<ssize_t>(kBytes));
  }
  ASSERT_EQ(open(), "");

  ASSERT_EQ(hold(), "none");

  EXPECT_EQ(read(0, kBytes, 7), "0");
  held_->let_go();
}

TEST_P(HeldRanges, StoresThroughAMappingAreWrittenBackFirst) {
  {
    const UniqueFd fd = open_file(O_RDWR);
    void* const at = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    ASSERT_NE(at, MAP_FAILED);
    auto* const words = static_cast<std::uint64_t*>(at);
    for (std::uint64_t i = 0; i < kBytes / 8; ++i) words[i] = FilesOnDrive::word(8 * i, 8);
    ::munmap(at, kBytes);
  }
  ASSERT_EQ(open(), "");

  ASSERT_EQ(hold(), "none");

  EXPECT_EQ(read(0, kBytes, 8), "0");
  held_->let_go();
}

// Between two holds others write: each hold asks anew.
TEST_P(HeldRanges, WhatWasWrittenBetweenTwoHoldsIsRead) {
  ASSERT_EQ(open(), "");
  ASSERT_EQ(hold(), "none");
  held_->let_go();
  files_.remove("other");
  {
    const UniqueFd fd = open_file(O_RDWR | O_TRUNC);
    files_.write("other", FilesOnDrive::kForeign);
    ASSERT_TRUE(files_.write(fd.get(), 9));
  }

  ASSERT_EQ(hold(), "none");

  EXPECT_EQ(read(0, kBytes, 9), "0");
  held_->let_go();
}

TEST_P(HeldRanges, BlocksThatFilesShareAreRead) {
  if (!is_xfs()) GTEST_SKIP() << "ext4 shares no blocks";
  ASSERT_TRUE(clone());
  for (const char* name : {"file", "clone"}) {
    ASSERT_EQ(open(kPatient, name), "");
    ASSERT_EQ(hold(), "none");
    EXPECT_EQ(read(), "0");
    EXPECT_EQ(intact(), "none");
    held_->let_go();
  }
}

TEST_P(HeldRanges, AShortFileIsReadUpToTheSectorThatItEndsIn) {
  make("short", std::string(5000, 'x'));
  ASSERT_EQ(open(kPatient, "short"), "");
  ASSERT_EQ(hold(), "none");

  DrivePiece piece;
  EXPECT_EQ(held_->map(0, 5120, {&piece, 1}).cause, ExtentCause::none);
  EXPECT_EQ(read(0, 5632), "beyond_end");
  held_->let_go();
}

TEST_P(UnfitFiles, OtherFileSystemsAreRefused) {
  const auto cause_in = [&](const std::string& folder) {
    UniqueFd fd(::open((folder + "/penstock-unfit").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!fd.valid()) return std::string("no file in ") + folder;
    (void)!::write(fd.get(), "text", 4);
    fd = UniqueFd(::open((folder + "/penstock-unfit").c_str(), O_RDONLY | O_CLOEXEC));
    ::unlink((folder + "/penstock-unfit").c_str());
    return keep(HeldExtents::open(std::move(fd), -1, kPatient));
  };
  EXPECT_EQ(cause_in("/dev/shm"), "file_system");
  EXPECT_EQ(keep(HeldExtents::open(UniqueFd(::open("/dev/null", O_RDONLY)), -1, kPatient)), "not_a_file");
}

// The bytes in an inode have no place of their own on the drive.
TEST(UnfitInlineFiles, ASmallFileInItsInodeIsRefused) {
  LoopFileSystem place("ext4", "mkfs.ext4 -q -F -I 256 -O inline_data", {.size = "16M"});
  if (!place.failure().empty()) GTEST_SKIP() << place.failure();
  const auto cause_of = [&](const std::string& content) {
    UniqueFd fd(::open(place.path("small").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    EXPECT_EQ(::write(fd.get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
    fd = UniqueFd(::open(place.path("small").c_str(), O_RDONLY | O_CLOEXEC));
    return HeldExtents::open(std::move(fd), place.drive(), {}).cause;
  };
  EXPECT_STREQ(name_of(cause_of("forty bytes")), "inline_data");
  EXPECT_STREQ(name_of(cause_of(std::string(9000, 'x'))), "none");
}

TEST(UnfitJournaledFiles, AllDataOfAFileSystemMayGoThroughTheJournal) {
  LoopFileSystem place("ext4", "mkfs.ext4 -q -F", {.size = "24M", .options = "data=journal"});
  if (!place.failure().empty()) GTEST_SKIP() << place.failure();
  UniqueFd fd(::open(place.path("file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  ASSERT_EQ(::write(fd.get(), "text", 4), 4);
  fd = UniqueFd(::open(place.path("file").c_str(), O_RDONLY | O_CLOEXEC));

  EXPECT_STREQ(name_of(HeldExtents::open(std::move(fd), place.drive(), {}).cause), "journaled");
}

// The node of the whole drive has other bytes at the same place.
TEST(UnfitPartitions, AFileOnAPartitionIsReadFromThePartitionsNode) {
  FilesOnDrive files("ext4", true);
  if (!files.failure().empty()) GTEST_SKIP() << files.failure();
  files.write("file", FilesOnDrive::kOwn);
  const auto open = [&](int drive) {
    return HeldExtents::open(UniqueFd(::open(files.path("file").c_str(), O_RDONLY | O_CLOEXEC)), drive, {});
  };

  const auto by_whole = open(files.open_whole_drive().get());
  const auto found = open(-1);

  EXPECT_STREQ(name_of(by_whole.cause), "drive_node");
  EXPECT_EQ(by_whole.error, ENXIO);
  ASSERT_STREQ(name_of(found.cause), "none") << found.error;
  ASSERT_EQ(found.extents->hold(), ExtentCause::none);
  DrivePiece piece;
  ASSERT_EQ(found.extents->map(0, 4096, {&piece, 1}).cause, ExtentCause::none);
  EXPECT_EQ(files.wrong_words(piece.drive_offset, 0, 4096), 0u);
  found.extents->let_go();
}

// ---- A file that is written on its drive ---------------------------------------------------------------------------

class WrittenFiles : public UnfitFiles {
 protected:
  static constexpr HeldExtents::Terms kWritten{.linger = std::chrono::hours(1), .refuses_for = {}, .is_written = true};

  void SetUp() override {
    UnfitFiles::SetUp();
    if (!IsSkipped() && !count_cached_pages(-1, 0, 0) && errno == ENOSYS) {
      GTEST_SKIP() << "this kernel has no cachestat (Linux 6.5)";
    }
  }
  std::string open_written(const char* name = "file") {
    const std::string cause = open(kWritten, name, O_RDWR | O_DIRECT);
    user_.reset();  // The program's one open is the registered file's.
    if (!cause.empty()) return cause;
    return keep(HeldExtents::open(*file_, files_.drive(), kWritten));
  }
  // Writes past the file system.
  void write_drive(std::uint64_t offset, std::uint64_t bytes, std::uint64_t whose) {
    struct stat facts {};
    ASSERT_EQ(::fstat(file_->own_descriptor(), &facts), 0);
    const Result<UniqueFd> node = open_drive_node(facts.st_dev, O_RDWR);
    ASSERT_TRUE(node.ok());
    DrivePiece pieces[64];
    const ExtentMap::Found found = held_->map(offset, bytes, pieces);
    ASSERT_STREQ(name_of(found.cause), "none");
    DirectMemory words(kBytes / 8);
    for (unsigned i = 0; i < found.count; offset += pieces[i++].bytes) {
      const std::uint64_t size = pieces[i].bytes;
      for (std::uint64_t at = 0; at < size / 8; ++at) words.words()[at] = FilesOnDrive::word(offset + 8 * at, whose);
      const auto place = static_cast<off_t>(pieces[i].drive_offset);
      ASSERT_EQ(::pwrite(node->get(), words.words(), size, place), static_cast<ssize_t>(size));
    }
  }
  // The words of the file that are not those, as any program reads it.
  std::uint64_t wrong_in_file(std::uint64_t whose, std::uint64_t bytes = kBytes) {
    const UniqueFd fd = open_file(O_RDONLY);
    std::vector<std::uint64_t> words(bytes / 8);
    EXPECT_EQ(::pread(fd.get(), words.data(), bytes, 0), static_cast<ssize_t>(bytes));
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < bytes / 8; ++i) wrong += words[i] != FilesOnDrive::word(8 * i, whose);
    return wrong;
  }
};

TEST_P(WrittenFiles, WhatIsWrittenOnTheDriveIsInTheFile) {
  ASSERT_EQ(open_written(), "");
  ASSERT_EQ(hold(), "none");
  write_drive(0, kBytes, 9);
  EXPECT_EQ(intact(), "none");
  held_->let_go();
  EXPECT_EQ(wrong_in_file(9), 0u);
}

// The cache's page would hide the drive's new bytes, and a dirty one would undo them.
TEST_P(WrittenFiles, PagesInTheCacheAreDroppedFirst) {
  EXPECT_EQ(wrong_in_file(FilesOnDrive::kOwn), 0u);
  {
    const UniqueFd fd = open_file(O_WRONLY);
    ASSERT_EQ(::pwrite(fd.get(), "dirty", 5, 8192), 5);
  }
  ASSERT_EQ(open_written(), "");
  ASSERT_EQ(hold(), "none");
  write_drive(0, kBytes, 9);
  held_->let_go();
  files_.sync();
  EXPECT_EQ(wrong_in_file(9), 0u);
}

// The kernel drops no page that is mapped. A mapping of the program's own open is nobody else's.
TEST_P(WrittenFiles, PagesThatTheCacheCannotDropAreRefused) {
  ASSERT_EQ(open_written(), "");
  void* const at = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED | MAP_POPULATE, file_->own_descriptor(), 0);
  ASSERT_NE(at, MAP_FAILED);
  EXPECT_EQ(hold(), "cached");
  EXPECT_EQ(::fcntl(file_->own_descriptor(), F_GETLEASE), F_UNLCK) << "nobody waits for a file that is not held";

  ::munmap(at, 4096);

  ASSERT_EQ(hold(), "none");
  write_drive(0, kBytes, 9);
  held_->let_go();
  EXPECT_EQ(wrong_in_file(9), 0u);
}

TEST_P(WrittenFiles, OneThatIsStillMappedIsRefused) {
  UniqueFd reader = open_file(O_RDONLY);
  void* const at = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED | MAP_POPULATE, reader.get(), 0);
  ASSERT_NE(at, MAP_FAILED);
  reader.reset();
  EXPECT_EQ(open_written(), "writers");
  ::munmap(at, kBytes);
}

TEST_P(WrittenFiles, OneThatIsOpenElsewhereIsRefused) {
  const UniqueFd reader = open_file(O_RDONLY);
  EXPECT_EQ(open_written(), "writers");
}

TEST_P(WrittenFiles, WhoeverOpensItLaterWaitsForTheWrite) {
  ASSERT_EQ(open_written(), "");
  ASSERT_EQ(hold(), "none");
  EXPECT_EQ(open_error(O_RDONLY), EWOULDBLOCK);
  EXPECT_EQ(intact(), "lease_lost") << "somebody waits";
  held_->let_go();
  EXPECT_EQ(hold(), "none");
  held_->let_go();
}

TEST_P(WrittenFiles, BlocksThatOthersShareAreRefused) {
  if (!is_xfs()) GTEST_SKIP() << "ext4 shares no blocks";
  ASSERT_TRUE(clone());
  ASSERT_EQ(open_written(), "");
  ASSERT_EQ(hold(), "none");
  EXPECT_EQ(read(), "shared");
  held_->let_go();
}

TEST_P(WrittenFiles, WhatWasOnlyAllocatedIsFitOnceTheFileSystemHasWrittenIt) {
  {
    const UniqueFd fd = open_file(O_RDWR | O_CREAT, "allocated");
    ASSERT_EQ(::posix_fallocate(fd.get(), 0, kBytes), 0);
  }
  ASSERT_EQ(open_written("allocated"), "");
  ASSERT_EQ(hold(), "none");
  EXPECT_EQ(read(), "unwritten");
  ASSERT_TRUE(files_.write(file_->own_descriptor(), FilesOnDrive::kOwn));
  held_->let_go();
  ASSERT_EQ(hold(), "none") << "it asks anew where the file lies";
  EXPECT_EQ(read(), "0");
  held_->let_go();
}

const auto kFileSystems = testing::Values("ext4", "xfs");
std::string name_of_place(const testing::TestParamInfo<const char*>& place) { return place.param; }
INSTANTIATE_TEST_SUITE_P(FileSystem, UnfitFiles, kFileSystems, name_of_place);
INSTANTIATE_TEST_SUITE_P(FileSystem, WrittenFiles, kFileSystems, name_of_place);
INSTANTIATE_TEST_SUITE_P(FileSystem, HeldRanges, kFileSystems, name_of_place);

}  // namespace
}  // namespace penstock::core
