// SPDX-License-Identifier: Apache-2.0

#include "core/memory.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace penstock::core {
namespace {

using Places = std::vector<std::pair<std::ptrdiff_t, std::uint64_t>>;

class RequestMemoryTest : public testing::Test {
 protected:
  MemoryPiece piece(std::size_t offset, std::size_t size) { return {bytes_ + offset, size}; }
  Places places(const RequestMemory& memory, std::uint64_t size) const {
    Places found;
    memory.each_place(
        size, [&](const std::byte* address, std::uint64_t here) { found.emplace_back(address - bytes_, here); });
    return found;
  }
  std::byte bytes_[1000] = {};
};

TEST_F(RequestMemoryTest, InOnePlaceThereIsOne) {
  const RequestMemory memory(bytes_ + 10);
  EXPECT_FALSE(memory.is_in_pieces());
  EXPECT_EQ(places(memory.after(5), 100), (Places{{15, 100}}));
  EXPECT_EQ(places(memory, 0), Places{});
}

TEST_F(RequestMemoryTest, PiecesFollowEachOtherWhereverTheyLie) {
  const MemoryPiece pieces[] = {piece(500, 100), piece(0, 50), piece(300, 200)};
  const RequestMemory memory(pieces);
  EXPECT_TRUE(memory.is_in_pieces());
  EXPECT_EQ(memory.address(), bytes_ + 500);
  EXPECT_EQ(places(memory, 350), (Places{{500, 100}, {0, 50}, {300, 200}}));
  EXPECT_EQ(places(memory, 120), (Places{{500, 100}, {0, 20}}));
}

TEST_F(RequestMemoryTest, FromTheMiddleOfAPieceTheRestOfItComesFirst) {
  const MemoryPiece pieces[] = {piece(500, 100), piece(0, 50), piece(300, 200)};
  const RequestMemory memory(pieces);
  EXPECT_EQ(places(memory.after(40), 70), (Places{{540, 60}, {0, 10}}));
  EXPECT_EQ(places(memory.after(100), 60), (Places{{0, 50}, {300, 10}}));
  EXPECT_EQ(places(memory.after(120).after(40), 100), (Places{{310, 100}}));
  EXPECT_EQ(places(memory.after(350), 0), Places{});
}

TEST_F(RequestMemoryTest, EmptyPiecesAreNoPlaces) {
  const MemoryPiece pieces[] = {{nullptr, 0}, piece(10, 5), {nullptr, 0}, {nullptr, 0}, piece(20, 5), {nullptr, 0}};
  const RequestMemory memory(pieces);
  EXPECT_EQ(memory.address(), bytes_ + 10);
  EXPECT_EQ(places(memory, 10), (Places{{10, 5}, {20, 5}}));
  EXPECT_EQ(places(memory.after(5), 5), (Places{{20, 5}}));
}

TEST_F(RequestMemoryTest, PlacesEndWithTheLastPieceWhereMoreBytesAreAsked) {
  const MemoryPiece pieces[] = {piece(10, 5), {nullptr, 0}};
  EXPECT_EQ(places(RequestMemory(pieces), 100), (Places{{10, 5}}));
}

TEST_F(RequestMemoryTest, OfNoPiecesThereIsNothing) {
  const RequestMemory memory{std::span<const MemoryPiece>()};
  EXPECT_FALSE(memory.is_in_pieces());
  EXPECT_EQ(memory.address(), nullptr);
}

TEST(MemoryPieceTest, PiecesHaveBytesInCommonWhereOneBeginsWithinTheOther) {
  char bytes[100];
  const MemoryPiece middle{bytes + 40, 20};
  EXPECT_TRUE(have_common_bytes(middle, {bytes + 59, 1}));
  EXPECT_TRUE(have_common_bytes(middle, {bytes, 41}));
  EXPECT_TRUE(have_common_bytes(middle, {bytes, 100}));
  EXPECT_TRUE(have_common_bytes(middle, {bytes + 45, 2}));
  EXPECT_FALSE(have_common_bytes(middle, {bytes + 60, 40}));
  EXPECT_FALSE(have_common_bytes(middle, {bytes, 40}));
  EXPECT_FALSE(have_common_bytes(middle, {bytes + 45, 0}));
  EXPECT_FALSE(have_common_bytes({bytes + 45, 0}, middle));
}

}  // namespace
}  // namespace penstock::core
