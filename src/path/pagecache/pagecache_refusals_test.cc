// SPDX-License-Identifier: Apache-2.0

// The path pagecache where a device, a file or a driver refuses, by itself: a file in memory, and a GPU whose calls
// fail one by one.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "fakes/failing_gpu.h"
#include "fakes/scripted_pages.h"
#include "path/pagecache/pagecache_path.h"
#include "path/pagecache/pagecache_reasons.h"
#include "path/pagecache/resident_pages.h"
#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kBytes = 1u << 20, kChunk = 64u << 10;

// Files are on the file system that a test says.
class PlacedStorage final : public PosixStorage {
 public:
  PlacedStorage() : PosixStorage(false) {}
  Result<FileFacts> facts(int fd) override {
    Result<FileFacts> facts = PosixStorage::facts(fd);
    if (facts.ok() && magic != 0) facts->file_system_magic = magic;
    return facts;
  }
  Result<std::uint64_t> size(int fd) override {
    return is_lost ? os_failure(EIO, "ask for the size as scripted") : PosixStorage::size(fd);
  }
  Result<FileStamp> stamp(int fd) override {
    before_stamp();
    return has_no_stamp ? os_failure(EIO, "ask for the stamp as scripted") : PosixStorage::stamp(fd);
  }

  int io_uring_error() override { return 0; }

  std::uint64_t magic = 0;
  bool is_lost = false, has_no_stamp = false;
  std::function<void()> before_stamp = [] {};
};

class PagecacheRefusalTest : public testing::Test {
 protected:
  PagecacheRefusalTest() {
    content_.resize(kBytes);
    for (std::size_t i = 0; i < kBytes; ++i) content_[i] = static_cast<char>(i * 31 + i / 257);
    EXPECT_EQ(storage_.write(fd_.get(), content_.data(), kBytes, 0).value(), kBytes);
    memory_ = static_cast<char*>(*gpu_.allocate(kBytes));
    make();
  }
  void TearDown() override { forget(); }
  void forget() {
    if (path_ != nullptr) path_->forget_file(*file_);
    requests_.clear();
  }
  void make(bool strict = false) {
    forget();
    file_ = std::move(*File::open(storage_, fd_.get()));
    const RegistrationRules registration{.bytes_max = 64u << 20, .at_once = true};
    path_ = std::make_unique<PagecachePath>(storage_, PagecacheRules{.registration = registration, .strict = strict});
    (void)judge();  // A session does so first, and without it no page is known to be the file's.
  }
  Verdict judge(Op op = Op::read) { return path_->judge(*file_, gpu_.describe(memory_), op); }
  const RoutedRequest& request(Op op, std::uint64_t offset, std::uint64_t size) {
    RoutedRequest& request = requests_.emplace_back();
    request.op = op;
    request.file_offset = offset;
    request.buffer_address = reinterpret_cast<std::uintptr_t>(memory_);
    request.size = size;
    request.file = file_.get();
    request.memory = reinterpret_cast<std::byte*>(memory_);
    request.facts = gpu_.describe(memory_);
    request.mode = SubmitMode::queued;
    request.chunk_max = kChunk;
    request.shape = path_->shape(request);
    path_->hooks()->before_move(request);
    return request;
  }
  Result<std::unique_ptr<Channel>> open_channel(unsigned depth = 4) {
    return path_->open_channel({.device = &gpu_, .depth = depth, .chunk_max = kChunk});
  }
  // Registers the whole file, also to be written to: writes alone do not.
  void fetch(Channel& channel) {
    ASSERT_EQ(move(channel, request(Op::read, 0, kBytes)), kBytes / kChunk);
    ASSERT_EQ(bounced_, 0u);
  }
  Completion move_and_wait(const RoutedRequest& request) {
    const auto channel = open_channel(1);
    return (*channel)->move_and_wait(request, Plan(request, request.shape.limits).chunk(0));
  }
  std::string in_file(std::uint64_t offset, std::size_t size) const {
    std::string seen(size, 0);
    EXPECT_EQ(::pread(fd_.get(), seen.data(), size, static_cast<off_t>(offset)), static_cast<ssize_t>(size));
    return seen;
  }
  // All chunks of the request through the channel; the completions that are no errors.
  unsigned move(Channel& channel, const RoutedRequest& request) {
    const Plan plan(request, request.shape.limits);
    unsigned good = 0;
    Completion completions[4];
    for (std::uint64_t next = 0; (next < plan.chunk_count() && !channel.is_broken()) || !channel.is_idle();) {
      while (next < plan.chunk_count() && channel.has_room()) channel.submit(request, plan.chunk(next++), 0);
      const unsigned count = channel.poll(completions, true);
      for (unsigned i = 0; i < count; ++i) {
        good += completions[i].status.ok() ? 1 : 0;
        bounced_ += completions[i].bounced != Reason::none ? 1 : 0;
      }
    }
    return good;
  }

  ScriptedPages pages_;
  FailingGpu gpu_{&pages_};
  PlacedStorage storage_;
  UniqueFd fd_{::memfd_create("pagecache_refusals_test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  std::string content_;
  std::unique_ptr<File> file_;
  char* memory_ = nullptr;
  std::unique_ptr<PagecachePath> path_;
  std::deque<RoutedRequest> requests_;
  unsigned bounced_ = 0;  // The number of chunks that did not go by pages.
};

TEST_F(PagecacheRefusalTest, EachWorldIsToldByItsReason) {
  struct Case {
    const char* world;
    std::function<void()> begin;
    Op op;
    Reason reason;
  };
  const auto on = [&](std::uint64_t magic) {
    return [this, magic] {
      storage_.magic = magic;
      make(true);
    };
  };
  const Case cases[] = {
      {"memory", on(0), Op::read, Reason::none},
      {"memory, written", on(0), Op::write, Reason::none},
      {"a drive's file system", on(EXT4_SUPER_MAGIC), Op::read, Reason::none},
      {"a drive's file system, written", on(EXT4_SUPER_MAGIC), Op::write, pagecache_reason::reads_only},
      {"f2fs", on(F2FS_SUPER_MAGIC), Op::read, Reason::none},
      {"overlayfs", on(OVERLAYFS_SUPER_MAGIC), Op::read, pagecache_reason::file_system_pages},
      {"denied", [&] { on(0)(), file_->deny_direct_paths(); }, Op::read, Reason::denied},
      {"read once", [&] { on(0)(), file_->note_read_once(); }, Op::read, pagecache_reason::read_once},
      {"a driver that registers none", [&] { pages_.is_supported = false, on(0)(); }, Op::read,
       pagecache_reason::no_page_registration}};
  for (const auto& [world, begin, op, reason] : cases) {
    begin();
    EXPECT_EQ(judge(op).reason, reason) << world << ": " << reason_name(judge(op).reason);
    EXPECT_EQ(judge(op).usable, reason == Reason::none) << world;
    EXPECT_EQ(path_->may_serve(gpu_), pages_.is_supported) << world;
  }
  EXPECT_EQ(path_->judge(*file_, {MemoryKind::device}, Op::read).reason, pagecache_reason::no_page_registration);
}

TEST_F(PagecacheRefusalTest, EachCallOfTheDriverMayFailAndNoWrongByteIsTold) {
  for (const Op op : {Op::read, Op::write}) {
    unsigned errors = 0;
    for (unsigned n = 1; n == 1 || gpu_.has_failed(); ++n) {
      make();
      std::memset(memory_, static_cast<int>(n), kBytes);
      gpu_.fail_at(n);
      const auto channel = open_channel();
      const unsigned good = channel.ok() ? move(**channel, request(op, 4096, 4 * kChunk)) : 0;
      errors += 4 - good;
      forget();  // A channel that is still open, and perhaps broken, holds nothing of the file.
      if (good < 4) continue;
      std::string seen(kBytes, 0);
      ASSERT_EQ(::pread(fd_.get(), seen.data(), kBytes, 0), static_cast<ssize_t>(kBytes));
      EXPECT_EQ(std::memcmp(memory_, seen.data() + 4096, 4 * kChunk), 0) << n;
    }
    EXPECT_GT(errors, 1u);
    EXPECT_EQ(gpu_.allocation_count(), 1u);
  }
}

TEST_F(PagecacheRefusalTest, OneChunkFailsByTheCallThatTheDriverRefuses) {
  unsigned errors = 0;
  for (unsigned n = 1; n == 1 || gpu_.has_failed(); ++n) {
    make();
    const RoutedRequest& request = this->request(Op::read, 0, 4096);
    const auto channel = open_channel(1);
    gpu_.fail_at(n);
    const Completion completion = (*channel)->move_and_wait(request, Plan(request, request.shape.limits).chunk(0));
    errors += completion.status.ok() ? 0 : 1;
    EXPECT_EQ(completion.bytes, completion.status.ok() ? 4096u : 0u) << n;
    EXPECT_EQ(std::memcmp(memory_, content_.data(), completion.bytes), 0) << n;
    forget();
  }
  EXPECT_GT(errors, 0u);
}

// ---- Files that change while they are copied -----------------------------------------------------------------------

TEST_F(PagecacheRefusalTest, AFileThatIsCutEndsAReadAndAWriteIsMadeAgainByTheOtherWay) {
  for (const Op op : {Op::read, Op::write}) {
    ASSERT_EQ(::pwrite(fd_.get(), content_.data(), kBytes, 0), static_cast<ssize_t>(kBytes));
    make();
    const auto channel = open_channel();
    ASSERT_NO_FATAL_FAILURE(fetch(**channel));
    const RoutedRequest& request = this->request(op, 0, 2 * kChunk);
    gpu_.lands_late = true;
    (*channel)->submit(request, Plan(request, request.shape.limits).chunk(1), 7);
    Completion completion;
    ASSERT_EQ((*channel)->poll({&completion, 1}, false), 0u);
    ASSERT_EQ(::ftruncate(fd_.get(), 2 * kChunk - 100), 0) << "within a page, which stays";
    gpu_.lands_late = false;
    ASSERT_EQ((*channel)->poll({&completion, 1}, true), 1u);
    EXPECT_TRUE(completion.status.ok()) << describe(completion.status);
    EXPECT_EQ(completion.bytes, op == Op::read ? kChunk - 100 : kChunk) << "a write makes the file longer";
    EXPECT_EQ(completion.bounced != Reason::none, op == Op::write);
  }
}

// It is cut as late as can be, when they have landed.
TEST_F(PagecacheRefusalTest, AFileThatIsCutBeforeAReadsBeginHasNoneOfItsBytes) {
  const auto channel = open_channel();
  ASSERT_NO_FATAL_FAILURE(fetch(**channel));
  const RoutedRequest& request = this->request(Op::read, 0, 2 * kChunk);
  gpu_.lands_late = true;
  (*channel)->submit(request, Plan(request, request.shape.limits).chunk(1), 7);
  Completion completion;
  ASSERT_EQ((*channel)->poll({&completion, 1}, false), 0u);
  storage_.before_stamp = [&] { EXPECT_EQ(::ftruncate(fd_.get(), kChunk - 100), 0); };
  ASSERT_EQ((*channel)->poll({&completion, 1}, true), 1u);
  EXPECT_TRUE(completion.status.ok()) << describe(completion.status);
  EXPECT_EQ(completion.bytes, 0u);
}

// Its extent ends where the file ended.
TEST_F(PagecacheRefusalTest, AWriteOverTheEndOfWhatIsRegisteredGoesTheOtherWayAsAWhole) {
  const auto channel = open_channel();
  ASSERT_NO_FATAL_FAILURE(fetch(**channel));
  ASSERT_EQ(::ftruncate(fd_.get(), 2 * kBytes), 0);
  std::memset(memory_, 'w', kChunk);
  const Completion completion = move_and_wait(request(Op::write, kBytes - kChunk / 2, kChunk));
  EXPECT_EQ(completion.bytes, kChunk) << describe(completion.status);
  EXPECT_EQ(completion.bounced, pagecache_reason::pages_replaced);
  EXPECT_EQ(in_file(kBytes - kChunk / 2, kChunk), std::string(kChunk, 'w'));
}

TEST_F(PagecacheRefusalTest, OfAFileWhoseStampIsNotToldNothingIsFetched) {
  const RoutedRequest& read = request(Op::read, 4096, kChunk);
  ASSERT_EQ(move_and_wait(read).bounced, Reason::none);
  std::memset(memory_, 0, kChunk);
  storage_.has_no_stamp = true;
  const Completion completion = move_and_wait(read);
  EXPECT_EQ(completion.bounced, pagecache_reason::pages_replaced);
  EXPECT_EQ(completion.bytes, kChunk) << describe(completion.status);
  EXPECT_EQ(std::memcmp(memory_, content_.data() + 4096, kChunk), 0);
}

// Its pages are registered for reading alone, by the request itself.
TEST_F(PagecacheRefusalTest, ASealedFileIsNotWrittenThroughItsPages) {
  RoutedRequest write = request(Op::write, 0, kChunk);
  write.shape.channel_facts.registers_first = true;
  ASSERT_EQ(::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  std::memset(memory_, 'w', kChunk);
  const Completion completion = move_and_wait(write);
  EXPECT_TRUE(completion.status.is_errno(EPERM)) << describe(completion.status);
  EXPECT_EQ(completion.bytes, 0u);
  EXPECT_EQ(in_file(0, kChunk), content_.substr(0, kChunk));
}

// More pieces than a driver's call takes, so that one of several calls for a chunk fails.
TEST_F(PagecacheRefusalTest, EachCallForMemoryInPiecesMayFailAndNoWrongByteIsTold) {
  constexpr std::size_t kPiece = 64, kSmall = 32u << 10;
  std::vector<MemoryPiece> pieces;
  for (std::size_t i = 0; i < 2 * kSmall / kPiece; ++i) pieces.push_back({memory_ + 2 * i * kPiece, kPiece});
  unsigned errors = 0;
  for (unsigned n = 1; n == 1 || gpu_.has_failed(); ++n) {
    make();
    RoutedRequest read = request(Op::read, 4096, 2 * kSmall);
    read.memory = RequestMemory(pieces);
    read.shape.limits.chunk_max = kSmall;
    std::memset(memory_, 0, kBytes);
    const auto channel = open_channel();
    gpu_.fail_at(n);
    const unsigned good = move(**channel, read);
    errors += 2 - good;
    for (std::size_t i = 0; good == 2 && i < pieces.size(); ++i) {
      ASSERT_EQ(std::memcmp(pieces[i].iov_base, content_.data() + 4096 + i * kPiece, kPiece), 0) << n << ", " << i;
    }
  }
  EXPECT_GT(errors, 8u) << "of most calls both chunks end";
}

TEST_F(PagecacheRefusalTest, SmallWritesThatLandTogetherAreAllInTheFile) {
  const auto channel = open_channel();
  ASSERT_NO_FATAL_FAILURE(fetch(**channel));
  RoutedRequest request = this->request(Op::write, 4096, 16'384);
  request.shape.limits.chunk_max = 4096;
  std::memset(memory_, 's', kBytes);
  EXPECT_EQ(move(**channel, request), 4u);
  EXPECT_EQ(bounced_, 0u);
  EXPECT_EQ(in_file(4096, 16'384), std::string(16'384, 's'));
}

TEST_F(PagecacheRefusalTest, WithoutASizeNothingIsWrittenThroughPages) {
  const RoutedRequest& request = this->request(Op::write, 0, kChunk);
  const auto channel = open_channel();
  storage_.is_lost = true;
  const Completion completion = (*channel)->move_and_wait(request, Plan(request, request.shape.limits).chunk(0));
  EXPECT_EQ(completion.bounced, pagecache_reason::reads_only);
  EXPECT_EQ(completion.bytes, kChunk);
}

TEST_F(PagecacheRefusalTest, AChannelPinsOnlyWhatItMayBounceWith) {
  const ChannelOptions options{.device = &gpu_, .depth = 4, .chunk_max = kChunk};
  EXPECT_EQ(path_->channel_bytes(options), 4 * kChunk);
  make(true);
  EXPECT_EQ(path_->channel_bytes(options), 0u);
}

// ---- Keeping and lending -------------------------------------------------------------------------------------------

TEST_F(PagecacheRefusalTest, SoManyPagesAreKeptAsThereIsRoomFor) {
  for (const std::uint64_t room : {kBytes, kBytes - 1}) {
    ResidentPages kept([] { return true; });
    path_->hooks()->keep(*file_, gpu_, {.size = kBytes, .bytes_max = room}, kept);
    EXPECT_EQ(kept.bytes(), room == kBytes ? kBytes : 0);
  }
}

TEST_F(PagecacheRefusalTest, NothingIsLentToAWriteOrOfAFileThatNoRequestHasSeen) {
  RoutedRequest unseen;
  unseen.op = Op::read;
  unseen.file = file_.get();
  unseen.size = kChunk;
  unseen.facts = gpu_.describe(memory_);
  EXPECT_TRUE(path_->hooks()->lend(unseen).empty());
  const RoutedRequest& request = this->request(Op::write, 0, kChunk);
  EXPECT_TRUE(path_->hooks()->lend(request).empty());
}

TEST_F(PagecacheRefusalTest, PagesThatHaveGoneAreAskedForOnceMore) {
  ResidentPages kept([] { return true; });
  path_->hooks()->keep(*file_, gpu_, {.size = kBytes, .bytes_max = kBytes}, kept);
  ASSERT_EQ(kept.bytes(), kBytes);
  kept.release();
  ASSERT_EQ(::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 8192), 0);
  const std::string zeros(8192, '\0');
  ASSERT_EQ(::pwrite(fd_.get(), zeros.data(), zeros.size(), 0), 8192) << "other pages";
  ResidentPages anew([] { return true; });
  path_->hooks()->keep(*file_, gpu_, {.size = kBytes, .bytes_max = kBytes}, anew);
  ASSERT_EQ(anew.bytes(), kBytes);
  EXPECT_EQ(anew.addresses()[0][0], std::byte{0});
}

TEST_F(PagecacheRefusalTest, OnlyFilesThatAreOpenBothWaysAreWrittenThroughTheirPages) {
  const std::string name = "/proc/self/fd/" + std::to_string(fd_.get());
  for (const int flags : {O_RDONLY, O_WRONLY}) {
    const UniqueFd one_way(::open(name.c_str(), flags | O_CLOEXEC));
    make(true);
    const std::unique_ptr<File> file = std::move(*File::open(storage_, one_way.get()));
    EXPECT_EQ(path_->judge(*file, gpu_.describe(memory_), Op::write).reason, pagecache_reason::reads_only);
  }
}

TEST_F(PagecacheRefusalTest, WhatTheCpuCopiesQuickerIsNotLent) {
  path_->forget_file(*file_);
  path_ = std::make_unique<PagecachePath>(storage_, PagecacheRules{.registration = {.bytes_max = 64u << 20}});
  RoutedRequest small;
  small.file = file_.get();
  small.size = 4096;
  small.facts = gpu_.describe(memory_);
  EXPECT_TRUE(path_->hooks()->lend(small).empty());
}

TEST_F(PagecacheRefusalTest, ServesNoDeviceThatRegistersNothingNorAnyWhereItIsOff) {
  FakeGpu without;
  EXPECT_FALSE(PagecachePath(storage_, {.registration = {.bytes_max = 64u << 20}}).may_serve(without));
  PagecachePath off(storage_, {});
  EXPECT_FALSE(off.may_serve(gpu_));
  EXPECT_EQ(off.judge(*file_, gpu_.describe(memory_), Op::read).reason, pagecache_reason::registration_cache_off);
}

TEST_F(PagecacheRefusalTest, ARequestOnHostMemoryIsLeftAsItIs) {
  RoutedRequest request;
  request.file = file_.get();
  request.size = kBytes;
  request.mode = SubmitMode::many;
  path_->hooks()->before_move(request);
  EXPECT_FALSE(request.shape.learns);
  EXPECT_EQ(request.shape.channel_facts.file_state, nullptr);
}

}  // namespace
}  // namespace penstock::core
