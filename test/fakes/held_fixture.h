// SPDX-License-Identifier: Apache-2.0

// A file on an ext4 or XFS of the test's own, opened by a program, and held as the path dmabuf holds it. Direct reads
// of the loop device's node stand for that path's reads.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>

#include "fakes/extent_cause_name.h"
#include "fakes/file_on_drive.h"
#include "fakes/waiting.h"
#include "path/dmabuf/held_extents.h"
#include "storage/posix_storage.h"

namespace penstock::core {

class HeldFile : public testing::TestWithParam<const char*> {
 protected:
  static constexpr std::uint64_t kBytes = FilesOnDrive::kBytes;
  // The lease stays until it is asked back, and no refusal is remembered.
  static constexpr HeldExtents::Terms kPatient{.linger = std::chrono::hours(1), .refuses_for = {}};

  void SetUp() override {
    if (!files_.failure().empty()) GTEST_SKIP() << files_.failure();
    files_.write("file", FilesOnDrive::kOwn);
  }
  bool is_xfs() const { return std::string(GetParam()) == "xfs"; }
  UniqueFd open_file(int flags, const char* name = "file") const {
    return UniqueFd(::open(files_.path(name).c_str(), flags | O_CLOEXEC, 0644));
  }
  // The cause, or "" with the file open.
  std::string open(const HeldExtents::Terms& terms = kPatient, const char* name = "file", int flags = O_RDONLY) {
    user_ = open_file(flags, name);
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
  std::string read(std::uint64_t offset = 0, std::uint64_t bytes = kBytes, std::uint64_t whose = FilesOnDrive::kOwn) {
    DrivePiece pieces[64];
    const ExtentMap::Found found = held_->map(offset, bytes, pieces);
    if (found.cause != ExtentCause::none) return name_of(found.cause);
    std::uint64_t wrong = 0;
    for (unsigned i = 0; i < found.count; offset += pieces[i++].bytes) {
      wrong += files_.wrong_words(pieces[i].drive_offset, offset, pieces[i].bytes, whose);
    }
    return std::to_string(wrong);
  }
  // The errno of opening without waiting, which asks for the lease; 0: opened.
  int open_error(int flags) const { return open_file(flags | O_NONBLOCK).valid() ? 0 : errno; }
  // The keeper has seen the question.
  void wait_until_asked() {
    const auto is_refused = [&] {
      const bool is_held = held_->hold() == ExtentCause::none;
      if (is_held) held_->let_go();
      return !is_held;
    };
    ASSERT_TRUE(wait_until(is_refused));
  }

  FilesOnDrive files_{GetParam()};
  PosixStorage storage_{false};
  UniqueFd user_;
  std::unique_ptr<File> file_;
  std::unique_ptr<HeldExtents> held_;
};

}  // namespace penstock::core
