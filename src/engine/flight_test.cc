// SPDX-License-Identifier: Apache-2.0

// A flight says which chunk may begin, and tells in the end what became of all: here without a file and a path.
#include "engine/flight.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::core {
namespace {

using State = Flight::State;

// It is not aligned: it has a head of 3096 bytes, two chunks of 4096 in the middle, and a tail of 1712.
Flight unaligned_write(std::uint64_t offset = 1000, std::uint64_t size = 13000) {
  Flight flight;
  flight.request.op = Op::write;
  flight.request.file_offset = offset;
  flight.request.size = size;
  flight.request.shape.limits = {.file_align = 512, .memory_align = 512, .chunk_max = 4096, .staged = true};
  flight.cut_into_chunks(1u << 20);
  return flight;
}

Completion moved(const Chunk& chunk, std::uint64_t bytes, Status status = {}) {
  return {
      .file_offset = chunk.file_offset, .size = chunk.size, .bytes = bytes, .status = status, .io_mode = chunk.io_mode};
}
Completion moved(const Chunk& chunk) { return moved(chunk, chunk.size); }

TEST(FlightTest, ChunksThatAreNoWholeBlocksGoThroughThePageCache) {
  Flight flight = unaligned_write();
  EXPECT_EQ(flight.plan().middle_io_mode(), IoMode::o_direct);
  flight.request.shape.limits.chunk_max = 1000;
  flight.cut_into_chunks(1u << 20);
  while (flight.has_next()) EXPECT_EQ(flight.next().io_mode, IoMode::buffered);
}

TEST(FlightTest, OneOfNoBytesIsOverAndStaysSo) {
  Flight flight = unaligned_write(1000, 0);
  EXPECT_EQ(flight.state(), State::over);
  flight.end_middle(flight.progress());
  EXPECT_EQ(flight.state(), State::over);
  EXPECT_EQ(flight.outcome().report.bytes, 0u);
}

TEST(FlightTest, HeadAndTailBeginWhenAllOfTheMiddleIsOver) {
  Flight flight = unaligned_write();
  const Chunk first = flight.next(), second = flight.next();
  EXPECT_EQ(first.file_offset, 4096u);
  EXPECT_EQ(second.file_offset, 8192u);
  EXPECT_FALSE(flight.has_next()) << "the middle is under way";
  flight.on_completion(moved(second));
  EXPECT_FALSE(flight.has_next()) << "half of it still is";
  EXPECT_EQ(flight.state(), State::middle);

  flight.on_completion(moved(first));

  EXPECT_EQ(flight.state(), State::ends);
  const Chunk head = flight.next(), tail = flight.next();
  EXPECT_EQ(head.file_offset, 1000u);
  EXPECT_EQ(tail.file_offset, 12288u);
  flight.on_completion(moved(head));
  EXPECT_TRUE(flight.is_under_way());
  flight.on_completion(moved(tail));
  EXPECT_EQ(flight.state(), State::over);
  EXPECT_TRUE(flight.outcome().status.ok());
  EXPECT_EQ(flight.outcome().report.bytes, 13000u);
  EXPECT_EQ(flight.outcome().report.direct_bytes, 8192u);
}

TEST(FlightTest, AMiddleThatComesOutShortIsFollowedByItsHeadButNotByItsTail) {
  Flight flight = unaligned_write();
  const Chunk first = flight.next(), second = flight.next();
  flight.on_completion(moved(second));

  flight.on_completion(moved(first, 100, failure(Code::no_progress, "move")));

  ASSERT_TRUE(flight.has_next()) << "the report will count the head's bytes";
  const Chunk head = flight.next();
  EXPECT_EQ(head.file_offset, 1000u);
  EXPECT_FALSE(flight.has_next());
  flight.on_completion(moved(head));
  EXPECT_EQ(flight.state(), State::over);
  EXPECT_TRUE(flight.outcome().status.is(Code::no_progress));
  EXPECT_EQ(flight.outcome().report.bytes, 3196u) << "as far as the failure";
}

TEST(FlightTest, AHeadThatComesOutShortIsWhereTheRequestEnds) {
  Flight flight = unaligned_write();
  Progress middle = flight.progress();
  middle.add(moved(flight.in_turn(0), 0));  // The file was cut.
  flight.end_middle(middle);
  ASSERT_TRUE(flight.has_next());

  flight.on_completion(moved(flight.next(), 0));

  EXPECT_EQ(flight.state(), State::over);
  EXPECT_TRUE(flight.outcome().status.ok());
  EXPECT_EQ(flight.outcome().report.bytes, 0u);
}

TEST(FlightTest, WithoutAMiddleItsEndsAreNextAtOnce) {
  Flight flight = unaligned_write(512, 1024);  // Within a page.
  ASSERT_EQ(flight.plan().middle_count(), 0u);
  EXPECT_EQ(flight.state(), State::ends);

  flight.end_middle(flight.progress());

  ASSERT_TRUE(flight.has_next());
  flight.on_completion(moved(flight.next()));
  EXPECT_EQ(flight.outcome().report.bytes, 1024u);
}

TEST(FlightTest, ARequestForNothingIsOverWhenItIsCut) {
  const Flight flight = unaligned_write(1000, 0);

  EXPECT_EQ(flight.state(), State::over);
  EXPECT_FALSE(flight.has_next());
  EXPECT_TRUE(flight.outcome().status.ok());
}

TEST(FlightTest, WhatFailsBeforeItIsCutHasMovedNothing) {
  Flight flight;

  flight.fail(failure(Code::limit, "take a channel"));

  EXPECT_EQ(flight.state(), State::over);
  EXPECT_TRUE(flight.outcome().status.is(Code::limit));
  EXPECT_EQ(flight.outcome().report.bytes, 0u);
}

TEST(FlightTest, AMiddleThatOthersMovedIsFollowedByItsEnds) {
  Flight flight = unaligned_write();
  Progress others = flight.progress();
  for (std::uint64_t turn = 0; turn < flight.plan().middle_count(); ++turn) {
    others.add(moved(flight.in_turn(turn)));
  }

  flight.end_middle(others);

  EXPECT_EQ(flight.state(), State::ends);
  std::vector<std::uint64_t> offsets;
  while (flight.has_next()) {
    const Chunk chunk = flight.next();
    offsets.push_back(chunk.file_offset);
    flight.on_completion(moved(chunk));
  }
  EXPECT_EQ(offsets, (std::vector<std::uint64_t>{1000, 12288}));
  EXPECT_EQ(flight.outcome().report.bytes, 13000u);
}

}  // namespace
}  // namespace penstock::core
