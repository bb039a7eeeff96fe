// SPDX-License-Identifier: Apache-2.0

// Files on ext4 and XFS whose bytes are read from the drive below, while somebody wants to write to them. Direct reads
// of the loop device's node stand for the reads of the path dmabuf.
#include "path/dmabuf/held_extents.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <thread>

#include "fakes/file_on_drive.h"
#include "fakes/waiting.h"
#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kBytes = FilesOnDrive::kBytes;
constexpr HeldExtents::Terms kPatient{.linger = std::chrono::hours(1), .refuses_for = {}};

class HeldExtentsTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!files_.failure().empty()) GTEST_SKIP() << files_.failure();
    files_.write("file", FilesOnDrive::kOwn);
  }
  bool is_xfs() const { return std::string(GetParam()) == "xfs"; }
  UniqueFd open_file(int flags, const char* name = "file") {
    return UniqueFd(::open(files_.path(name).c_str(), flags | O_CLOEXEC, 0644));
  }
  // The cause, or "" with the file open.
  std::string open(const HeldExtents::Terms& terms = kPatient, const char* name = "file") {
    user_ = open_file(O_RDONLY, name);
    file_ = std::move(File::open(storage_, user_.get()).value());
    return keep(HeldExtents::open(*file_, files_.drive(), terms));
  }
  std::string open_alone() { return keep(HeldExtents::open(open_file(O_RDONLY), files_.drive(), kPatient)); }
  std::string keep(HeldExtents::Opened opened) {
    held_ = std::move(opened.extents);
    return opened.cause == ExtentCause::none ? "" : name_of(opened.cause);
  }
  std::string hold() { return name_of(held_->hold()); }
  std::string intact(std::uint64_t offset = 0, std::uint64_t bytes = kBytes) {
    return name_of(held_->is_intact(offset, bytes));
  }
  // The cause, or the number of words that are not the file's.
  std::string read(std::uint64_t offset = 0, std::uint64_t bytes = kBytes) {
    DrivePiece pieces[64];
    const ExtentMap::Found found = held_->map(offset, bytes, pieces);
    if (found.cause != ExtentCause::none) return name_of(found.cause);
    std::uint64_t wrong = 0;
    for (unsigned i = 0; i < found.count; offset += pieces[i++].bytes) {
      wrong += files_.wrong_words(pieces[i].drive_offset, offset, pieces[i].bytes);
    }
    return std::to_string(wrong);
  }
  // The errno of opening without waiting, which asks for the lease; 0: opened.
  int open_error(int flags) { return open_file(flags | O_NONBLOCK).valid() ? 0 : errno; }

  FilesOnDrive files_{GetParam()};
  PosixStorage storage_{false};
  UniqueFd user_;
  std::unique_ptr<File> file_;
  std::unique_ptr<HeldExtents> held_;
};

TEST_P(HeldExtentsTest, AHeldFileIsReadFromItsDrive) {
  ASSERT_EQ(open(), "");

  ASSERT_EQ(hold(), "none");

  EXPECT_EQ(read(), "0");
  EXPECT_EQ(read(kBytes / 2, 4096), "0");
  EXPECT_EQ(intact(), "none");
  EXPECT_EQ(intact(kBytes / 2, 4096), "none");
  EXPECT_EQ(held_->sector(), 512u);
  EXPECT_FALSE(held_->is_exclusive()) << "the program has the file open, too";
  held_->let_go();
}

TEST_P(HeldExtentsTest, AWriterWaitsUntilTheLastRequestEnds) {
  ASSERT_EQ(open(), "");
  ASSERT_EQ(hold(), "none");
  ASSERT_EQ(hold(), "none");

  EXPECT_EQ(open_error(O_WRONLY), EWOULDBLOCK);

  EXPECT_EQ(read(), "0");
  EXPECT_EQ(intact(), "lease_lost") << "whoever asked may be let in by the kernel";
  ASSERT_TRUE(wait_until([&] { return held_->hold() != ExtentCause::none || (held_->let_go(), false); }));
  EXPECT_EQ(hold(), "asked_back");
  held_->let_go();
  EXPECT_EQ(open_error(O_WRONLY), EWOULDBLOCK) << "one more is under way";
  held_->let_go();
  EXPECT_EQ(open_error(O_WRONLY), 0);
  ASSERT_EQ(hold(), "none");
  EXPECT_EQ(intact(), "none");
  held_->let_go();
}

INSTANTIATE_TEST_SUITE_P(FileSystem, HeldExtentsTest, testing::Values("ext4", "xfs"),
                         [](const auto& place) { return std::string(place.param); });

}  // namespace
}  // namespace penstock::core
