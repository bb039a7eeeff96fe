// SPDX-License-Identifier: Apache-2.0

// Sessions whose reads go by the page-cache path: real files and a real page cache, and a stand-in device that holds
// pages as a GPU's driver does.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/unique_fd.h"
#include "device/host/host_device.h"
#include "fakes/noise.h"
#include "fakes/test_config.h"
#include "fakes/waiting.h"
#include "frontend/channel_queue.h"
#include "frontend/dry_run.h"
#include "frontend/transfer.h"
#include "frontend/vectored.h"
#include "path/pagecache/pagecache_path.h"
#include "session/session.h"
#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMebibyte = 1u << 20;
constexpr std::size_t kSize = 40 * kMebibyte + 12345;  // Two extents; the last one ends within a page.

class PagecacheTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "pagecache_XXXXXX";
    fd_ = UniqueFd(::mkstemp(name));
    ASSERT_TRUE(fd_.valid());
    path_ = std::filesystem::canonical(name).string();
    content_ = noise(kSize, 1);
    put(content_, 0);
  }
  void TearDown() override {
    session_.reset();
    ::unlink(path_.c_str());
  }
  void open(Policy policy, std::uint64_t registration_cache_bytes = 1u << 30, bool required = false) {
    Config config = test_config({{"workers", "2"}, {"paths", "pagecache,bounce,host"}});
    config.policy = policy;
    config.registration_cache_bytes = registration_cache_bytes;
    if (required) config.require = PathId::pagecache;
    session_ =
        std::make_unique<Session>(config, std::make_unique<PosixStorage>(true), std::make_unique<HostDeviceSet>());
    file_ = *session_->register_file(fd_.get());
    memory_ = static_cast<std::byte*>(session_->devices().device(0).value()->memory().allocate(kSize).value());
    const PointerFacts memory = session_->devices().describe(memory_);
    Verdict verdicts[kPathCount];
    ASSERT_TRUE(explain(*session_, file_, memory, Op::read, verdicts).ok());
    if (!verdicts[0].usable) GTEST_SKIP() << "not here: " << reason_name(verdicts[0].reason);
  }
  void put(const std::string& content, std::size_t offset) {
    ASSERT_EQ(::pwrite(fd_.get(), content.data(), content.size(), static_cast<off_t>(offset)),
              static_cast<ssize_t>(content.size()));
  }
  Outcome read(std::size_t offset, std::size_t size) {
    std::memset(memory_, 0xee, size);
    return transfer(*session_, {Op::read, file_, memory_, size, static_cast<std::int64_t>(offset), 0});
  }
  void expect_content(const Outcome& outcome, const std::string& expected, PathId path) {
    EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
    EXPECT_EQ(outcome.report.path, path) << path_name(outcome.report.path);
    ASSERT_EQ(outcome.report.bytes, expected.size());
    EXPECT_EQ(std::memcmp(memory_, expected.data(), expected.size()), 0);
  }
  // Which way they went; the bytes are compared.
  PathId read_queued(ChannelQueue& queue, std::size_t size) {
    std::memset(memory_, 0xee, size);
    EXPECT_TRUE(queue.submit({Op::read, file_, memory_, size, 77, 0}, 1).ok());
    QueueCompletion done;
    EXPECT_EQ(queue.reap({&done, 1}, 1), 1u);
    const bool bounced = done.report.path == PathId::pagecache && done.report.bounced_bytes > 0;
    expect_content({done.status, done.report}, content_.substr(77, size), done.report.path);
    return bounced ? PathId::bounce : done.report.path;
  }
  // The page-cache path judges so on tmpfs.
  bool has_settled() const { return PosixStorage(false).stamp(fd_.get())->is_settled(1s); }
  void open_on_tmpfs(Policy policy) {
    ::unlink(path_.c_str());
    fd_ = UniqueFd(::memfd_create("pagecache_test", MFD_CLOEXEC));
    ASSERT_TRUE(fd_.valid());
    put(content_, 0);
    open(policy);
  }
  const RegistrationCache& cache() const {
    Device& device = *session_->devices().device(0).value();
    return static_cast<const PagecachePath*>(session_->engine().router().fallback_of(device))->cache();
  }
  // The break-even knows how many requests there were, and what registering the first extent would have saved.
  std::pair<std::uint64_t, std::int64_t> break_even() const {
    const PinnedFile file(*session_, file_);
    const CachedFile* const cached = cache().find(*file, *session_->devices().device(0).value());
    const Extent* const extent = cached == nullptr ? nullptr : cached->find(0);
    return {cache().now(), extent == nullptr ? 0 : extent->saving()};
  }
  std::uint64_t mapped_bytes() const {
    std::ifstream maps("/proc/self/maps");
    std::uint64_t bytes = 0, begin = 0, end = 0;
    for (std::string line; std::getline(maps, line);) {
      if (line.find(path_) == std::string::npos) continue;
      if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2) bytes += end - begin;
    }
    return bytes;
  }

  UniqueFd fd_;
  std::string path_, content_;
  std::unique_ptr<Session> session_;
  std::uint64_t file_ = 0;
  std::byte* memory_ = nullptr;
};

TEST_F(PagecacheTest, WhereCpuCountsAWholeCachedFileIsFetchedFromThePageCacheAtOnce) {
  open(Policy::cpu);
  expect_content(read(0, kSize), content_, PathId::pagecache);
  EXPECT_EQ(session_->counters().total(PathId::pagecache, Reason::none, Op::read).bytes, kSize);
  expect_content(read(5'000'001, 35 * kMebibyte), content_.substr(5'000'001, 35 * kMebibyte), PathId::pagecache);
  expect_content(read(77, 50'000), content_.substr(77, 50'000), PathId::pagecache);
}

TEST_F(PagecacheTest, MemoryInPiecesIsFetchedFromThePageCacheAsOneRequest) {
  open(Policy::cpu);
  expect_content(read(0, kSize), content_, PathId::pagecache);
  constexpr std::size_t kPiece = 64u << 10, kCount = 600, kOffset = 4097;  // Across the extents' boundary.
  std::vector<MemoryPiece> pieces;
  for (std::size_t i = 0; i < kCount; ++i) pieces.push_back({memory_ + (kCount - 1 - i) * kPiece, kPiece});

  const Outcome outcome = transfer_vectored(*session_, {.op = Op::read, .file = file_, .file_offset = kOffset}, pieces);

  EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
  EXPECT_EQ(outcome.report.path, PathId::pagecache) << path_name(outcome.report.path);
  EXPECT_EQ(outcome.report.bytes, kCount * kPiece);
  EXPECT_EQ(session_->counters().total(PathId::pagecache, Reason::none, Op::read).operations, 2u);
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(std::memcmp(pieces[i].iov_base, content_.data() + kOffset + i * kPiece, kPiece), 0) << i;
  }
}

TEST_F(PagecacheTest, AFileThatIsReadOnceIsBouncedWhateverThePolicy) {
  open(Policy::cpu);
  ASSERT_TRUE(session_->advise_read_once(file_).ok());

  expect_content(read(0, kSize), content_, PathId::bounce);

  EXPECT_EQ(session_->counters().total(PathId::bounce, pagecache_reason::read_once, Op::read).bytes, kSize);
  EXPECT_FALSE(session_->advise_read_once(file_ + 1000).ok());
}

TEST_F(PagecacheTest, AFewBytesThatTheirCallerWaitsForAreCopiedByTheCpu) {
  open(Policy::cpu);
  expect_content(read(0, kSize), content_, PathId::pagecache);

  expect_content(read(77, 4096), content_.substr(77, 4096), PathId::bounce);

  EXPECT_EQ(session_->counters().total(PathId::bounce, pagecache_reason::extent_not_registered, Op::read).bytes, 4096u);
}

TEST_F(PagecacheTest, AFewBytesInAQueueAreCopiedByTheCpuTooWhileTheFileMayStillBeChanging) {
  open(Policy::cpu);
  expect_content(read(0, kSize), content_, PathId::pagecache);
  const std::unique_ptr<ChannelQueue> queue = std::move(ChannelQueue::open(*session_, 2, 128u << 10).value());

  const PathId tiny = read_queued(*queue, 16u << 10);
  EXPECT_TRUE(tiny == PathId::bounce || has_settled());  // On a slow machine's tmpfs it may have by then.
  EXPECT_EQ(read_queued(*queue, 64u << 10), PathId::pagecache);
}

// On tmpfs a file counts as settled a second after its last change.
TEST_F(PagecacheTest, AFewBytesInAQueueAreFetchedOnceTheFileHasSettled) {
  open_on_tmpfs(Policy::cpu);
  const std::unique_ptr<ChannelQueue> queue = std::move(ChannelQueue::open(*session_, 2, 128u << 10).value());
  ASSERT_TRUE(wait_until([this] { return has_settled(); }));
  expect_content(read(0, kSize), content_, PathId::pagecache);

  EXPECT_EQ(read_queued(*queue, 4096), PathId::pagecache);

  const std::string other = noise(4096, 9);  // In place: the pages stay the same.
  put(other, 77);
  content_.replace(77, 4096, other);
  EXPECT_EQ(read_queued(*queue, 4096), PathId::pagecache);
}

TEST_F(PagecacheTest, OfASettledFileNoPageIsReadThatWasCutOff) {
  open_on_tmpfs(Policy::cpu);
  const std::unique_ptr<ChannelQueue> queue = std::move(ChannelQueue::open(*session_, 2, 128u << 10).value());
  ASSERT_TRUE(wait_until([this] { return has_settled(); }));
  expect_content(read(0, kSize), content_, PathId::pagecache);
  ASSERT_EQ(read_queued(*queue, 4096), PathId::pagecache);

  ASSERT_EQ(::ftruncate(fd_.get(), 0), 0);
  content_ = noise(kSize, 2);
  put(content_, 0);

  (void)read_queued(*queue, 4096);
  (void)read_queued(*queue, 128u << 10);
  // On a slow machine the file may have settled anew by then, and its new pages have been registered.
  EXPECT_TRUE(session_->counters().total(PathId::bounce, pagecache_reason::pages_replaced, Op::read).bytes >= 4096u ||
              has_settled());
  const Outcome again = read(0, kSize);
  expect_content(again, content_, again.report.path);
}

TEST_F(PagecacheTest, SmallReadsAreBouncedUntilRegisteringPays) {
  open(Policy::throughput);
  expect_content(read(0, 4096), content_.substr(0, 4096), PathId::bounce);
  bool fetched = false;
  for (unsigned i = 0; i < 100'000 && !fetched; ++i) fetched = read(4096, 65536).report.path == PathId::pagecache;
  ASSERT_TRUE(fetched);
  expect_content(read(8191, 40'097), content_.substr(8191, 40'097), PathId::pagecache);
}

TEST_F(PagecacheTest, AReadPastTheEndIsShort) {
  open(Policy::cpu);
  expect_content(read(kSize - 30 * kMebibyte, 31 * kMebibyte), content_.substr(kSize - 30 * kMebibyte),
                 PathId::pagecache);
  EXPECT_EQ(read(kSize - 10, 100).report.bytes, 10u);
  EXPECT_EQ(read(kSize, 100).report.bytes, 0u);
}

TEST_F(PagecacheTest, WhatIsWrittenIntoRegisteredPagesIsRead) {
  open(Policy::cpu);
  (void)read(0, kSize);
  put("new", 20 * kMebibyte);
  content_.replace(20 * kMebibyte, 3, "new");
  expect_content(read(0, kSize), content_, PathId::pagecache);
}

TEST_F(PagecacheTest, PagesThatWereCutOffAreNeverReadAgain) {
  open(Policy::cpu);
  (void)read(0, kSize);
  ASSERT_EQ(::ftruncate(fd_.get(), 0), 0);
  const std::string other = noise(kSize, 2);
  put(other, 0);
  const Outcome outcome = read(0, kSize);
  ASSERT_EQ(outcome.report.bytes, kSize);
  EXPECT_EQ(std::memcmp(memory_, other.data(), kSize), 0);
  EXPECT_EQ(outcome.report.bounced_reason == pagecache_reason::pages_replaced || outcome.report.path == PathId::bounce,
            true);
  // And in time they are registered again.
  for (unsigned i = 0; i < 1000 && read(0, kSize).report.path != PathId::pagecache; ++i) {
  }
  expect_content(read(0, kSize), other, PathId::pagecache);
}

TEST_F(PagecacheTest, AFileThatGotShorterIsReadToItsNewEnd) {
  open(Policy::cpu);
  (void)read(0, kSize);
  ASSERT_EQ(::ftruncate(fd_.get(), 1000), 0);
  const Outcome outcome = read(0, 4096);
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.report.bytes, 1000u);
  EXPECT_EQ(read(0, kSize).report.bytes, 1000u);
}

TEST_F(PagecacheTest, AFileThatGrewIsReadToItsNewEnd) {
  open(Policy::cpu);
  (void)read(0, kSize);
  const std::string more = noise(10 * kMebibyte, 3);
  put(more, kSize);
  const std::size_t start = kSize - 100;
  const Outcome outcome =
      transfer(*session_, {Op::read, file_, memory_, 5 * kMebibyte, static_cast<std::int64_t>(start), 0});
  ASSERT_EQ(outcome.report.bytes, 5 * kMebibyte);
  EXPECT_EQ(std::memcmp(memory_ + 100, more.data(), 5 * kMebibyte - 100), 0);
}

TEST_F(PagecacheTest, WhatAFileHasGrownByIsFetchedInTheEnd) {
  open(Policy::cpu);
  (void)read(0, kSize);
  const std::string more = noise(10 * kMebibyte, 3);
  put(more, kSize);
  constexpr std::size_t kFrom = kSize + kMebibyte, kRead = 4 * kMebibyte;

  expect_content(read(kFrom, kRead), more.substr(kMebibyte, kRead), PathId::bounce);

  Outcome last{};  // How many it takes until registering pays depends on what it takes here.
  for (int i = 0; i < 1000 && last.report.path != PathId::pagecache; ++i) last = read(kFrom, kRead);
  expect_content(last, more.substr(kMebibyte, kRead), PathId::pagecache);
}

TEST_F(PagecacheTest, NoMoreIsRegisteredThanTheLimit) {
  constexpr std::uint64_t kLimit = 32 * kMebibyte;
  open(Policy::cpu, kLimit);
  for (unsigned i = 0; i < 3; ++i) {
    const Outcome outcome = read(0, kSize);
    ASSERT_EQ(outcome.report.bytes, kSize);
    EXPECT_EQ(std::memcmp(memory_, content_.data(), kSize), 0);
    EXPECT_LE(mapped_bytes(), kLimit);
  }
}

TEST_F(PagecacheTest, NothingIsLeftOfAFileThatWasDeregistered) {
  open(Policy::cpu);
  (void)read(0, kSize);
  EXPECT_GT(mapped_bytes(), 0u);
  ASSERT_TRUE(session_->deregister_file(file_).ok());
  EXPECT_EQ(mapped_bytes(), 0u);
}

TEST_F(PagecacheTest, WhereItIsRequiredWritesAreRefused) {
  open(Policy::balanced, 1u << 30, true);
  expect_content(read(3, 9), content_.substr(3, 9), PathId::pagecache);
  EXPECT_TRUE(transfer(*session_, {Op::write, file_, memory_, 9, 0, 0}).status.is(Code::path_refused));
}

TEST_F(PagecacheTest, WhatIsNotCachedIsNotMapped) {
  open(Policy::cpu);
  ASSERT_EQ(::fsync(fd_.get()), 0);
  ASSERT_EQ(::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  const Outcome outcome = read(0, kSize);
  ASSERT_EQ(outcome.report.bytes, kSize);
  if (outcome.report.path == PathId::pagecache) GTEST_SKIP() << "the file system keeps its pages";
  EXPECT_EQ(outcome.report.path, PathId::bounce);
  EXPECT_EQ(mapped_bytes(), 0u);
}

TEST_F(PagecacheTest, WritesAndReadsOfOneSessionMeet) {
  open(Policy::cpu);
  (void)read(0, kSize);
  std::memset(memory_, 'w', 4 * kMebibyte);
  ASSERT_TRUE(transfer(*session_, {Op::write, file_, memory_, 4 * kMebibyte, 10, 0}).status.ok());
  content_.replace(10, 4 * kMebibyte, std::string(4 * kMebibyte, 'w'));
  expect_content(read(0, kSize), content_, PathId::pagecache);
}

// They were refused, and came to nothing: if they counted, their extent would be worth its registration by the end.
TEST_F(PagecacheTest, ARequestThatAQueueRefusesLeavesNoTraceInTheBreakEven) {
  open(Policy::cpu);
  constexpr std::size_t kMax = 64u << 10;
  const RawRequest small{Op::read, file_, memory_, kMax, 0, 0}, large{Op::read, file_, memory_, 2 * kMax, 0, 0};
  auto queue = std::move(ChannelQueue::open(*session_, 1, kMax).value());
  BounceBudget& budget = session_->engine().budget_of(session_->devices().device(0).value());
  std::uint64_t taken = 0;
  while (budget.reserve(kMax)) taken += kMax;
  auto before = break_even();

  EXPECT_TRUE(queue->submit(small, 1, false).is(Code::limit)) << "no channel is open, and none may be";
  EXPECT_TRUE(queue->submit(small, 1).is(Code::limit)) << "there is no pinned memory for a channel";
  EXPECT_EQ(break_even(), before);

  budget.give_back(taken);
  ASSERT_TRUE(queue->submit(small, 1).ok());
  EXPECT_NE(break_even(), before) << "what is submitted counts";
  before = break_even();
  EXPECT_TRUE(queue->submit(small, 2).is(Code::limit)) << "it is full";
  EXPECT_EQ(break_even(), before);
  QueueCompletion done;
  EXPECT_EQ(queue->reap({&done, 1}, 1), 1u);
  EXPECT_TRUE(queue->submit(large, 3).is(Code::limit)) << "it is too large";
  EXPECT_EQ(break_even(), before);
}

// Registering a file's pages may wait for the device.
TEST_F(PagecacheTest, WhereAQueueMayNotWaitWhatIsNotRegisteredIsRefusedWithoutATrace) {
  open(Policy::cpu, 1u << 30, true);
  auto queue = std::move(ChannelQueue::open(*session_, 1, 64u << 10).value());
  EXPECT_EQ(read_queued(*queue, 50'000), PathId::pagecache);
  const auto before = break_even();

  const RawRequest behind{Op::read, file_, memory_, 50'000, 33 * kMebibyte, 0};
  EXPECT_TRUE(queue->submit(behind, 1, false).is(Code::limit));

  EXPECT_EQ(break_even(), before);
  EXPECT_TRUE(queue->submit(behind, 1).ok());
  EXPECT_EQ(break_even().first, before.first + 1);
}

TEST_F(PagecacheTest, RequestsThatAQueueRefusesAreNotCountedTowardsARegistration) {
  open(Policy::cpu);
  constexpr std::size_t kMax = 64u << 10;
  auto queue = std::move(ChannelQueue::open(*session_, 8, kMax).value());

  for (int i = 0; i < 100'000; ++i) {
    ASSERT_TRUE(queue->submit({Op::read, file_, memory_, 2 * kMax, 0, 0}, 1).is(Code::limit));
  }

  give_time_to_go_wrong();
  EXPECT_EQ(mapped_bytes(), 0u);
  EXPECT_NE(read_queued(*queue, kMax), PathId::pagecache);
}

}  // namespace
}  // namespace penstock::core
