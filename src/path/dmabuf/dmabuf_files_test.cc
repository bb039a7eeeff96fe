// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "base/align.h"
#include "fakes/dmabuf_fixture.h"
#include "path/dmabuf/dmabuf_reasons.h"
#include "path/pipeline/pipeline_reasons.h"

namespace penstock::core {
namespace {

struct FileScript {
  Reason not_opened = Reason::none, not_held = Reason::none;
  bool is_moved = false, is_written = false;
  std::uint64_t end = UINT64_MAX;
  unsigned held = 0, opened = 0;
};

// A file on the drive: in three extents, with a hole behind them.
class FakeOnDrive final : public DmabufFile {
 public:
  static constexpr std::uint64_t kExtentBytes = 16u << 10, kBytes = 3 * kExtentBytes;
  static inline FileScript script;

  static Opened open(File& file, DmabufDrives& drives, bool is_written) {
    ++script.opened;
    script.is_written = is_written;
    if (script.not_opened != Reason::none) return {nullptr, {script.not_opened, EACCES}, true};
    return {std::make_unique<FakeOnDrive>(**drives.of_block_device(file)), {}};
  }
  explicit FakeOnDrive(DmabufDrive& drive) : DmabufFile(drive) {}

  Reason hold() override {
    if (script.not_held == Reason::none) ++script.held;
    return script.not_held;
  }
  void let_go() override { --script.held; }
  Reason find(std::uint64_t offset, std::uint64_t size, std::span<DrivePiece> pieces, unsigned& count) const override {
    if (script.end != UINT64_MAX && offset + size > align_up(script.end, 512)) return dmabuf_reason::extents;
    for (count = 0; size > 0; ++count) {
      if (offset >= kBytes) return reason_of(Obstacle::holes);
      const std::uint64_t here = std::min(size, kExtentBytes - offset % kExtentBytes);
      pieces[count] = {place_of(offset), here};
      offset += here;
      size -= here;
    }
    return Reason::none;
  }
  std::uint64_t end() const override { return script.end; }
  bool is_flushed_by_write() const override { return true; }
  bool is_intact(std::uint64_t, std::uint64_t) override { return !script.is_moved; }

  // The last extent lies first.
  static std::uint64_t place_of(std::uint64_t offset) {
    return 4096 + (2 - offset / kExtentBytes) * kExtentBytes * 2 + offset % kExtentBytes;
  }
};

// ---- Files ---------------------------------------------------------------------------------------------------------

// A file whose bytes lie elsewhere on the drive.
class DmabufFileTest : public DmabufFixture {
 protected:
  DmabufFileTest() {
    open_file_ = FakeOnDrive::open;
    make_path({.is_on = true, .files = true, .scratch = scratch_.name()});
    FakeOnDrive::script = {};
    storage_.type = FileType::regular;
    file_ = std::move(*File::open(storage_, FakeStorage::kUserFd));
  }
  // The fake has one content for the file and the drive, so what the drive has is asked for by its place.
  bool has_bytes_of_drive(std::uint64_t offset, std::uint64_t size) {
    for (std::uint64_t i = 0; i < size; ++i) {
      if (memory_[i] != byte_at(FakeOnDrive::place_of(offset + i))) return false;
    }
    return true;
  }
  Completion read(Channel& channel, std::uint64_t offset, std::uint64_t size) {
    std::memset(memory_, 0x5a, size + 1);
    const Completion completion = channel.move_and_wait(request(Op::read), plan(Op::read, offset, size).chunk(0));
    EXPECT_TRUE(completion.status.ok()) << describe(completion.status);
    EXPECT_EQ(completion.bytes, size);
    EXPECT_EQ(FakeOnDrive::script.held, 0u);
    return completion;
  }
};

TEST_F(DmabufFileTest, IsReadFromWhereItsExtentsLie) {
  ASSERT_TRUE(judge().usable);
  const std::unique_ptr<Channel> channel = this->channel();
  for (const std::uint64_t offset : {0, 700, 15'000, 16'384, 30'001}) {
    EXPECT_EQ(read(*channel, offset, 18'000).bounced, Reason::none);
    EXPECT_TRUE(has_bytes_of_drive(offset, 18'000)) << offset;
    EXPECT_EQ(memory_[18'000], 0x5a);
  }
}

TEST_F(DmabufFileTest, EndsWhereItEndsAndNotWithItsLastSector) {
  ASSERT_TRUE(judge().usable);
  const std::unique_ptr<Channel> channel = this->channel();
  for (const std::uint64_t end : {5000, 5001, 5120}) {
    FakeOnDrive::script.end = end;
    std::memset(memory_, 0x5a, 6000);
    const Completion whole = channel->move_and_wait(request(Op::read), plan(Op::read, 0, 5120).chunk(0));
    EXPECT_TRUE(whole.status.ok());
    EXPECT_EQ(whole.bytes, end);
    EXPECT_EQ(memory_[end], 0x5a) << "nothing from behind the end";
    std::memset(memory_, 0x5a, 6000);
    const Completion over = channel->move_and_wait(request(Op::read), plan(Op::read, 512, 16'000).chunk(0));
    EXPECT_EQ(over.bounced, Reason::none);
    EXPECT_EQ(over.bytes, end - 512);
    EXPECT_EQ(memory_[end - 512], 0x5a) << "nothing from behind the end";
    const Completion behind = channel->move_and_wait(request(Op::read), plan(Op::read, 5120 - 1, 1).chunk(0));
    EXPECT_EQ(behind.bytes, end == 5120 ? 1u : 0u);
    const Completion far = channel->move_and_wait(request(Op::read), plan(Op::read, 16'384, 4096).chunk(0));
    EXPECT_EQ(far.bounced, Reason::none);
    EXPECT_EQ(far.bytes, 0u);
    EXPECT_EQ(FakeOnDrive::script.held, 0u);
  }
}

TEST_F(DmabufFileTest, IsNeverWritten) {
  EXPECT_EQ(judge(Op::write).reason, dmabuf_reason::reads_only);
  EXPECT_EQ(FakeOnDrive::script.opened, 0u);
  file_->note_own_store();
  EXPECT_EQ(judge(Op::write).reason, dmabuf_reason::reads_only) << "not without a switch";
}

// ---- A store's own file --------------------------------------------------------------------------------------------

class DmabufStoreTest : public DmabufFileTest {
 protected:
  DmabufStoreTest() {
    make_path({.is_on = true, .files = true, .writes = true, .scratch = scratch_.name()});
    file_ = std::move(*File::open(storage_, FakeStorage::kUserFd));
    file_->note_own_store();
    for (std::size_t i = 0; i < kUserBytes; ++i) memory_[i] = static_cast<char>(i * 7 + 3);
  }
  Completion write(std::uint64_t offset, std::uint64_t size) {
    const std::unique_ptr<Channel> channel = this->channel();
    const Completion completion =
        channel->move_and_wait(request(Op::write, size), plan(Op::write, offset, size).chunk(0));
    EXPECT_TRUE(completion.status.ok()) << describe(completion.status);
    EXPECT_EQ(completion.bytes, size);
    EXPECT_EQ(FakeOnDrive::script.held, 0u);
    return completion;
  }
};

TEST_F(DmabufStoreTest, IsWrittenWhereItsExtentsLieAndDurably) {
  ASSERT_TRUE(judge(Op::write).usable);
  EXPECT_TRUE(FakeOnDrive::script.is_written);
  EXPECT_EQ(write(4096, 32768).bounced, Reason::none);
  for (std::uint64_t i = 0; i < 32768; ++i) {
    ASSERT_EQ(storage_.content[FakeOnDrive::place_of(4096 + i)], memory_[i]) << i;
  }
  EXPECT_EQ(kernel_.durable_writes, 3u) << "one for each extent";
}

TEST_F(DmabufStoreTest, OnlyTheStoresIsWritten) {
  file_ = std::move(*File::open(storage_, FakeStorage::kUserFd));
  EXPECT_EQ(judge(Op::write).reason, dmabuf_reason::reads_only);
}

TEST_F(DmabufStoreTest, WhatMayHaveMissedTheFileIsWrittenAgainByBounce) {
  ASSERT_TRUE(judge(Op::write).usable);
  FakeOnDrive::script.is_moved = true;
  EXPECT_EQ(write(4096, 8192).bounced, pipeline_reason::refused_late);
  EXPECT_EQ(std::memcmp(storage_.content.data() + 4096, memory_, 8192), 0) << "by the file system";
}

TEST_F(DmabufStoreTest, APlaceThatCannotBeWrittenIsBouncedByName) {
  ASSERT_TRUE(judge(Op::write).usable);
  EXPECT_EQ(write(FakeOnDrive::kBytes - 4096, 8192).bounced, reason_of(Obstacle::holes));
  FakeOnDrive::script.not_held = dmabuf_reason::written;
  EXPECT_EQ(write(0, 4096).bounced, dmabuf_reason::written);
}

// ---- Reads ---------------------------------------------------------------------------------------------------------

TEST_F(DmabufFileTest, NeedsASwitchOfItsOwn) {
  make_path({.is_on = true});
  EXPECT_EQ(judge().reason, dmabuf_reason::file);
}

TEST_F(DmabufFileTest, ThatOthersWriteIsTriedAgainAfterASecond) {
  FakeOnDrive::script.not_opened = dmabuf_reason::written;
  EXPECT_EQ(judge().reason, dmabuf_reason::written);
  EXPECT_EQ(judge().detail, EACCES);
  EXPECT_EQ(FakeOnDrive::script.opened, 1u);
  FakeOnDrive::script.not_opened = Reason::none;
  EXPECT_FALSE(judge().usable);
  clock_.advance(std::chrono::seconds(1));
  EXPECT_TRUE(judge().usable);
}

TEST_F(DmabufFileTest, ThatCannotBeHeldOrHasAHoleIsBouncedByName) {
  ASSERT_TRUE(judge().usable);
  const std::unique_ptr<Channel> channel = this->channel();
  EXPECT_EQ(read(*channel, FakeOnDrive::kBytes - 4096, 8192).bounced, reason_of(Obstacle::holes));
  FakeOnDrive::script.not_held = dmabuf_reason::written;
  EXPECT_EQ(read(*channel, 0, 4096).bounced, dmabuf_reason::written);
}

TEST_F(DmabufFileTest, WhoseBlocksMovedMeanwhileIsReadAgainByBounce) {
  ASSERT_TRUE(judge().usable);
  const std::unique_ptr<Channel> channel = this->channel();
  FakeOnDrive::script.is_moved = true;
  EXPECT_EQ(read(*channel, 0, 4096).bounced, pipeline_reason::refused_late);
  EXPECT_EQ(std::memcmp(memory_, storage_.content.data(), 4096), 0) << "the file's own bytes";
  EXPECT_TRUE(judge().usable);
}

TEST_F(DmabufFileTest, IsLetGoWhateverBecomesOfItsChunk) {
  ASSERT_TRUE(judge().usable);
  const std::unique_ptr<Channel> channel = this->channel();
  kernel_.errors = {-EAGAIN, -ENODEV};
  (void)read(*channel, 0, 4096);
  kernel_.exporter = Exporter::raw_address;
  clock_.advance(path_->rules().trusted_for);
  (void)read(*channel, 0, 4096);
}

}  // namespace
}  // namespace penstock::core
