// SPDX-License-Identifier: Apache-2.0

// Files that kernels, on the host, read by themselves: out of registered pages, or by the ring, and why.
#include "frontend/gpu_file.h"

#include <cerrno>
#include <cstring>

#include "fakes/gpu_file_fixture.h"
#include "fakes/waiting.h"
#include "path/pagecache/pagecache_reasons.h"

namespace penstock::core {
namespace {

using gpu::Error;

class GpuFileTest : public GpuFileFixture {
 protected:
  void open_resident(const GpuFile::Terms& terms = {}) {
    open(terms);
    const Reason reason = facts().reason;
    if (reason == pagecache_reason::file_system_pages || reason == pagecache_reason::no_page_registration) {
      GTEST_SKIP() << "not here: " << reason_name(reason);
    }
  }
  // Truncates the file, so that its pages go, and writes that version.
  void write_anew(std::uint64_t version) { write(open_as(O_WRONLY | O_TRUNC).get(), version); }
  Count counted(PathId path, Reason reason) const { return session_->counters().total(path, reason, Op::read); }
};

TEST_F(GpuFileTest, CachedPagesAreReadByTheKernelAloneUnderALease) {
  open_resident();
  EXPECT_EQ(facts().reason, Reason::none);
  EXPECT_TRUE(facts().is_leased);
  EXPECT_EQ(facts().resident_bytes, kBytes);

  EXPECT_EQ(version_of(0, 64), 0);
  EXPECT_EQ(version_of(kWords - 30, 30), 0);

  EXPECT_EQ(facts().counts.resident_reads, 2u);
  EXPECT_EQ(facts().counts.resident_bytes, 94u * 8);
  EXPECT_EQ(facts().counts.ring_reads, 0u);
  EXPECT_EQ(counted(PathId::pagecache, Reason::none).operations, 2u);
  EXPECT_EQ(counted(PathId::pagecache, Reason::none).bytes, 94u * 8);
}

TEST_F(GpuFileTest, WhoOpensTheFileForWritingWaitsUntilKernelsReadByTheRing) {
  open_resident();
  ASSERT_EQ(version_of(7, 9), 0);

  write_anew(1);

  EXPECT_EQ(version_of(7, 9), 1);
  EXPECT_FALSE(facts().is_leased);
  EXPECT_EQ(facts().reason, resident_reason::lease_ended);
  EXPECT_EQ(facts().counts.repeated, 1u) << "later reads do not try the pages any more";
  EXPECT_EQ(version_of(100, 9), 1);
  EXPECT_EQ(facts().counts.repeated, 1u);
  EXPECT_EQ(facts().counts.ring_reads, 2u);
}

TEST_F(GpuFileTest, AReadThatWasBegunBeforeTheLeaseEndedIsRepeated) {
  open_resident();
  std::uint64_t words[8];
  const gpu::Pending pending = value_.read_async(gpu::Thread(), 80, sizeof words, words);
  ASSERT_EQ(pending.way, gpu::Pending::Way::resident);

  write_anew(3);

  EXPECT_EQ(value_.wait(gpu::Thread(), pending).bytes, sizeof words);
  EXPECT_EQ(words[0], word(10, 3));
}

// The control: the stand-in holds pages as a GPU's driver does.
TEST_F(GpuFileTest, WithoutALeasePagesAreReadOnlyIfTheyMayBeStaleAndThenTheyAre) {
  const UniqueFd writer = open_as(O_WRONLY);
  open_resident();
  EXPECT_EQ(facts().reason, resident_reason::written);
  EXPECT_EQ(facts().detail, EAGAIN);
  EXPECT_EQ(facts().resident_bytes, 0u);
  EXPECT_EQ(version_of(7, 9), 0);
  EXPECT_EQ(facts().counts.ring_reads, 1u);
  files().close(number_);

  open({.may_be_stale = true});
  EXPECT_EQ(facts().reason, resident_reason::written);
  EXPECT_EQ(facts().resident_bytes, kBytes);
  write_anew(1);

  EXPECT_EQ(version_of(7, 9), 0);
  EXPECT_EQ(facts().counts.resident_reads, 1u);
  EXPECT_EQ(counted(PathId::pagecache, resident_reason::written).operations, 1u);
}

TEST_F(GpuFileTest, TheCacheIsUsedUnderTheLeaseAndNoLonger) {
  for (const std::uint64_t resident : {std::uint64_t{0}, UINT64_MAX}) {
    write_anew(0);
    open({.resident_bytes_max = resident, .cache_bytes = 1 << 20});
    if (!facts().is_leased) GTEST_SKIP() << reason_name(facts().reason);
    EXPECT_GT(facts().cache_bytes, (1u << 20) - 15 * 4096);
    EXPECT_EQ(version_of(7, 9), 0);
    EXPECT_EQ(version_of(kWords - 30, 30), 0);
    EXPECT_EQ(version_of(8, 9), 0);
    EXPECT_EQ(facts().counts.cached_reads, 3u);
    EXPECT_EQ(facts().counts.fetched, 2u);
    EXPECT_EQ(facts().counts.ring_reads + facts().counts.resident_reads, 0u);

    write_anew(1);

    EXPECT_EQ(version_of(7, 9), 1);
    EXPECT_EQ(version_of(kWords - 30, 30), 1);
    EXPECT_EQ(facts().counts.repeated, 1u) << "later reads do not try the cache any more";
    EXPECT_EQ(facts().counts.ring_reads, 2u);
    EXPECT_EQ(facts().cache_bytes, 0u);
    files().close(number_);
  }
}

// Kernels read by the ring until it is.
TEST_F(GpuFileTest, ALeaseThatEndedIsTakenAgainOnceNobodyWrites) {
  again_after_ = std::chrono::nanoseconds(0);
  open_resident();
  for (unsigned version = 1; version < 4; ++version) {
    ASSERT_EQ(version_of(7, 9), version - 1);
    const std::uint64_t before = facts().counts.resident_reads;
    {
      const UniqueFd writer = open_as(O_WRONLY);
      write(writer.get(), version);
      for (unsigned i = 0; i < 20; ++i) ASSERT_EQ(version_of(7, 9), version);
      EXPECT_EQ(facts().counts.resident_reads, before) << "somebody has it open for writing";
    }
    ASSERT_TRUE(wait_until([&] { return version_of(7, 9) == version && facts().counts.resident_reads > before; }));
    EXPECT_TRUE(facts().is_leased);
    EXPECT_EQ(facts().reason, Reason::none);
    EXPECT_EQ(facts().resident_bytes, kBytes);
  }
}

TEST_F(GpuFileTest, ThenPagesThatWereCutAwayAreLeftAndTheCacheBeginsAnew) {
  again_after_ = std::chrono::nanoseconds(0);
  for (const std::uint64_t cache : {0, 1 << 20}) {
    open({.cache_bytes = cache});
    if (!facts().is_leased) GTEST_SKIP() << reason_name(facts().reason);
    ASSERT_EQ(version_of(7, 9), 0);
    write_anew(1);
    const auto has_lease = [&] { return version_of(7, 9) == 1 && facts().is_leased; };
    ASSERT_TRUE(wait_until(has_lease));
    const auto reads = [&] { return facts().counts.resident_reads + facts().counts.cached_reads; };
    const std::uint64_t before = reads();
    if (cache > 0) EXPECT_TRUE(wait_until([&] { return version_of(7, 9) == 1 && reads() > before; }));
    else EXPECT_EQ(facts().resident_bytes, 0u);
    for (unsigned i = 0; i < 20; ++i) EXPECT_EQ(version_of(i * 200, 9), 1);
    files().close(number_);
    write_anew(0);
  }
}

TEST_F(GpuFileTest, AFileThatHasBecomeShorterIsReadByTheRing) {
  again_after_ = std::chrono::nanoseconds(0);
  open_resident();
  ASSERT_EQ(version_of(7, 9), 0);
  ASSERT_EQ(::ftruncate(open_as(O_WRONLY).get(), 4096), 0);
  for (unsigned i = 0; i < 50; ++i) {
    gpu::Result result;
    EXPECT_EQ(version_of(510, 9, &result), -1);
    EXPECT_EQ(result.bytes, 16u);
  }
  EXPECT_EQ(facts().counts.resident_reads, 1u);
}

TEST_F(GpuFileTest, WithoutALeaseTheCacheIsUsedOnlyIfItMayBeStaleAndThenItIs) {
  const UniqueFd writer = open_as(O_WRONLY);
  open({.resident_bytes_max = 0, .cache_bytes = 1 << 20});
  EXPECT_EQ(facts().reason, resident_reason::written);
  EXPECT_EQ(facts().cache_bytes, 0u);
  EXPECT_EQ(version_of(7, 9), 0);
  EXPECT_EQ(facts().counts.ring_reads, 1u);
  files().close(number_);

  open({.resident_bytes_max = 0, .may_be_stale = true, .cache_bytes = 1 << 20});
  EXPECT_EQ(version_of(7, 9), 0);
  write_anew(1);

  EXPECT_EQ(version_of(7, 9), 0);
  EXPECT_EQ(facts().counts.cached_reads, 2u);
}

TEST_F(GpuFileTest, PagesThatWereRegisteredBeforeAChangeAreRegisteredAnew) {
  open_resident();
  files().close(number_);
  write_anew(2);

  open();

  EXPECT_EQ(facts().resident_bytes, kBytes);
  EXPECT_EQ(version_of(7, 9), 2);
  EXPECT_EQ(facts().counts.resident_reads, 1u);
}

TEST_F(GpuFileTest, WhatIsNotInThePageCacheIsReadByTheRing) {
  open_resident();
  files().close(number_);
  ASSERT_TRUE(session_->deregister_file(file_).ok());
  ASSERT_EQ(::fsync(reader_.get()), 0);
  ASSERT_EQ(::posix_fadvise(reader_.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  file_ = *session_->register_file(reader_.get());
  open();
  if (facts().resident_bytes != 0) GTEST_SKIP() << "this file system keeps its pages";

  EXPECT_EQ(facts().reason, pagecache_reason::extent_not_registered);
  EXPECT_EQ(version_of(7, 9), 0);
  EXPECT_EQ(facts().counts.ring_reads, 1u);
  EXPECT_EQ(counted(PathId::host, Reason::host_memory).bytes + counted(PathId::host, Reason::none).bytes, 9u * 8);
}

TEST_F(GpuFileTest, NothingIsRegisteredUnwanted) {
  open({.resident_bytes_max = 0});
  EXPECT_EQ(facts().reason, resident_reason::not_wanted);
  EXPECT_EQ(version_of(7, 9), 0);
  EXPECT_EQ(facts().counts.ring_reads, 1u);
}

// closefrom() and an open() do so.
TEST_F(GpuFileTest, DescriptorsThatTheProgramClosesEndReadsWithAnError) {
  open({.resident_bytes_max = 0});
  const PinnedFile file(*session_, file_);
  const UniqueFd elsewhere(::fcntl(file->own_descriptor(), F_DUPFD_CLOEXEC, 0));
  const UniqueFd other(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto close_all = [&] {
    for (int fd = 0; fd < 256; ++fd) {
      if (fd == elsewhere.get() || fd == reader_.get()) continue;
      if (session_->storage().is_descriptor_of(fd, file->facts(), nullptr)) ::dup2(other.get(), fd);
    }
  };
  ASSERT_EQ(version_of(7, 9), 0);
  close_all();

  gpu::Result result;
  EXPECT_EQ(version_of(7, 9, &result), -1);

  EXPECT_EQ(result.error, Error::refused);
  EXPECT_EQ(result.detail, static_cast<int>(Code::descriptor_lost));
  ASSERT_EQ(::dup2(elsewhere.get(), file->own_descriptor()), file->own_descriptor());
}

// Whoever asks for the file's size finds it grown by a word at the next look.
class GrowingStorage final : public PosixStorage {
 public:
  GrowingStorage(UniqueFd writer) : PosixStorage(true), writer_(std::move(writer)) {}
  Result<std::uint64_t> size(int fd) override {
    const Result<std::uint64_t> found = PosixStorage::size(fd);
    constexpr std::uint64_t kFresh = ~std::uint64_t{0};
    if (found.ok()) (void)!::pwrite(writer_.get(), &kFresh, sizeof kFresh, static_cast<off_t>(*found));
    return found;
  }

 private:
  const UniqueFd writer_;
};

TEST_F(GpuFileTest, WithoutALeaseAFileThatGrowsMeanwhileIsReadNoFurtherThanItIsRegistered) {
  close_session();
  open_session(std::make_unique<GrowingStorage>(open_as(O_WRONLY)));
  open_resident({.may_be_stale = true});
  ASSERT_EQ(facts().reason, resident_reason::written);
  ASSERT_GT(value_.size(), kBytes);

  EXPECT_EQ(facts().resident_bytes, value_.size());
}

// Notes what it is to start to read.
class NotingStorage final : public PosixStorage {
 public:
  explicit NotingStorage(std::atomic<std::uint64_t>& bytes) : PosixStorage(true), bytes_(bytes) {}
  void start_reading(int fd, std::uint64_t offset, std::uint64_t size) override {
    PosixStorage::start_reading(fd, offset, size);
    bytes_ += size;
  }

 private:
  std::atomic<std::uint64_t>& bytes_;
};

TEST_F(GpuFileTest, APrefetchIsReadAheadUpToTheFilesEndAndTakesNoSlotForGood) {
  std::atomic<std::uint64_t> bytes{0};
  close_session();
  open_session(std::make_unique<NotingStorage>(bytes));
  open({.ring = {.slots = 2}, .resident_bytes_max = 0});
  const auto is_asked_often = [&] {
    value_.prefetch(gpu::Thread(), 4096, UINT64_MAX);
    return bytes >= 8 * (kBytes - 4096);
  };
  EXPECT_TRUE(wait_until(is_asked_often));
  value_.prefetch(gpu::Thread(), kBytes, 1);
  EXPECT_EQ(version_of(7, 9), 0);
  EXPECT_EQ(bytes % (kBytes - 4096), 0u);
}

TEST_F(GpuFileTest, WhatIsResidentIsNotPrefetched) {
  std::atomic<std::uint64_t> bytes{0};
  close_session();
  open_session(std::make_unique<NotingStorage>(bytes));
  open_resident();
  value_.prefetch(gpu::Thread(), 0, kBytes);
  files().close(number_);
  EXPECT_EQ(bytes, 0u);
}

// Kernels that read until there is an error, and a call that closes what they read.
class GpuFileClosing : public GpuFileTest {
 protected:
  void read_for_ever() {
    for (unsigned i = 0; i < 3; ++i) {
      kernels_.launch(2, [this](const Lane& lane) {
        char memory[600];
        gpu::Result result;
        while (result.error == Error::none) {
          result = value_.read(lane, 0, sizeof memory, memory);
          if (lane.thread_rank() == 0) ++reads_;
        }
        if (result.error == Error::closed) ++closed_;
      });
    }
    ASSERT_TRUE(wait_until([&] { return reads_ > 20; }));
  }
  void expect_closed() {
    kernels_.wait();
    EXPECT_EQ(closed_, 6u);
    EXPECT_EQ(files().pin(number_), nullptr);
  }
  std::atomic<unsigned> reads_{0}, closed_{0};
};

TEST_F(GpuFileClosing, ClosingItTellsKernelsAndWaitsForThem) {
  open({.timeout_ns = UINT64_MAX, .resident_bytes_max = 0});
  read_for_ever();
  files().close(number_);
  expect_closed();
}

TEST_F(GpuFileClosing, ClosingTheFileDoesToo) {
  open({.timeout_ns = UINT64_MAX, .resident_bytes_max = 0});
  read_for_ever();
  EXPECT_TRUE(session_->deregister_file(file_).ok());
  expect_closed();
}

// Reads with a kernel's code when the session has it forget a file: it is the first to be asked.
class ReadingClient final : public Client {
 public:
  ReadingClient(Session& session, const gpu::File& file) : session_(session), file_(file) { session_.add(this); }
  ~ReadingClient() override { session_.remove(this); }
  void forget_file(const File&) override { result = file_.read(gpu::Thread(), 0, sizeof memory_, memory_); }
  void stop() override {}
  gpu::Result result;

 private:
  Session& session_;
  const gpu::File& file_;
  char memory_[64];
};

TEST_F(GpuFileTest, AReadOfStorageThatComesBeforeTheRingIsToldOfTheClosingEndsAsClosedToo) {
  close_session();
  open_session(std::make_unique<UncachedStorage>());
  frontends_.reset();
  ReadingClient client(*session_, value_);
  frontends_ = std::make_unique<Frontends>(*session_);
  open({.resident_bytes_max = 0});
  ASSERT_EQ(version_of(0, 8), 0);

  EXPECT_TRUE(session_->deregister_file(file_).ok());

  EXPECT_EQ(client.result.error, Error::closed);
}

TEST_F(GpuFileClosing, EndingTheSessionDoesToo) {
  open({.timeout_ns = UINT64_MAX, .resident_bytes_max = 0});
  read_for_ever();
  session_->stop();
  expect_closed();
}

TEST_F(GpuFileClosing, WhoClosesItSecondWaitsForKernelsToo) {
  open({.timeout_ns = UINT64_MAX, .resident_bytes_max = 0});
  std::atomic<bool> may_end{false}, is_through{false};
  kernels_.launch(1, [&](const Lane&) {
    while (version_of(0, 9) == 0) {
    }
    ++closed_;
    while (!may_end) std::this_thread::yield();
  });
  std::thread first([&] { files().close(number_); });
  ASSERT_TRUE(wait_until([&] { return closed_ > 0; }));

  std::thread second([&] {
    files().close(number_);
    is_through = true;
  });
  give_time_to_go_wrong();

  EXPECT_FALSE(is_through);
  may_end = true;
  first.join();
  second.join();
}

TEST_F(GpuFileTest, WhatCannotBeReadIsNotOpened) {
  EXPECT_TRUE(files().open(file_, {.device = 77}).status().is(Code::no_device));
  EXPECT_TRUE(files().open(12345, {}).status().is(Code::not_registered));
  const UniqueFd writer = open_as(O_WRONLY);
  const std::uint64_t written = *session_->register_file(writer.get());
  EXPECT_TRUE(files().open(written, {}).status().is(Code::not_readable));
}

}  // namespace
}  // namespace penstock::core
