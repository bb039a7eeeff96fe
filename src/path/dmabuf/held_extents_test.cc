// SPDX-License-Identifier: Apache-2.0

// A held file: others who want it meanwhile, and how the lease comes and goes.
#include "path/dmabuf/held_extents.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>
#include <vector>

#include "fakes/forbidden_calls.h"
#include "fakes/held_fixture.h"
#include "fakes/waiting.h"
#include "path/dmabuf/dmabuf_file.h"
#include "path/dmabuf/dmabuf_reasons.h"
#include "path/reasons.h"

namespace penstock::core {
namespace {

using HeldExtentsTest = HeldFile;

TEST_P(HeldExtentsTest, AHeldFileIsReadFromItsDrive) {
  ASSERT_EQ(open(), "");

  ASSERT_EQ(hold(), "none");

  EXPECT_EQ(read(), "0");
  EXPECT_EQ(read(kBytes / 2, 4096), "0");
  EXPECT_EQ(intact(), "none");
  EXPECT_EQ(intact(kBytes / 2, 4096), "none");
  EXPECT_FALSE(held_->is_exclusive()) << "the program has the file open, too";
  held_->let_go();
}

TEST_P(HeldExtentsTest, AWriterWaitsUntilTheLastRequestEnds) {
  ASSERT_EQ(open(), "");
  ASSERT_EQ(hold(), "none");
  ASSERT_EQ(hold(), "none");

  EXPECT_EQ(open_error(O_WRONLY), EWOULDBLOCK);

  EXPECT_EQ(read(), "0");
  EXPECT_EQ(intact(), "lease_lost") << "the kernel lets in whoever asked when its time is over";
  wait_until_asked();
  held_->let_go();
  EXPECT_EQ(open_error(O_WRONLY), EWOULDBLOCK) << "one more is under way";
  held_->let_go();
  EXPECT_EQ(open_error(O_WRONLY), 0);
  ASSERT_EQ(hold(), "none");
  EXPECT_EQ(intact(), "none");
  held_->let_go();
}

TEST_P(HeldExtentsTest, ReadersAreNotKeptOut) {
  ASSERT_EQ(open(), "");
  ASSERT_EQ(hold(), "none");

  EXPECT_EQ(open_error(O_RDONLY), 0);

  EXPECT_EQ(intact(), "none");
  held_->let_go();
}

TEST_P(HeldExtentsTest, WithNoRequestUnderWayAWriterIsLetIn) {
  ASSERT_EQ(open(), "");
  ASSERT_EQ(hold(), "none");
  held_->let_go();

  const UniqueFd writer = open_file(O_WRONLY);

  EXPECT_TRUE(writer.valid());
  EXPECT_EQ(hold(), "writers");
}

TEST_P(HeldExtentsTest, ALittleBehindTheLastRequestTheLeaseIsGivenBackUnasked) {
  UniqueFd own = open_file(O_RDONLY);
  const int number = own.get();
  ASSERT_EQ(keep(HeldExtents::open(std::move(own), files_.drive(), {.linger = std::chrono::milliseconds(1)})), "");
  ASSERT_EQ(hold(), "none");
  EXPECT_EQ(::fcntl(number, F_GETLEASE), F_WRLCK);

  held_->let_go();

  EXPECT_TRUE(wait_until([&] { return ::fcntl(number, F_GETLEASE) == F_UNLCK; }));
}

TEST_P(HeldExtentsTest, ARefusalIsRemembered) {
  ASSERT_EQ(open({.linger = std::chrono::hours(1), .refuses_for = std::chrono::hours(1)}), "");
  UniqueFd writer = open_file(O_WRONLY);
  ASSERT_EQ(hold(), "writers");

  writer.reset();

  EXPECT_EQ(hold(), "writers") << "for an hour";
}

TEST_P(HeldExtentsTest, OnlyOpenFileIsHeldAgainstReadersToo) {
  ASSERT_EQ(open_alone(), "");
  ASSERT_EQ(hold(), "none");
  EXPECT_TRUE(held_->is_exclusive());

  EXPECT_EQ(open_error(O_RDONLY), EWOULDBLOCK);

  EXPECT_EQ(intact(), "lease_lost");
  wait_until_asked();
  held_->let_go();
  const UniqueFd reader = open_file(O_RDONLY);
  ASSERT_EQ(hold(), "none");
  EXPECT_FALSE(held_->is_exclusive());
  held_->let_go();
}

TEST_P(HeldExtentsTest, AFileThatIsUnlinkedKeepsItsBlocks) {
  ASSERT_EQ(open(), "");
  ASSERT_EQ(hold(), "none");

  files_.remove("file");
  files_.write("other", FilesOnDrive::kForeign, 4 * kBytes);

  EXPECT_EQ(read(), "0");
  EXPECT_EQ(intact(), "none");
  held_->let_go();
}

// A host that knows nothing of leases has SIGIO's default, which ends the process.
TEST_P(HeldExtentsTest, TheSignalEndsNoProcess) {
  struct sigaction action {};
  ASSERT_EQ(::sigaction(SIGIO, nullptr, &action), 0);
  ASSERT_EQ(action.sa_handler, SIG_DFL);
  ASSERT_EQ(open(), "");
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(hold(), "none");
    EXPECT_EQ(open_error(O_WRONLY), EWOULDBLOCK);
    wait_until_asked();
    held_->let_go();
  }
}

TEST_P(HeldExtentsTest, AProgramThatIgnoresTheSignalGivesTheLeaseBack) {
  ASSERT_EQ(open(), "");
  ASSERT_EQ(hold(), "none");
  held_->let_go();
  const auto before = ::signal(SIGIO, SIG_IGN);

  EXPECT_TRUE(open_file(O_WRONLY).valid());

  (void)::signal(SIGIO, before);
}

// The thread of the parent is not there; the parent's lease stays.
TEST_P(HeldExtentsTest, AForkedChildHoldsOnlyWhatItOpensItself) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer lets the child of a process with threads start none";
#endif
  ASSERT_EQ(open(), "");
  ASSERT_EQ(hold(), "none");

  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_refused = held_->hold() == ExtentCause::inherited;
    held_->let_go();
    held_.reset();
    const bool is_opened = open().empty() && hold() == "none" && read() == "0" && intact() == "none";
    ::_exit(is_refused && is_opened ? 0 : 1);
  }

  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(intact(), "none");
  held_->let_go();
}

TEST_P(HeldExtentsTest, ADescriptorThatTheProgramClosedIsLeftAlone) {
  UniqueFd own = open_file(O_RDONLY);
  const int number = own.get();
  ASSERT_EQ(keep(HeldExtents::open(std::move(own), files_.drive(), kPatient)), "");
  ASSERT_EQ(hold(), "none");
  ::close(number);
  const UniqueFd other(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(other.get(), number);

  EXPECT_EQ(intact(), "lease_lost");

  held_->let_go();
  EXPECT_TRUE(open_file(O_WRONLY).valid());
  EXPECT_EQ(hold(), "descriptor_lost");
  held_.reset();
  EXPECT_GE(::fcntl(number, F_GETFD), 0);
}

// Threads hold and let go while a writer comes again and again.
// In a child, since the calls stay forbidden.
TEST_P(HeldExtentsTest, WhatTheSystemRefusesIsToldByItsCause) {
  const std::string path = files_.path("file");
  const int drive = files_.drive();
  const auto cause_without = [&](long call, bool is_open) {
    const UniqueFd user(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const auto file = File::open(storage_, user.get());
    if (!is_open && !forbid_calls({call})) return kFiltersRefused;
    const HeldExtents::Opened opened = HeldExtents::open(**file, drive, kPatient);
    if (opened.extents == nullptr) return static_cast<int>(opened.cause);
    if (opened.extents->hold() != ExtentCause::none || !forbid_calls({call})) return kFiltersRefused;
    const ExtentCause cause = opened.extents->is_intact(0, kBytes);
    opened.extents->let_go();
    return static_cast<int>(cause == ExtentCause::extents_unknown ? opened.extents->hold() : cause);
  };
  EXPECT_EQ(in_child([&] { return cause_without(SYS_openat, false); }), static_cast<int>(ExtentCause::not_readable));
  EXPECT_EQ(in_child([&] { return cause_without(SYS_ioctl, true); }), static_cast<int>(ExtentCause::extents_unknown));
}

TEST_P(HeldExtentsTest, ADescriptorOfNoFileIsNotReadable) {
  const HeldExtents::Opened opened = HeldExtents::open(UniqueFd(), files_.drive(), kPatient);
  EXPECT_EQ(opened.cause, ExtentCause::not_readable);
  EXPECT_EQ(opened.error, EBADF);
}

TEST_P(HeldExtentsTest, ADrivesNodeIsTakenForNoOther) {
  struct stat facts {};
  ASSERT_EQ(::fstat(files_.drive(), &facts), 0);
  const Result<std::uint32_t> sector = drive_sector(files_.drive(), facts.st_rdev);
  ASSERT_TRUE(sector.ok());
  EXPECT_EQ(*sector % 512, 0u);
  EXPECT_TRUE(drive_sector(files_.drive(), facts.st_rdev + 1).status().is_errno(ENXIO));
  EXPECT_TRUE(drive_sector(open_file(O_RDONLY).get(), facts.st_dev).status().is_errno(ENXIO)) << "no drive";
  EXPECT_TRUE(drive_sector(-1, facts.st_rdev).status().is_errno(EBADF));
  EXPECT_TRUE(open_drive_node(makedev(511, 4711)).status().is_errno(ENODEV)) << "the system knows none";
}

TEST_P(HeldExtentsTest, ManyThreadsHoldAFileThatOthersWant) {
  ASSERT_EQ(open(), "");
  std::atomic<int> held{0};
  std::atomic<int> wrong{0};
  std::atomic<bool> ends{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!ends) {
        if (held_->hold() != ExtentCause::none) continue;
        DrivePiece pieces[64];
        const bool is_mapped = held_->map(0, kBytes, pieces).cause == ExtentCause::none;
        const ExtentCause cause = held_->is_intact(0, kBytes);
        if (!is_mapped || (cause != ExtentCause::none && cause != ExtentCause::lease_lost)) ++wrong;
        held_->let_go();
        ++held;
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    const int before = held;
    EXPECT_TRUE(open_file(O_WRONLY).valid());
    EXPECT_TRUE(wait_until([&] { return held > before; }));
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(HeldExtentsTest, AsAFileOfThePathItIsFoundOnTheDriveOfItsFileSystem) {
  user_ = open_file(O_RDONLY);
  file_ = std::move(File::open(storage_, user_.get()).value());
  DmabufDrives drives(storage_);
  const DmabufFile::Opened opened = open_file_on_drive(*file_, drives, false);
  ASSERT_NE(opened.file, nullptr);
  ASSERT_EQ(opened.file->hold(), Reason::none);

  DrivePiece pieces[64];
  unsigned count = 0;
  ASSERT_EQ(opened.file->find(0, kBytes, pieces, count), Reason::none);

  std::uint64_t at = 0;
  for (unsigned i = 0; i < count; at += pieces[i++].bytes) {
    EXPECT_EQ(files_.wrong_words(pieces[i].drive_offset, at, pieces[i].bytes, FilesOnDrive::kOwn), 0u) << at;
  }
  EXPECT_EQ(at, kBytes);
  EXPECT_EQ(opened.file->end(), kBytes);
  EXPECT_TRUE(opened.file->is_intact(0, kBytes));
  EXPECT_TRUE(opened.file->is_flushed_by_write()) << "the file's flush knows nothing of writes to its drive";
  opened.file->let_go();
  EXPECT_TRUE(open_file(O_WRONLY).valid()) << "the lease is given back";
}

TEST_P(HeldExtentsTest, AsAFileOfThePathItSaysWhyItIsNoneAndWhetherThatMayPass) {
  ASSERT_EQ(::ftruncate(open_file(O_RDWR | O_CREAT, "hole").get(), kBytes), 0);
  DmabufDrives drives(storage_);
  const auto open_as_path = [&](const char* name) {
    user_ = open_file(O_RDONLY, name);
    file_ = std::move(File::open(storage_, user_.get()).value());
    return open_file_on_drive(*file_, drives, false);
  };
  UniqueFd writer = open_file(O_WRONLY);

  const DmabufFile::Opened written = open_as_path("file");

  EXPECT_EQ(written.file, nullptr);
  EXPECT_EQ(written.why_not.reason, dmabuf_reason::written);
  EXPECT_TRUE(written.is_passing);
  writer.reset();
  const DmabufFile::Opened hole = open_as_path("hole");
  ASSERT_NE(hole.file, nullptr);
  ASSERT_EQ(hole.file->hold(), Reason::none);
  DrivePiece pieces[4];
  unsigned count = 0;
  EXPECT_EQ(hole.file->find(0, 4096, pieces, count), reason_of(Obstacle::holes));
  hole.file->let_go();
}

// Tells nothing of drives' nodes.
class NodelessStorage final : public PosixStorage {
 public:
  NodelessStorage() : PosixStorage(false) {}
  Result<FileFacts> facts(int fd) override {
    Result<FileFacts> facts = PosixStorage::facts(fd);
    if (facts.ok() && facts->type == FileType::block_device) return os_failure(EIO, "look at a node as scripted");
    return facts;
  }
};

TEST_P(HeldExtentsTest, AsAFileOfThePathItNeedsItsDrivesNode) {
  NodelessStorage storage;
  DmabufDrives drives(storage);
  for (const bool is_written : {false, true}) {
    user_ = open_file(is_written ? O_RDWR : O_RDONLY);
    file_ = std::move(File::open(storage, user_.get()).value());
    const DmabufFile::Opened opened = open_file_on_drive(*file_, drives, is_written);
    EXPECT_EQ(opened.file, nullptr);
    EXPECT_EQ(opened.why_not.reason, dmabuf_reason::drive_node) << is_written;
    EXPECT_EQ(opened.why_not.error, EIO);
    file_.reset();
  }
}

INSTANTIATE_TEST_SUITE_P(FileSystem, HeldExtentsTest, testing::Values("ext4", "xfs"),
                         [](const auto& place) { return std::string(place.param); });

}  // namespace
}  // namespace penstock::core
