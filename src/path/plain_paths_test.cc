// SPDX-License-Identifier: Apache-2.0

// The paths that have little of their own: host, bounce, userspace and null; and which paths are off beforehand.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <iterator>
#include <utility>

#include "fakes/failing_gpu.h"
#include "fakes/fake_storage.h"
#include "path/bounce/bounce_path.h"
#include "path/host/host_path.h"
#include "path/null/null_path.h"
#include "path/paths.h"
#include "path/userspace/userspace_path.h"

namespace penstock::core {
namespace {

// A kernel that refuses io_uring.
class RefusingStorage final : public FakeStorage {
 public:
  int io_uring_error() override { return error; }
  int error = 0;
};

class PlainPathsTest : public testing::Test {
 protected:
  PlainPathsTest() {
    storage_.open_flags = O_RDWR | O_DIRECT;
    file_ = std::move(*File::open(storage_, FakeStorage::kUserFd));
  }

  RefusingStorage storage_;
  FakeGpu gpu_;
  std::unique_ptr<File> file_;
  const PointerFacts host_{};
  const PointerFacts device_{MemoryKind::device, &gpu_};
};

TEST_F(PlainPathsTest, EachServesItsKindOfMemoryAlone) {
  BouncePath bounce(storage_);
  HostPath host(storage_);
  EXPECT_EQ(bounce.judge(*file_, host_, Op::read).reason, Reason::host_memory);
  EXPECT_TRUE(bounce.judge(*file_, device_, Op::read).usable);
  EXPECT_EQ(host.judge(*file_, device_, Op::read).reason, Reason::device_memory);
  EXPECT_TRUE(host.judge(*file_, host_, Op::read).usable);
}

TEST_F(PlainPathsTest, WithoutRingsTheyServeAndSayWhyTheyAreSlower) {
  BouncePath bounce(storage_);
  for (const auto& [error, reason] :
       {std::pair(ECANCELED, Reason::io_uring_off), {EPERM, Reason::io_uring_forbidden}}) {
    storage_.error = error;
    const Verdict verdict = bounce.judge(*file_, device_, Op::read);
    EXPECT_TRUE(verdict.usable);
    EXPECT_EQ(verdict.reason, reason);
  }
}

TEST_F(PlainPathsTest, OnlyAQueuesDirectRequestsOnRegisteredMemoryAreKept) {
  struct Case {
    MemoryKind kind;
    std::uint64_t size;
    SubmitMode mode;
    IoMode io_mode;
    std::uint64_t kept;
  };
  const Case cases[] = {{MemoryKind::host, 8192, SubmitMode::queued, IoMode::o_direct, 8192},
                        {MemoryKind::registered_host, 8192, SubmitMode::queued, IoMode::o_direct, 0},
                        {MemoryKind::host, 0, SubmitMode::queued, IoMode::o_direct, 0},
                        {MemoryKind::host, 8192, SubmitMode::alone, IoMode::o_direct, 0},
                        {MemoryKind::host, 8192, SubmitMode::queued, IoMode::buffered, 0}};
  HostPath host(storage_);
  for (const auto& [kind, size, mode, io_mode, kept] : cases) {
    RoutedRequest request;
    request.file = file_.get();
    request.facts = {kind, nullptr, 4096, size};
    request.mode = mode;
    request.io_mode = io_mode;
    request.chunk_max = 65536;
    EXPECT_EQ(host.shape(request).channel_facts.buffer_bytes, kept);
  }
}

TEST_F(PlainPathsTest, ChunksThatAreNoWholeBlocksArePlannedWithoutThem) {
  HostPath host(storage_);
  RoutedRequest request;
  request.file = file_.get();
  request.io_mode = IoMode::o_direct;
  for (const auto& [chunk_max, align] : {std::pair(65536u, FakeStorage::kAlign), {1000u, 1u}}) {
    request.chunk_max = chunk_max;
    EXPECT_EQ(host.shape(request).limits.file_align, align);
  }
}

TEST_F(PlainPathsTest, TheNullPathTellsAllAsMovedByAsManyAsThereIsRoomFor) {
  NullPath path;
  const auto channel = path.open_channel({.device = &gpu_, .depth = 3, .chunk_max = 4096});
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE((*channel)->has_room());
    (*channel)->submit({}, {.file_offset = i * 4096, .size = 4096}, i);
  }
  EXPECT_FALSE((*channel)->has_room());
  Completion completions[2];
  ASSERT_EQ((*channel)->poll(completions, true), 2u);
  EXPECT_EQ(completions[0].bytes, 4096u);
  EXPECT_EQ((*channel)->poll(completions, true), 1u);
  EXPECT_EQ((*channel)->poll(completions, true), 0u);
  EXPECT_TRUE((*channel)->is_idle());
}

// ---- Files of a file system in user space --------------------------------------------------------------------------

// Its calls return as a script says: bytes, or a negative errno.
class ScriptedFile final : public UserspaceFile {
 public:
  explicit ScriptedFile(std::deque<int>& results) : results_(results) {}
  Result<std::size_t> move(Op op, std::byte* memory, std::size_t size, std::uint64_t) override {
    const int result = results_.front();
    results_.pop_front();
    if (result < 0) return os_failure(-result, "move as scripted");
    const std::size_t moved = std::min(size, static_cast<std::size_t>(result));
    if (op == Op::read) std::memset(memory, 'u', moved);
    return moved;
  }

 private:
  std::deque<int>& results_;
};

class UserspacePathTest : public testing::Test {
 protected:
  Completion move(Device* device, Op op, std::byte* memory) {
    const auto channel = path_.open_channel({.device = device, .depth = 1, .chunk_max = 65536});
    if (!channel.ok()) return {.status = channel.status()};
    RoutedRequest request;
    request.op = op;
    request.file = file_.get();
    request.memory = memory;
    return (*channel)->move_and_wait(request, {.size = 100, .io_size = 100});
  }

  std::deque<int> results_;
  FakeStorage storage_;
  std::unique_ptr<File> file_ = File::open(storage_, std::make_unique<ScriptedFile>(results_));
  UserspacePath path_;
};

TEST_F(UserspacePathTest, TellsWhatWasMovedBeforeASignalAnEndOrAnError) {
  struct Case {
    Op op;
    std::deque<int> results;
    std::uint64_t bytes;
    Status status;
  };
  const Case cases[] = {{Op::read, {100}, 100, success()},
                        {Op::read, {60, 40}, 100, success()},
                        {Op::read, {60, 0}, 60, success()},
                        {Op::read, {60, -EINTR}, 60, success()},
                        {Op::read, {-EINTR}, 0, os_failure(EINTR, "")},
                        {Op::read, {60, -EIO}, 60, os_failure(EIO, "")},
                        {Op::write, {60, 0}, 60, failure(Code::no_progress, "")}};
  for (const auto& [op, results, bytes, status] : cases) {
    results_ = results;
    std::byte memory[100] = {};
    const Completion completion = move(nullptr, op, memory);
    EXPECT_EQ(completion.bytes, bytes);
    EXPECT_EQ(completion.status.code, status.code);
    EXPECT_EQ(completion.status.domain, status.domain);
    if (op == Op::read) {
      EXPECT_EQ(std::count(std::begin(memory), std::end(memory), std::byte{'u'}), static_cast<long>(bytes));
    }
  }
}

TEST_F(UserspacePathTest, OnlyCallsOnHostMemoryGoWhole) {
  FakeGpu gpu;
  RoutedRequest request;
  request.chunk_max = 65536;
  EXPECT_GT(path_.shape(request).limits.chunk_max, 65536u);
  request.mode = SubmitMode::queued;
  EXPECT_EQ(path_.shape(request).limits.chunk_max, 65536u);
  request.mode = SubmitMode::alone;
  request.facts = {MemoryKind::device, &gpu};
  EXPECT_EQ(path_.shape(request).limits.chunk_max, 65536u);
  const auto channel = path_.open_channel({.depth = 1, .chunk_max = 65536});
  EXPECT_EQ((*channel)->poll({}, true), 0u) << "no room for a completion";
}

TEST_F(UserspacePathTest, EachCallOfTheDriverMayFailAndNothingIsToldAsMovedThen) {
  for (const Op op : {Op::read, Op::write}) {
    FailingGpu gpu;
    auto* const memory = static_cast<std::byte*>(*gpu.allocate(4096));
    unsigned errors = 0;
    for (unsigned n = 1; n == 1 || gpu.has_failed(); ++n) {
      results_ = {100};
      gpu.fail_at(n);
      const Completion completion = move(&gpu, op, memory);
      errors += completion.status.ok() ? 0 : 1;
      EXPECT_EQ(completion.bytes, completion.status.ok() ? 100u : 0u) << n;
    }
    EXPECT_GT(errors, 3u);
  }
}

TEST(OutlookTest, MemoryThatNobodyOffersIsReachedByNoDrive) {
  PathSettings settings;
  EXPECT_EQ(outlook_of(PathId::p2pdma, settings), reason_of(Obstacle::pointer_not_exportable));
  settings.offers_memory = true;
  EXPECT_EQ(outlook_of(PathId::p2pdma, settings), Reason::none);
}

}  // namespace
}  // namespace penstock::core
