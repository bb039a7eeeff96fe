// SPDX-License-Identifier: Apache-2.0

// Requests on an object of several files, in a call and in a queue: their bytes, what is refused, and members that
// fail.
#include "frontend/striped.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <vector>

#include "device/host/host_device.h"
#include "fakes/test_config.h"
#include "frontend/frontends.h"
#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

constexpr std::uint32_t kMembers = 3;
constexpr std::uint64_t kStripe = StripeLayout::kStripeUnit, kSize = 7 * kStripe + 10'000;

// Every read and write of a file that is at this size fails. io_uring is off, so that all of them pass here.
class FailingStorage final : public PosixStorage {
 public:
  FailingStorage() : PosixStorage(false) {}
  Result<std::size_t> read(int fd, void* memory, std::size_t size, std::uint64_t offset) override {
    if (fails(fd)) return os_failure(EIO, "read as scripted");
    return PosixStorage::read(fd, memory, size, offset);
  }
  Result<std::size_t> read_if_cached(int fd, void* memory, std::size_t size, std::uint64_t offset) override {
    if (fails(fd)) return os_failure(EIO, "read as scripted");
    return PosixStorage::read_if_cached(fd, memory, size, offset);
  }
  Result<std::size_t> write(int fd, const void* memory, std::size_t size, std::uint64_t offset) override {
    if (fails(fd)) return os_failure(ENOSPC, "write as scripted");
    return PosixStorage::write(fd, memory, size, offset);
  }

  std::atomic<std::uint64_t> failing_size{UINT64_MAX};

 private:
  bool fails(int fd) { return failing_size != UINT64_MAX && size(fd).value() == failing_size; }
};

enum class As { call, request };

class StripedTest : public testing::TestWithParam<As> {
 protected:
  StripedTest() {
    auto storage = std::make_unique<FailingStorage>();
    storage_ = storage.get();
    session_ = std::make_unique<Session>(test_config({{"workers", "2"}}), std::move(storage),
                                         std::make_unique<HostDeviceSet>());
    frontends_ = std::make_unique<Frontends>(*session_);
    queue_ = std::make_unique<ThreadedQueue>(frontends_->executor(), 4);
    striped_->layout = {.size = kSize, .stripe_bytes = kStripe, .members = kMembers};
    for (std::uint32_t i = 0; i < kMembers; ++i) {
      members_[i] = UniqueFd(::memfd_create("member", MFD_CLOEXEC));
      EXPECT_EQ(::ftruncate(members_[i].get(), static_cast<off_t>(striped_->layout.member_bytes(i))), 0);
      striped_->files.push_back(session_->register_file(members_[i].get()).value());
      striped_->names.push_back("/drive" + std::to_string(i) + "/part");
    }
    for (std::uint64_t at = 0; at < kSize; ++at) content_[at] = static_cast<char>(at * 2654435761u >> 11);
  }
  ~StripedTest() override {
    queue_.reset();
    frontends_.reset();
  }

  Outcome move(const RawRequest& request, std::span<const MemoryPiece> pieces = {}) {
    if (GetParam() == As::call) return transfer_striped(*session_, frontends_->executor(), *striped_, request, pieces);
    const QueuedRequest entry{.request = request, .pieces = pieces, .striped = striped_.get(), .cookie = 7};
    EXPECT_TRUE(queue_->submit({&entry, 1}).ok());
    QueueEvent event;
    EXPECT_EQ(queue_->reap({&event, 1}, 1, std::nullopt), 1u);
    EXPECT_EQ(event.entry.cookie, 7u);
    EXPECT_EQ(event.entry.striped, nullptr) << "only submit() looks at it";
    return event.outcome;
  }
  void fill() {
    const Outcome written = move({.op = Op::write, .base = content_.data(), .size = kSize});
    ASSERT_TRUE(written.status.ok()) << describe(written.status);
    ASSERT_EQ(written.report.bytes, kSize);
  }
  // The bytes of a member's file.
  std::string member(std::uint32_t number) const {
    std::string bytes(striped_->layout.member_bytes(number), '\0');
    EXPECT_EQ(::pread(members_[number].get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    return bytes;
  }
  RawRequest read_of(std::uint64_t offset, std::uint64_t size) {
    return {.op = Op::read, .base = memory_.data(), .size = size, .file_offset = static_cast<std::int64_t>(offset)};
  }
  RawRequest write_of(std::uint64_t offset, std::uint64_t size) {
    return {.op = Op::write, .base = content_.data(), .size = size, .file_offset = static_cast<std::int64_t>(offset)};
  }

  FailingStorage* storage_ = nullptr;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Frontends> frontends_;
  UniqueFd members_[kMembers];
  const std::shared_ptr<Striped> striped_ = std::make_shared<Striped>();
  std::unique_ptr<ThreadedQueue> queue_;
  std::string content_ = std::string(kSize, '\0'), memory_ = std::string(kSize + kStripe, '#');
};

INSTANTIATE_TEST_SUITE_P(As, StripedTest, testing::Values(As::call, As::request),
                         [](const auto& test) { return test.param == As::call ? "Call" : "Request"; });

TEST_P(StripedTest, StripesGoRoundTheMembersAndComeBack) {
  fill();
  for (std::uint32_t i = 0; i < kMembers; ++i) {
    EXPECT_TRUE(member(i).substr(0, kStripe) == content_.substr(i * kStripe, kStripe)) << "member " << i;
  }
  struct Range {
    std::uint64_t offset, size, moved;
  };
  const Range ranges[] = {{0, kSize, kSize},                            // All of it.
                          {100, 5000, 5000},                            // Within one stripe,
                          {kStripe - 100, 200, 200},                    // over the end of one,
                          {2 * kStripe + 7, 5 * kStripe, 5 * kStripe},  // and twice round.
                          {kSize - 300, 1000, 300},                     // Over the object's end,
                          {kSize, 1000, 0},                             // at it,
                          {kSize + 5, 1000, 0}};                        // and behind it.
  for (const Range& range : ranges) {
    std::fill(memory_.begin(), memory_.end(), '#');

    const Outcome outcome = move(read_of(range.offset, range.size));

    EXPECT_TRUE(outcome.status.ok()) << range.offset << ": " << describe(outcome.status);
    EXPECT_EQ(outcome.report.bytes, range.moved) << range.offset;
    EXPECT_TRUE(memory_.substr(0, range.moved) == content_.substr(std::min(range.offset, kSize), range.moved));
    EXPECT_EQ(memory_[range.moved], '#') << "behind the count, of " << range.offset;
  }
}

TEST_P(StripedTest, PiecesOfMemoryAreFilledAcrossStripes) {
  fill();
  const std::vector<MemoryPiece> pieces = {{memory_.data() + 10, 3000}, {nullptr, 0}, {memory_.data() + 9000, 400'000}};
  for (const std::uint64_t offset : {std::uint64_t{1000}, kStripe - 1500, kSize - 403'000}) {
    std::fill(memory_.begin(), memory_.end(), '#');

    const Outcome outcome = move({.op = Op::read, .file_offset = static_cast<std::int64_t>(offset)}, pieces);

    EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
    EXPECT_EQ(outcome.report.bytes, 403'000u);
    EXPECT_TRUE(memory_.substr(10, 3000) == content_.substr(offset, 3000));
    EXPECT_TRUE(memory_.substr(9000, 400'000) == content_.substr(offset + 3000, 400'000));
    EXPECT_EQ(memory_[3010], '#');
  }
}

TEST_P(StripedTest, APieceWithinOneStripeIsARequestOnItsMember) {
  fill();
  const std::vector<MemoryPiece> pieces = {{memory_.data(), 100}, {memory_.data() + 500, 100}};

  const Outcome outcome = move({.op = Op::read, .file_offset = static_cast<std::int64_t>(kStripe + 50)}, pieces);

  EXPECT_EQ(outcome.report.bytes, 200u);
  EXPECT_TRUE(memory_.substr(0, 100) == content_.substr(kStripe + 50, 100));
  EXPECT_TRUE(memory_.substr(500, 100) == content_.substr(kStripe + 150, 100));
}

TEST_P(StripedTest, WhatCannotBeIsRefusedAndMovesNothing) {
  const std::vector<MemoryPiece> many(kPiecesMax + 1, MemoryPiece{memory_.data(), 1});
  struct Row {
    const char* name;
    RawRequest request;
    std::span<const MemoryPiece> pieces;
    Code code;
  };
  RawRequest nowhere = read_of(0, 10), before_memory = read_of(0, 10), before_file = write_of(0, 10);
  nowhere.base = nullptr;
  before_memory.buffer_offset = -1;
  before_file.file_offset = -1;
  const Row rows[] = {{"no memory", nowhere, {}, Code::invalid_argument},
                      {"an offset before the memory", before_memory, {}, Code::negative_offset},
                      {"an offset before the object", before_file, {}, Code::negative_offset},
                      {"too many pieces", read_of(0, 0), many, Code::invalid_argument},
                      {"a write over the object's end", write_of(kSize - 5, 6), {}, Code::out_of_range},
                      {"a write behind it", write_of(kSize + 5, 1), {}, Code::out_of_range}};
  for (const Row& row : rows) {
    const Outcome outcome = move(row.request, row.pieces);

    EXPECT_TRUE(outcome.status.is(row.code)) << row.name << ": " << describe(outcome.status);
    EXPECT_EQ(outcome.report.bytes, 0u) << row.name;
  }
  for (std::uint32_t i = 0; i < kMembers; ++i) EXPECT_EQ(member(i).find_first_not_of('\0'), std::string::npos) << i;
}

TEST_P(StripedTest, ARequestOfNoBytesNeedsNoMemory) {
  const Outcome outcome = move({.op = Op::write, .base = content_.data(), .file_offset = 5});
  EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
  EXPECT_EQ(outcome.report.bytes, 0u);
}

// The bytes before the first that is missing count, whatever the other members have moved.
TEST_P(StripedTest, AMemberThatFailsIsNamedAndBoundsTheCount) {
  fill();
  const StripeLayout& layout = striped_->layout;
  ASSERT_NE(layout.member_bytes(1), layout.member_bytes(2));
  storage_->failing_size = layout.member_bytes(1);
  const std::string name = "member 1 of the striped object, /drive1/part";
  for (const std::uint64_t offset : {std::uint64_t{0}, kStripe, kStripe + 5}) {
    for (const std::uint64_t size : {kSize - offset, std::uint64_t{1000}}) {
      for (const Op op : {Op::read, Op::write}) {
        if (layout.member_at(offset) != 1 && offset + size <= layout.stripe_end(offset)) continue;

        const Outcome outcome = move(op == Op::read ? read_of(offset, size) : write_of(offset, size));

        const std::string text = describe(outcome.status);
        EXPECT_TRUE(outcome.status.is_errno(op == Op::read ? EIO : ENOSPC)) << text;
        EXPECT_NE(text.find((op == Op::read ? "read from " : "write to ") + name), std::string::npos) << text;
        EXPECT_EQ(outcome.report.bytes, offset < kStripe ? kStripe - offset : 0) << offset << " " << op_name(op);
      }
    }
  }
}

TEST_P(StripedTest, AMemberThatBecameShorterIsToldAsThat) {
  fill();
  ASSERT_EQ(::ftruncate(members_[2].get(), 1000), 0);
  for (const std::uint64_t size : {std::uint64_t{2000}, kSize - 2 * kStripe}) {
    const Outcome outcome = move(read_of(2 * kStripe, size));

    EXPECT_TRUE(outcome.status.is(Code::bad_stripe)) << describe(outcome.status);
    EXPECT_NE(describe(outcome.status).find("/drive2/part: it became shorter"), std::string::npos);
    EXPECT_EQ(outcome.report.bytes, 1000u);
    EXPECT_TRUE(memory_.substr(0, 1000) == content_.substr(2 * kStripe, 1000));
  }
}

TEST_P(StripedTest, AMemberThatIsNotRegisteredAnyMoreIsNamed) {
  fill();
  ASSERT_TRUE(session_->deregister_file(striped_->files[0]).ok());
  for (const std::uint64_t size : {std::uint64_t{2000}, 3 * kStripe}) {
    const Outcome outcome = move(read_of(0, size));

    EXPECT_TRUE(outcome.status.is(Code::not_registered)) << describe(outcome.status);
    EXPECT_NE(describe(outcome.status).find("member 0 of the striped object"), std::string::npos);
    EXPECT_EQ(outcome.report.bytes, 0u);
  }
}

using StripedQueueTest = StripedTest;
INSTANTIATE_TEST_SUITE_P(As, StripedQueueTest, testing::Values(As::request), [](const auto&) { return "Request"; });

TEST_P(StripedQueueTest, OnesBuffersAreWaitedForWhereverItsStripesLie) {
  fill();
  const RawRequest read = read_of(0, kSize);
  const QueuedRequest entry{.request = read, .striped = striped_.get(), .cookie = 1};
  ASSERT_TRUE(queue_->submit({&entry, 1}).ok());

  queue_->wait_for({memory_.data(), 1});

  EXPECT_TRUE(memory_.substr(0, kSize) == content_);
  QueueEvent event;
  EXPECT_EQ(queue_->reap({&event, 1}, 0, std::nullopt), 1u) << "it has ended";
}

TEST_P(StripedQueueTest, WhatItsMakerRefusedIsReportedWithThatAndNotBegun) {
  const QueuedRequest entry{.request = write_of(0, kSize),
                            .striped = striped_.get(),
                            .refused = failure(Code::unsupported, "make the request")};
  ASSERT_TRUE(queue_->submit({&entry, 1}).ok());
  QueueEvent event;
  ASSERT_EQ(queue_->reap({&event, 1}, 1, std::nullopt), 1u);
  EXPECT_TRUE(event.outcome.status.is(Code::unsupported)) << describe(event.outcome.status);
  EXPECT_EQ(member(0).find_first_not_of('\0'), std::string::npos);
}

}  // namespace
}  // namespace penstock::core
