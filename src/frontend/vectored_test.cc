// SPDX-License-Identifier: Apache-2.0

// One range of a file over several pieces of memory: in a call, and in a request of a batch.
#include "frontend/vectored.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "fakes/batch_fixture.h"

namespace penstock::core {
namespace {

using Pieces = std::vector<MemoryPiece>;

class VectoredFixture : public BatchTest {
 protected:
  static constexpr std::uint64_t kFileBytes = 64u << 20;

  VectoredFixture() {
    for (std::size_t i = 0; i < kFileBytes; ++i) storage_->content[i] = content_at(i);
  }
  ~VectoredFixture() override {
    barrier_.open();
    frontends_.reset();  // Before its memory goes.
  }

  static char content_at(std::size_t offset) { return static_cast<char>(offset * 2654435761u >> 13); }
  static std::string content(std::size_t offset, std::size_t size) {
    std::string bytes(size, '\0');
    for (std::size_t i = 0; i < size; ++i) bytes[i] = content_at(offset + i);
    return bytes;
  }
  std::string in_file(std::size_t offset, std::size_t size) const { return {storage_->content.data() + offset, size}; }
  QueuedRequest entry(Op op, std::int64_t offset, const Pieces& pieces) const {
    return {.request = {.op = op, .file = file_, .file_offset = offset}, .pieces = pieces};
  }
  // A piece that is refused: it is longer than what was registered.
  MemoryPiece refused_piece() {
    EXPECT_TRUE(session_->register_buffer(host_.data(), 100).ok());
    return {host_.data(), 5000};
  }

  std::vector<char> host_ = std::vector<char>(16 * kLarge);
  std::vector<QueueEvent> events_ = std::vector<QueueEvent>(8);
};

enum class As { call, request };

class VectoredTest : public VectoredFixture, public testing::WithParamInterface<As> {
 protected:
  Outcome move(Op op, std::int64_t offset, const Pieces& pieces) {
    const QueuedRequest wanted = entry(op, offset, pieces);
    if (GetParam() == As::call) return transfer_vectored(*session_, wanted.request, pieces);
    ThreadedQueue& batch = open_batch(1);
    EXPECT_TRUE(batch.submit({&wanted, 1}).ok());
    EXPECT_EQ(batch.reap(events_, 1, std::nullopt), 1u);
    EXPECT_EQ(batch.reap(events_, 1, std::nullopt), 0u);
    return events_[0].outcome;
  }
};

INSTANTIATE_TEST_SUITE_P(As, VectoredTest, testing::Values(As::call, As::request),
                         [](const auto& test) { return test.param == As::call ? "Call" : "Request"; });

TEST_P(VectoredTest, AReadFillsPiecesOfBothKindsOfMemoryOneAfterTheOther) {
  char* const device = device_memory(2 * kLarge);
  const Pieces pieces{{host_.data(), 700}, {device, kLarge + 3}, {nullptr, 0}, {host_.data() + 9000, 5000}};

  const Outcome outcome = move(Op::read, 12'345, pieces);

  EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
  EXPECT_EQ(outcome.report.bytes, 700 + kLarge + 3 + 5000);
  EXPECT_EQ(outcome.report.path, PathId::host);
  EXPECT_EQ(outcome.report.bounced_bytes, kLarge + 3);
  EXPECT_TRUE(std::string(host_.data(), 700) == content(12'345, 700));
  EXPECT_TRUE(std::string(device, kLarge + 3) == content(13'045, kLarge + 3));
  EXPECT_TRUE(std::string(host_.data() + 9000, 5000) == content(13'048 + kLarge, 5000));
}

TEST_P(VectoredTest, AWriteLeavesNoGapBetweenItsPieces) {
  char* const device = device_memory(kLarge);
  std::fill_n(device, 5001, 'd');
  std::fill_n(host_.data(), 9000, 'h');

  const Outcome outcome = move(Op::write, 100, {{host_.data(), 9000}, {device, 5001}, {host_.data(), 1}});

  EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
  EXPECT_EQ(outcome.report.bytes, 14'002u);
  EXPECT_EQ(in_file(99, 14'004),
            content(99, 1) + std::string(9000, 'h') + std::string(5001, 'd') + "h" + content(14'102, 1));
}

TEST_P(VectoredTest, AReadAcrossTheEndOfTheFileCountsWhatThereIs) {
  const Pieces pieces{{host_.data(), 1000}, {host_.data() + 1000, 1000}, {host_.data() + 2000, 1000}};

  const Outcome outcome = move(Op::read, kFileBytes - 1500, pieces);

  EXPECT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.report.bytes, 1500u);
}

TEST_P(VectoredTest, BytesCountUpToTheFirstPieceThatFailed) {
  const Pieces pieces{{host_.data() + 5000, 3000}, refused_piece(), {host_.data() + 8000, 3000}};

  const Outcome outcome = move(Op::read, 0, pieces);

  EXPECT_TRUE(outcome.status.is(Code::out_of_range)) << describe(outcome.status);
  EXPECT_EQ(outcome.report.bytes, 3000u);
}

TEST_P(VectoredTest, AWriteEndsWithThePieceThatFailed) {
  const Pieces pieces{{host_.data() + 5000, 3000}, refused_piece(), {host_.data() + 8000, 3000}};

  const Outcome outcome = move(Op::write, 0, pieces);

  EXPECT_TRUE(outcome.status.is(Code::out_of_range)) << describe(outcome.status);
  EXPECT_EQ(outcome.report.bytes, 3000u);
  EXPECT_EQ(in_file(3000, 9000), content(3000, 9000));
}

TEST_P(VectoredTest, NothingIsMovedForPiecesThatAreAllEmpty) {
  const Outcome outcome = move(Op::read, 5, {{nullptr, 0}, {host_.data(), 0}});

  EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
  EXPECT_EQ(outcome.report.bytes, 0u);
}

TEST_P(VectoredTest, AsManyPiecesAsAreAllowedAreMoved) {
  Pieces pieces;
  for (std::size_t i = 0; i < kPiecesMax; ++i) pieces.push_back({host_.data() + (kPiecesMax - 1 - i) * 4096, 4096});

  const Outcome outcome = move(Op::read, 8192, pieces);

  EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
  EXPECT_EQ(outcome.report.bytes, kPiecesMax * 4096);
  EXPECT_TRUE(std::string(host_.data(), 4096) == content(8192 + (kPiecesMax - 1) * 4096, 4096));
  EXPECT_TRUE(std::string(host_.data() + (kPiecesMax - 1) * 4096, 4096) == content(8192, 4096));
}

TEST_P(VectoredTest, WhatCannotBeIsRefusedBeforeAnythingMoves) {
  const MemoryPiece good{host_.data(), 100};
  const Pieces too_many(kPiecesMax + 1, good);

  EXPECT_TRUE(move(Op::read, 0, too_many).status.is(Code::invalid_argument));
  EXPECT_TRUE(move(Op::read, 0, {good, {nullptr, 100}}).status.is(Code::invalid_argument));
  EXPECT_TRUE(move(Op::read, 0, {good, {host_.data(), UINT64_MAX - 50}}).status.is(Code::invalid_argument));
  EXPECT_TRUE(move(Op::read, INT64_MAX - 150, {good, good}).status.is(Code::invalid_argument));
  EXPECT_TRUE(move(Op::read, -1, {good}).status.is(Code::negative_offset));

  EXPECT_TRUE(storage_->accesses.empty());
}

// ---- In a batch ----------------------------------------------------------------------------------------------------

class VectoredRequestTest : public VectoredFixture {
 protected:
  // More pieces than threads, each of which keeps a thread busy.
  Pieces large_pieces() {
    Pieces pieces;
    for (unsigned i = 0; i < kThreads + 2; ++i) pieces.push_back({host_.data() + i * kLarge, kLarge});
    return pieces;
  }
};

TEST_F(VectoredRequestTest, PiecesAreMovedAtOnce) {
  hold_transfers_up();
  ThreadedQueue& batch = open_batch(1);
  const Pieces pieces = large_pieces();
  const QueuedRequest wanted = entry(Op::read, 0, pieces);

  ASSERT_TRUE(batch.submit({&wanted, 1}).ok());

  barrier_.wait_for(kThreads);
  barrier_.open();
  ASSERT_EQ(batch.reap(events_, 1, std::nullopt), 1u);
  EXPECT_EQ(events_[0].outcome.report.bytes, pieces.size() * kLarge);
}

TEST_F(VectoredRequestTest, PiecesOfAWriteThatShareAPageAreMovedOneAfterTheOther) {
  ThreadedQueue& batch = open_batch(1);
  Pieces pieces;
  for (std::size_t i = 0; i < 200; ++i) pieces.push_back({host_.data() + i * 512, 512});
  const QueuedRequest wanted = entry(Op::write, 0, pieces);

  ASSERT_TRUE(batch.submit({&wanted, 1}).ok());
  ASSERT_EQ(batch.reap(events_, 1, std::nullopt), 1u);

  EXPECT_EQ(events_[0].outcome.report.bytes, 200u * 512);
  std::vector<std::uint64_t> offsets[25];  // By page.
  for (const auto& access : storage_->accesses) offsets[access.offset * 25 / (200u * 512)].push_back(access.offset);
  for (const auto& page : offsets) {
    EXPECT_EQ(page.size(), 8u);
    EXPECT_TRUE(std::is_sorted(page.begin(), page.end()));
  }
}

TEST_F(VectoredRequestTest, ThePiecesNeedNotOutliveTheSubmission) {
  ThreadedQueue& batch = open_batch(1);
  {
    const Pieces pieces{{host_.data(), 5000}, {host_.data() + 6000, 5000}};
    const QueuedRequest wanted = entry(Op::read, 0, pieces);
    ASSERT_TRUE(batch.submit({&wanted, 1}).ok());
  }

  ASSERT_EQ(batch.reap(events_, 1, std::nullopt), 1u);
  EXPECT_TRUE(events_[0].entry.pieces.empty());
  EXPECT_EQ(events_[0].entry.request.size, 10'000u);
  EXPECT_TRUE(std::string(host_.data() + 6000, 5000) == content(5000, 5000));
}

TEST_F(VectoredRequestTest, HasBegunWithTheFirstOfItsPieces) {
  hold_transfers_up();
  ThreadedQueue& batch = open_batch(1);
  const Pieces pieces = large_pieces();
  const QueuedRequest wanted = entry(Op::read, 0, pieces);
  ASSERT_TRUE(batch.submit({&wanted, 1}).ok());
  barrier_.wait_for(1);

  EXPECT_EQ(batch.cancel(0), 0u);

  barrier_.open();
  ASSERT_EQ(batch.reap(events_, 1, std::nullopt), 1u);
  EXPECT_EQ(events_[0].outcome.report.bytes, pieces.size() * kLarge);
}

TEST_F(VectoredRequestTest, BeforeItHasBegunItIsCanceledAsAWhole) {
  hold_transfers_up();
  ThreadedQueue& batch = open_batch(kThreads + 1);
  std::vector<QueuedRequest> busy = entries(kThreads, Op::read, host_.data());
  ASSERT_TRUE(batch.submit(busy).ok());
  barrier_.wait_for(kThreads);
  const Pieces pieces = large_pieces();
  const QueuedRequest wanted = entry(Op::read, 0, pieces);
  ASSERT_TRUE(batch.submit({&wanted, 1}).ok());

  EXPECT_EQ(batch.cancel(0), 1u);

  ASSERT_EQ(batch.reap(events_, 1, std::nullopt), 1u);
  EXPECT_TRUE(events_[0].outcome.status.is(Code::canceled));
  EXPECT_EQ(events_[0].outcome.report.bytes, 0u);
}

TEST_F(VectoredRequestTest, ClosingWaitsForAllPiecesOfWhatHasBegun) {
  hold_transfers_up();
  ThreadedQueue& batch = open_batch(1);
  const Pieces pieces = large_pieces();
  const QueuedRequest wanted = entry(Op::write, 0, pieces);
  std::fill(host_.begin(), host_.end(), 'w');
  ASSERT_TRUE(batch.submit({&wanted, 1}).ok());
  barrier_.wait_for(1);

  barrier_.open();
  EXPECT_TRUE(frontends_->close_batch(batch_));

  EXPECT_EQ(in_file(0, pieces.size() * kLarge), std::string(pieces.size() * kLarge, 'w'));
}

// ---- Gathered: pieces of one device's memory, moved as one ----------------------------------------------------------

class GatheredTest : public VectoredTest {
 protected:
  // Pieces of the device's memory, of 40 KiB and a byte each, in no order and with gaps.
  static constexpr std::size_t kPiece = (40u << 10) + 1;
  static constexpr std::size_t kCount = 150;
  void SetUp() override { device_ = device_memory(kCount * (kPiece + 100)); }
  char* place(std::size_t i) const { return device_ + i * 37 % kCount * (kPiece + 100); }
  Pieces device_pieces() const {
    Pieces pieces;
    for (std::size_t i = 0; i < kCount; ++i) pieces.push_back({place(i), kPiece});
    return pieces;
  }
  char* device_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(As, GatheredTest, testing::Values(As::call, As::request),
                         [](const auto& test) { return test.param == As::call ? "Call" : "Request"; });

TEST_P(GatheredTest, AReadAsksStorageForTheWholeRangeInFewOperations) {
  const Outcome outcome = move(Op::read, 12'345, device_pieces());

  EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
  EXPECT_EQ(outcome.report.bytes, kCount * kPiece);
  EXPECT_EQ(outcome.report.path, PathId::bounce);
  EXPECT_LT(storage_->accesses.size(), 20u);
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_TRUE(std::string(place(i), kPiece) == content(12'345 + i * kPiece, kPiece)) << i;
    EXPECT_EQ(place(i)[kPiece], 0) << "behind piece " << i;
  }
}

TEST_P(GatheredTest, AWriteTakesThePiecesInTheirOrder) {
  std::string expected;
  for (std::size_t i = 0; i < kCount; ++i) {
    std::fill_n(place(i), kPiece, static_cast<char>('a' + i % 26));
    expected += std::string(kPiece, static_cast<char>('a' + i % 26));
  }

  const Outcome outcome = move(Op::write, 777, device_pieces());

  EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
  EXPECT_EQ(outcome.report.bytes, expected.size());
  EXPECT_LT(storage_->accesses.size(), 20u);
  EXPECT_TRUE(in_file(776, expected.size() + 2) == content(776, 1) + expected + content(777 + expected.size(), 1));
}

TEST_P(GatheredTest, AReadAcrossTheEndOfTheFileFillsWhatThereIs) {
  const std::uint64_t rest = 3 * kPiece + 1000;

  const Outcome outcome = move(Op::read, static_cast<std::int64_t>(kFileBytes - rest), device_pieces());

  EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
  EXPECT_EQ(outcome.report.bytes, rest);
  EXPECT_TRUE(std::string(place(3), 1000) == content(kFileBytes - 1000, 1000));
  EXPECT_EQ(place(3)[1000], 0);
  EXPECT_EQ(place(4)[0], 0);
}

TEST_P(GatheredTest, OneThatIsRefusedIsToldAndWhatLiesBeforeItMoved) {
  Pieces pieces = device_pieces();
  ASSERT_TRUE(session_->register_buffer(place(5), 100).ok());

  const Outcome outcome = move(Op::read, 0, pieces);

  EXPECT_TRUE(outcome.status.is(Code::out_of_range)) << describe(outcome.status);
  EXPECT_EQ(outcome.report.bytes, 5 * kPiece);
  EXPECT_TRUE(std::string(place(4), kPiece) == content(4 * kPiece, kPiece));
}

TEST_P(GatheredTest, ManySmallPiecesAreNoMoreOperationsThanFewLargeOnes) {
  Pieces pieces;
  for (std::size_t i = 0; i < kPiecesMax; ++i) pieces.push_back({device_ + (kPiecesMax - 1 - i) * 512, 512});

  const Outcome outcome = move(Op::read, 4096, pieces);

  EXPECT_EQ(outcome.report.bytes, kPiecesMax * 512);
  EXPECT_LT(storage_->accesses.size(), 10u);
  EXPECT_TRUE(std::string(device_, 512) == content(4096 + (kPiecesMax - 1) * 512, 512));
}

// ---- The progress of parts ------------------------------------------------------------------------------------------

class PartsProgressTest : public testing::Test {
 protected:
  // Part i of three, of 100 bytes each, from byte 1000 on.
  void add(unsigned i, const Status& status, const Report& report) {
    progress_.add(1000 + 100 * i, 100, {status, report});
  }
  Report report() const { return progress_.outcome().report; }

  PartsProgress progress_{1000, 300, 3};
};

TEST_F(PartsProgressTest, BytesOfALaterPartThatWentByBounceCountAsBounced) {
  add(2, success(), {.bytes = 100, .path = PathId::bounce, .reason = Reason::host_memory});
  add(0, success(), {.bytes = 100, .direct_bytes = 100, .path = PathId::p2pdma});
  add(1, success(), {.bytes = 100, .direct_bytes = 100, .path = PathId::p2pdma});

  EXPECT_EQ(report().path, PathId::p2pdma);
  EXPECT_EQ(report().bytes, 300u);
  EXPECT_EQ(report().direct_bytes, 200u);
  EXPECT_EQ(report().bounced_bytes, 100u);
  EXPECT_EQ(report().bounced_reason, Reason::host_memory);
}

TEST_F(PartsProgressTest, WhereTheFirstPartWentByBounceSoDidTheRequest) {
  add(1, success(), {.bytes = 100, .direct_bytes = 100, .path = PathId::p2pdma});
  add(0, success(), {.bytes = 100, .path = PathId::bounce, .reason = Reason::host_memory, .refused = 0});
  add(2, success(), {.bytes = 50, .path = PathId::p2pdma});

  EXPECT_EQ(report().path, PathId::bounce);
  EXPECT_EQ(report().reason, Reason::host_memory);
  EXPECT_EQ(report().bytes, 250u);
  EXPECT_EQ(report().direct_bytes, 100u);
  EXPECT_EQ(report().bounced_bytes, 0u);
}

TEST_F(PartsProgressTest, TheFirstFailureInTheFilesOrderCountsWhicheverCameFirst) {
  add(2, os_failure(EIO, "late"), {});
  add(1, os_failure(ENOSPC, "early"), {.bytes = 30});
  add(0, success(), {.bytes = 100});

  EXPECT_TRUE(progress_.outcome().status.is_errno(ENOSPC));
  EXPECT_EQ(report().bytes, 130u);
}

TEST_F(PartsProgressTest, AFailureBehindTheEndOfTheFileIsNone) {
  add(0, success(), {.bytes = 60});
  add(1, os_failure(EIO, "behind"), {});

  EXPECT_TRUE(progress_.outcome().status.ok());
  EXPECT_EQ(report().bytes, 60u);
}

}  // namespace
}  // namespace penstock::core
