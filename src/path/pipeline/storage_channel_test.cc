// SPDX-License-Identifier: Apache-2.0

// The channel against a storage that fails on demand and completes in random order, and a device whose copies land
// late.
#include "path/pipeline/storage_channel.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>

#include "device/host/host_device.h"
#include "fakes/failing_gpu.h"
#include "fakes/fake_storage.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kChunk = 4096;

class StorageChannelTest : public testing::Test {
 protected:
  void SetUp() override {
    storage_.content.resize(20 * kChunk);
    for (std::size_t i = 0; i < storage_.content.size(); ++i) storage_.content[i] = static_cast<char>(i * 31 >> 3);
    memory_ = static_cast<std::byte*>(device().memory().allocate(64 * kChunk).value());
    std::memset(memory_, 0x5a, 64 * kChunk);
  }

  Device& device() { return *devices_.device(0).value(); }
  File& open_file() {
    file_ = std::move(File::open(storage_, FakeStorage::kUserFd).value());
    return *file_;
  }
  std::unique_ptr<Channel> open_channel(unsigned depth = 4) {
    return std::move(
        StorageChannel::open(storage_, {.device = &device(), .depth = depth, .chunk_max = kChunk}).value());
  }
  // Sets the request to one chunk of the file and the memory.
  Chunk chunk_of(Op op, IoMode io_mode, std::uint64_t offset, std::uint64_t size) {
    Chunk chunk{.io_mode = io_mode, .file_offset = offset, .size = size, .io_offset = offset, .io_size = size};
    if (io_mode == IoMode::o_direct && op == Op::read) {
      chunk.io_offset = offset / 512 * 512;
      chunk.io_size = (offset + size + 511) / 512 * 512 - chunk.io_offset;
    }
    request_.op = op;
    request_.file = file_.get();
    request_.memory = memory_;
    return chunk;
  }
  // Both ways through the channel must agree: its own pipeline and the caller's-thread shortcut.
  Completion through(const Chunk& chunk, bool pipeline) { return through(open_channel(), chunk, pipeline); }
  Completion through(std::unique_ptr<Channel> channel, const Chunk& chunk, bool pipeline) {
    if (!pipeline) return channel->move_and_wait(request_, chunk);
    channel->submit(request_, chunk, 7);
    Completion completion;
    EXPECT_EQ(channel->poll({&completion, 1}, true), 1u);
    EXPECT_TRUE(channel->is_idle());
    return completion;
  }
  std::string device_bytes(std::uint64_t size) const { return {reinterpret_cast<char*>(memory_), size}; }
  std::string file_bytes(std::uint64_t offset, std::uint64_t size) const {
    return {storage_.content.data() + offset, size};
  }

  HostDeviceSet devices_;
  FakeStorage storage_;
  std::unique_ptr<File> file_;
  std::byte* memory_ = nullptr;
  RoutedRequest request_;
};

class StorageChannelBothWaysTest : public StorageChannelTest, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Channel, StorageChannelBothWaysTest, testing::Bool(),
                         [](const auto& each) { return each.param ? "Pipeline" : "CallersThread"; });

TEST_P(StorageChannelBothWaysTest, AReadArrivesInDeviceMemory) {
  open_file();

  const Completion done = through(chunk_of(Op::read, IoMode::buffered, 100, 3000), GetParam());

  EXPECT_TRUE(done.status.ok());
  EXPECT_EQ(done.bytes, 3000u);
  EXPECT_EQ(done.cookie, GetParam() ? 7u : 0u);
  EXPECT_EQ(device_bytes(3000), file_bytes(100, 3000));
  EXPECT_EQ(device_bytes(3001)[3000], 0x5a);
}

TEST_P(StorageChannelBothWaysTest, BytesGoThroughTheSlotWhereverStorageReachesTheMemory) {
  open_file();
  const Chunk read = chunk_of(Op::read, IoMode::buffered, 100, 3000);
  request_.shape.channel_facts.shift = 8 * kChunk;

  const Completion done = through(read, GetParam());

  EXPECT_EQ(done.bytes, 3000u);
  EXPECT_EQ(device_bytes(3000), file_bytes(100, 3000));
}

TEST_P(StorageChannelBothWaysTest, InPlaceStorageReachesTheMemoryAtItsShift) {
  open_file();
  std::string memory(2 * kChunk, 'z');
  const Chunk read = chunk_of(Op::read, IoMode::buffered, 100, 3000);
  request_.memory = reinterpret_cast<std::byte*>(memory.data());
  request_.shape.channel_facts.shift = kChunk;

  const Completion done =
      through(std::move(StorageChannel::open(storage_, {.chunk_max = kChunk}).value()), read, GetParam());

  EXPECT_EQ(done.bytes, 3000u);
  EXPECT_EQ(memory, std::string(kChunk, 'z') + file_bytes(100, 3000) + std::string(kChunk - 3000, 'z'));
}

TEST_P(StorageChannelBothWaysTest, AnUnalignedDirectReadTakesJustItsBytes) {
  storage_.open_flags |= O_DIRECT;
  open_file();

  const Completion done = through(chunk_of(Op::read, IoMode::o_direct, 777, 2000), GetParam());

  EXPECT_EQ(done.bytes, 2000u);
  EXPECT_EQ(done.io_mode, IoMode::o_direct);
  EXPECT_EQ(device_bytes(2000), file_bytes(777, 2000));
  EXPECT_EQ(device_bytes(2001)[2000], 0x5a);
}

TEST_P(StorageChannelBothWaysTest, ShortTransfersAreContinued) {
  open_file();
  storage_.faults = {{.at_most = 1}, {.at_most = 1000}, {.at_most = 7}};

  const Completion done = through(chunk_of(Op::read, IoMode::buffered, 0, 4096), GetParam());

  EXPECT_EQ(done.bytes, 4096u);
  EXPECT_EQ(device_bytes(4096), file_bytes(0, 4096));
}

TEST_P(StorageChannelBothWaysTest, AShortDirectReadResumesOnABlock) {
  storage_.open_flags |= O_DIRECT;
  open_file();
  storage_.faults = {{.at_most = 1300}};

  const Completion done = through(chunk_of(Op::read, IoMode::o_direct, 0, 4096), GetParam());

  EXPECT_EQ(done.bytes, 4096u);
  EXPECT_EQ(device_bytes(4096), file_bytes(0, 4096));
  ASSERT_EQ(storage_.accesses.size(), 2u);
  EXPECT_EQ(storage_.accesses[1].offset, 1024u);
}

TEST_P(StorageChannelBothWaysTest, ShortWritesAreContinued) {
  open_file();
  std::memset(memory_, 0x77, 4096);
  storage_.faults = {{.at_most = 100}, {.at_most = 3}};

  const Completion done = through(chunk_of(Op::write, IoMode::buffered, 50, 4000), GetParam());

  EXPECT_EQ(done.bytes, 4000u);
  EXPECT_EQ(file_bytes(50, 4000), std::string(4000, 0x77));
}

TEST_P(StorageChannelBothWaysTest, TheEndOfTheFileIsAShortCount) {
  storage_.content.resize(5000);
  open_file();

  const Completion done = through(chunk_of(Op::read, IoMode::buffered, 4000, 4096), GetParam());

  EXPECT_TRUE(done.status.ok());
  EXPECT_EQ(done.bytes, 1000u);
  EXPECT_EQ(device_bytes(1001)[1000], 0x5a);
}

TEST_P(StorageChannelBothWaysTest, AWidenedReadThatEndsBeforeItsPayloadMovesNothing) {
  storage_.open_flags |= O_DIRECT;
  storage_.content.resize(600);
  open_file();

  const Completion done = through(chunk_of(Op::read, IoMode::o_direct, 700, 100), GetParam());

  EXPECT_TRUE(done.status.ok());
  EXPECT_EQ(done.bytes, 0u);
}

TEST_P(StorageChannelBothWaysTest, AnErrorIsReportedWithItsStep) {
  open_file();
  storage_.faults = {{.error = EIO}};

  const Completion done = through(chunk_of(Op::read, IoMode::buffered, 0, 4096), GetParam());

  EXPECT_TRUE(done.status.is_errno(EIO));
  EXPECT_STREQ(done.status.step, "read from the file");
  EXPECT_EQ(device_bytes(1)[0], 0x5a);
}

TEST_P(StorageChannelBothWaysTest, AFullDiskIsReportedByAWrite) {
  open_file();
  storage_.faults = {{.at_most = 512}, {.error = ENOSPC}};

  const Completion done = through(chunk_of(Op::write, IoMode::buffered, 0, 4096), GetParam());

  EXPECT_TRUE(done.status.is_errno(ENOSPC));
}

TEST_P(StorageChannelBothWaysTest, EndlesslyShortTransfersAreGivenUp) {
  open_file();
  storage_.faults.assign(1000, {.at_most = 0});

  const Completion done = through(chunk_of(Op::write, IoMode::buffered, 0, 4096), GetParam());

  EXPECT_TRUE(done.status.is(Code::no_progress));
}

TEST_P(StorageChannelBothWaysTest, DirectIoThatTheKernelRefusesGoesThroughThePageCacheFromThenOn) {
  storage_.open_flags |= O_DIRECT;
  File& file = open_file();
  storage_.faults = {{.error = EINVAL}};

  const Completion done = through(chunk_of(Op::read, IoMode::o_direct, 0, 4096), GetParam());

  EXPECT_TRUE(done.status.ok());
  EXPECT_EQ(done.io_mode, IoMode::buffered);
  EXPECT_EQ(device_bytes(4096), file_bytes(0, 4096));
  EXPECT_EQ(file.direct_offset_align(), 1u);
}

TEST_P(StorageChannelBothWaysTest, ADirectReadThatCollidesWithABufferedWriteIsReadOnceMoreFromThePageCache) {
  storage_.open_flags |= O_DIRECT;
  File& file = open_file();
  const std::uint32_t align = file.direct_offset_align();
  storage_.faults = {{.error = EIO}};

  const Completion done = through(chunk_of(Op::read, IoMode::o_direct, 0, 4096), GetParam());

  EXPECT_TRUE(done.status.ok());
  EXPECT_EQ(done.io_mode, IoMode::buffered);
  EXPECT_EQ(device_bytes(4096), file_bytes(0, 4096));
  EXPECT_EQ(file.direct_offset_align(), align) << "one collision says nothing about the next read";
}

TEST_P(StorageChannelBothWaysTest, ADriveThatFailsIsReportedAfterTheSecondTry) {
  storage_.open_flags |= O_DIRECT;
  open_file();
  storage_.faults = {{.error = EIO}, {.error = EIO}};

  const Completion done = through(chunk_of(Op::read, IoMode::o_direct, 0, 4096), GetParam());

  EXPECT_TRUE(done.status.is_errno(EIO));
}

TEST_P(StorageChannelBothWaysTest, ADirectWriteThatFailsIsNotHiddenInThePageCache) {
  storage_.open_flags |= O_DIRECT;
  open_file();
  storage_.faults = {{.error = EIO}};

  const Completion done = through(chunk_of(Op::write, IoMode::o_direct, 0, 4096), GetParam());

  EXPECT_TRUE(done.status.is_errno(EIO));
}

TEST_P(StorageChannelBothWaysTest, AnUnalignedWriteBesideADirectDescriptorNeedsASecondOne) {
  storage_.open_flags |= O_DIRECT;
  storage_.reopen_fails = true;
  open_file();

  const Completion done = through(chunk_of(Op::write, IoMode::buffered, 100, 50), GetParam());

  EXPECT_TRUE(done.status.is(Code::unaligned_write));
  EXPECT_TRUE(storage_.accesses.empty());
}

TEST_F(StorageChannelTest, ManyChunksInRandomOrderEachLandInTheirPlace) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    storage_.seed = seed;
    open_file();
    auto channel = open_channel(3);
    std::memset(memory_, 0, 20 * kChunk);
    std::uint64_t next = 0;
    std::uint64_t finished = 0;

    while (finished < 20) {
      while (next < 20 && channel->has_room()) {
        Chunk one = chunk_of(Op::read, IoMode::buffered, next * kChunk, kChunk);
        one.buffer_offset = next * kChunk;
        channel->submit(request_, one, next++);
      }
      Completion completions[2];
      finished += channel->poll(completions, true);
    }

    ASSERT_EQ(device_bytes(20 * kChunk), file_bytes(0, 20 * kChunk)) << "seed " << seed;
  }
}

TEST_F(StorageChannelTest, ManyWritesInRandomOrderEachLandInTheirPlace) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    storage_.seed = seed;
    std::fill(storage_.content.begin(), storage_.content.end(), 0);
    for (std::size_t i = 0; i < 20 * kChunk; ++i) memory_[i] = static_cast<std::byte>(i * seed >> 4);
    open_file();
    auto channel = open_channel(3);
    std::uint64_t next = 0;
    std::uint64_t finished = 0;

    while (finished < 20) {
      while (next < 20 && channel->has_room()) {
        Chunk one = chunk_of(Op::write, IoMode::buffered, next * kChunk, kChunk);
        one.buffer_offset = next * kChunk;
        channel->submit(request_, one, next++);
      }
      Completion completions[2];
      finished += channel->poll(completions, true);
    }

    ASSERT_EQ(file_bytes(0, 20 * kChunk), device_bytes(20 * kChunk)) << "seed " << seed;
  }
}

TEST_F(StorageChannelTest, AnIdleChannelDoesNotWait) {
  open_file();
  auto channel = open_channel();
  Completion completion;

  EXPECT_EQ(channel->poll({&completion, 1}, true), 0u);
}

TEST_P(StorageChannelBothWaysTest, WhatMustNotStayInThePageCacheIsFlushed) {
  open_file();
  Chunk write = chunk_of(Op::write, IoMode::buffered, 100, 3000);
  write.flush = true;

  const Completion done = through(write, GetParam());

  EXPECT_EQ(done.bytes, 3000u);
  EXPECT_EQ(storage_.flushes, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{100, 3000}}));
}

TEST_P(StorageChannelBothWaysTest, AFlushThatFailsFailsTheWrite) {
  open_file();
  Chunk write = chunk_of(Op::write, IoMode::buffered, 100, 3000);
  write.flush = true;
  storage_.flush_error = EIO;

  const Completion done = through(write, GetParam());

  EXPECT_TRUE(done.status.is_errno(EIO));
  EXPECT_EQ(done.bytes, 0u);
}

// The kernel's lock on the file keeps it from those who write the rest of the page through the page cache, as long as
// its caller waits for it: io_uring does not.
TEST_P(StorageChannelBothWaysTest, ADescriptorThatCannotBeOpenedFailsTheChunk) {
  storage_.reopen_fails = true;
  open_file();

  for (const Op op : {Op::read, Op::write}) {
    const Completion done = through(chunk_of(op, IoMode::o_direct, 0, 4096), GetParam());

    EXPECT_TRUE(done.status.is_errno(EACCES)) << describe(done.status);
    EXPECT_EQ(done.bytes, 0u);
  }
}

TEST_P(StorageChannelBothWaysTest, DirectIoThatIsRefusedIsToldWhereThePageCacheCannotBeHad) {
  for (const int error : {EINVAL, EOPNOTSUPP}) {
    storage_.open_flags = O_RDWR | O_DIRECT;
    storage_.reopen_fails = true;
    open_file();
    storage_.faults = {{.error = error}};

    const Completion done = through(chunk_of(Op::read, IoMode::o_direct, 0, 4096), GetParam());

    EXPECT_TRUE(done.status.is_errno(error)) << describe(done.status);
    EXPECT_EQ(done.io_mode, IoMode::o_direct);
  }
}

TEST_F(StorageChannelTest, WithoutARingAChunkFailsWithItsError) {
  storage_.open_flags |= O_DIRECT;
  storage_.ring_error = EMFILE;
  open_file();

  const Completion done = through(chunk_of(Op::read, IoMode::o_direct, 0, 4096), true);

  EXPECT_TRUE(done.status.is_errno(EMFILE)) << describe(done.status);
}

TEST_F(StorageChannelTest, ARingThatTellsNothingMoreFailsWhatItHasAndBreaksTheChannel) {
  storage_.open_flags |= O_DIRECT;
  open_file();
  const std::unique_ptr<Channel> channel = open_channel();
  const Chunk chunk = chunk_of(Op::read, IoMode::o_direct, 0, 4096);
  for (const std::uint64_t cookie : {1, 2}) channel->submit(request_, chunk, cookie);
  EXPECT_TRUE(channel->hooks().wait_for_storage(std::chrono::steady_clock::now()));
  storage_.reap_error = EBADF;
  Completion done;
  ASSERT_EQ(channel->poll({&done, 1}, true), 1u) << "the other's is left, and the channel closed";
  EXPECT_TRUE(done.status.is_errno(EBADF)) << describe(done.status);
  EXPECT_TRUE(channel->is_broken());
  EXPECT_FALSE(channel->hooks().wait_for_storage(std::chrono::steady_clock::now()));
}

TEST_F(StorageChannelTest, AChannelThatIsClosedEarlyEndsItsTransfersFirst) {
  storage_.open_flags |= O_DIRECT;
  open_file();
  std::unique_ptr<Channel> channel = open_channel();
  channel->submit(request_, chunk_of(Op::read, IoMode::o_direct, 0, 4096), 0);
  channel.reset();
  EXPECT_EQ(device_bytes(4096), file_bytes(0, 4096));
}

TEST_F(StorageChannelTest, EachCallOfTheDriverMayFailAndNoWrongByteIsTold) {
  FailingGpu gpu;
  storage_.open_flags |= O_DIRECT;
  open_file();
  auto* const memory = static_cast<std::byte*>(*gpu.allocate(1 << 20));
  unsigned errors = 0;
  for (unsigned n = 1; n == 1 || gpu.has_failed(); ++n) {
    gpu.fail_at(n);
    const auto channel = StorageChannel::open(storage_, {.device = &gpu, .depth = 2, .chunk_max = kChunk});
    errors += channel.ok() ? 0 : 1;
    if (!channel.ok()) continue;
    const Chunk chunk = chunk_of(Op::read, IoMode::o_direct, 0, 4096);
    request_.memory = memory;
    for (const std::uint64_t cookie : {1, 2}) (*channel)->submit(request_, chunk, cookie);
    while (!(*channel)->is_idle()) {
      Completion done;
      if ((*channel)->poll({&done, 1}, true) == 0) break;
      errors += done.status.ok() ? 0 : 1;
      if (done.status.ok()) {
        EXPECT_EQ(std::memcmp(memory, storage_.content.data(), done.bytes), 0) << n;
      }
    }
  }
  EXPECT_GT(errors, 3u);
  EXPECT_EQ(gpu.allocation_count(), 1u);
}

// Reads wait for storage while copies are under way, writes for copies.
TEST_F(StorageChannelTest, WhereCopiesTakeLongTheSideThatFeedsTheOtherIsWaitedFor) {
  FakeGpu gpu;
  gpu.lands_late = true;
  storage_.open_flags |= O_DIRECT;
  open_file();
  auto* const memory = static_cast<std::byte*>(*gpu.allocate(64 * kChunk));
  for (const Op op : {Op::read, Op::write}) {
    const auto channel = std::move(*StorageChannel::open(storage_, {.device = &gpu, .depth = 4, .chunk_max = kChunk}));
    std::memset(memory, op == Op::read ? 0 : 'w', 64 * kChunk);
    unsigned done = 0;
    for (unsigned next = 0; done < 12;) {
      while (next < 12 && channel->has_room()) {
        Chunk chunk = chunk_of(op, IoMode::o_direct, next * kChunk, kChunk);
        chunk.buffer_offset = next++ * kChunk;
        request_.memory = memory;
        channel->submit(request_, chunk, 0);
      }
      Completion completions[4];
      const unsigned count = channel->poll(completions, true);
      ASSERT_GT(count, 0u);
      for (unsigned i = 0; i < count; ++i) EXPECT_EQ(completions[i].bytes, kChunk);
      done += count;
    }
    EXPECT_EQ(std::memcmp(memory, storage_.content.data(), 12 * kChunk), 0);
  }
}

TEST_F(StorageChannelTest, ADirectWriteOfAPartOfAPageIsWaitedFor) {
  storage_.open_flags |= O_DIRECT;
  open_file();

  EXPECT_EQ(through(chunk_of(Op::write, IoMode::o_direct, 512, 1024), true).bytes, 1024u);
  EXPECT_EQ(storage_.rings_opened, 0u);

  EXPECT_EQ(through(chunk_of(Op::write, IoMode::o_direct, 4096, 4096), true).bytes, 4096u);
  EXPECT_EQ(storage_.rings_opened, 1u);
}

}  // namespace
}  // namespace penstock::core
