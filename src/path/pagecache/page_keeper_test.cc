// SPDX-License-Identifier: Apache-2.0

// When the keeper finds that a piece of a file is worth registering, by costs that it is told.
#include "path/pagecache/page_keeper.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <set>

#include "device/host/host_device.h"
#include "fakes/fake_storage.h"

namespace penstock::core {
namespace {

using Wanted = PageKeeper::Wanted;

constexpr std::uint64_t kPiece = KeptPiece::kBytes;
constexpr std::uint64_t kMebibyte = 1u << 20;
constexpr std::uint64_t kLarge = 4 * kPiece;

// What this process has from malloc.
std::size_t heap_bytes() {
  const struct mallinfo2 all = ::mallinfo2();
  return all.uordblks + all.hblkhd;
}

class PageKeeperTest : public testing::Test {
 protected:
  void SetUp() override {
    storage_.content.resize(2 * kPiece);
    storage_.resident = true;
    file_ = std::move(File::open(storage_, FakeStorage::kUserFd).value());
  }
  KeptFile& open(double cpu_weight, const KeptFile::Terms& terms = {}) {
    keeper_.emplace(storage_, KeepRules{.bytes_max = 1u << 30, .cpu_weight = cpu_weight});
    return *keeper_->find_or_make(*file_, *devices_.device(0).value(), terms);
  }
  // So often that the first guess is forgotten.
  void teach(bool bounced, std::uint64_t request, std::uint64_t ns_per_mebibyte) {
    for (int i = 0; i < 40; ++i) {
      keeper_->learn({request, request, request / kMebibyte * ns_per_mebibyte, bounced});
    }
  }
  // Of large reads of the first piece, the one from which on it is worth it.
  int reads_until_worth(KeptFile& kept, std::uint64_t size = kPiece) {
    for (int i = 1; i <= 100; ++i) {
      if (keeper_->want(kept, {Op::read, 0, size}, false) != Wanted::no) return i;
    }
    return 101;
  }

  FakeStorage storage_;
  HostDeviceSet devices_;
  std::unique_ptr<File> file_;
  std::optional<PageKeeper> keeper_;
};

TEST_F(PageKeeperTest, WhereCpuCountsTheFirstReadIsWorthIt) {
  KeptFile& kept = open(4);
  EXPECT_EQ(reads_until_worth(kept), 1);
}

TEST_F(PageKeeperTest, InBalanceToo) {
  KeptFile& kept = open(0.1);
  EXPECT_EQ(reads_until_worth(kept), 1);
}

TEST_F(PageKeeperTest, WhereTimeAloneCountsAPieceIsBouncedUntilThatHasCostWhatBringingItDoes) {
  KeptFile& kept = open(0);
  teach(true, kPiece, 21'000);  // Two more than the DMA; registering by itself is thirteen more.
  EXPECT_EQ(reads_until_worth(kept), 7);
}

TEST_F(PageKeeperTest, WhereBouncingIsDearTheFirstReadIsWorthItAlsoWhereTimeAloneCounts) {
  KeptFile& kept = open(0);
  teach(true, kPiece, 70'000);
  EXPECT_EQ(reads_until_worth(kept), 1);
}

TEST_F(PageKeeperTest, BringingThatTurnsOutDearIsPutOff) {
  KeptFile& kept = open(0);
  teach(true, kPiece, 29'000);   // Ten more than the DMA,
  teach(false, kLarge, 59'000);  // and forty.
  EXPECT_EQ(reads_until_worth(kept), 4);
}

TEST_F(PageKeeperTest, PartsOfPiecesDoNotTellWhatBringingCosts) {
  KeptFile& kept = open(0);
  teach(true, kPiece, 29'000);
  teach(false, kPiece, 59'000);
  EXPECT_EQ(reads_until_worth(kept), 2);
}

TEST_F(PageKeeperTest, WhatIsNotInThePageCacheIsNotWorthIt) {
  KeptFile& kept = open(4);
  storage_.resident = false;
  EXPECT_EQ(reads_until_worth(kept), 101);
}

TEST_F(PageKeeperTest, WhereNothingElseCanWriteAnyWriteIsWorthItAtOnce) {
  KeptFile& kept = open(0, {.writable = true, .only_by_pages = true});
  EXPECT_NE(keeper_->want(kept, {Op::write, 100, 8}, true), Wanted::no);
  EXPECT_EQ(keeper_->want(kept, {Op::read, 100, 8}, true), Wanted::no);
}

TEST_F(PageKeeperTest, ASmallRequestFarBehindTheEndTakesNoMemory) {
  KeptFile& kept = open(4);
  constexpr std::uint64_t kFar = std::uint64_t{200} << 40;
  EXPECT_EQ(keeper_->want(kept, {Op::read, kFar, 4096}, true), Wanted::no);
  EXPECT_EQ(kept.find(kFar / kPiece), nullptr);
  EXPECT_EQ(keeper_->want(kept, {Op::read, 0, 4096}, true), Wanted::no);
  EXPECT_NE(kept.find(0), nullptr);
}

TEST_F(PageKeeperTest, APieceFarOutTakesNoMoreMemoryThanItsNeighbours) {
  KeptFile& kept = open(4);
  const std::size_t before = heap_bytes();

  ASSERT_NE(kept.piece((std::uint64_t{128} << 40) / kPiece), nullptr);

  EXPECT_LT(heap_bytes() - before, 256u << 10);
}

TEST_F(PageKeeperTest, AFileThatIsAskedForAllOverTakesBoundedMemory) {
  KeptFile& kept = open(4);
  const std::size_t before = heap_bytes();

  std::uint64_t index = 0;
  while (kept.piece(index) != nullptr) index += 256;

  EXPECT_LT(index * kPiece, std::uint64_t{20} << 40);
  EXPECT_LT(heap_bytes() - before, std::size_t{32} << 20);
  EXPECT_NE(kept.piece(index - 256), nullptr);
}

TEST_F(PageKeeperTest, EveryPieceHasAPlaceOfItsOwn) {
  KeptFile& kept = open(4);
  std::set<const KeptPiece*> seen;

  for (std::uint64_t index = 0; index < 5000; ++index) {
    const KeptPiece* const piece = kept.piece(index);
    EXPECT_TRUE(seen.insert(piece).second) << index;
    EXPECT_EQ(kept.find(index), piece) << index;
  }
  for (std::uint64_t index = 0; index < 5000; ++index) EXPECT_EQ(seen.count(kept.piece(index)), 1u) << index;
}

TEST_F(PageKeeperTest, AWriteBehindTheEndIsNot) {
  KeptFile& kept = open(4);
  EXPECT_EQ(keeper_->want(kept, {Op::write, kPiece, kPiece + 1}, false), Wanted::no);
  EXPECT_NE(keeper_->want(kept, {Op::write, kPiece, kPiece}, false), Wanted::no);
}

}  // namespace
}  // namespace penstock::core
