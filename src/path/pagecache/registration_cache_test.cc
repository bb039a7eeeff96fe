// SPDX-License-Identifier: Apache-2.0

// When the cache decides to register an extent, with given costs.
#include "path/pagecache/registration_cache.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>

#include <set>

#include "device/host/host_device.h"
#include "fakes/fake_storage.h"
#include "fakes/manual_clock.h"
#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

using Wanted = RegistrationCache::Wanted;

constexpr std::uint64_t kExtent = Extent::kBytes;
constexpr std::uint64_t kMebibyte = 1u << 20;
constexpr std::uint64_t kLarge = 4 * kExtent;

// The bytes that this process has from malloc.
std::size_t heap_bytes() {
  const struct mallinfo2 all = ::mallinfo2();
  return all.uordblks + all.hblkhd;
}

class RegistrationCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    storage_.content.resize(2 * kExtent);
    storage_.resident = true;
    file_ = std::move(File::open(storage_, FakeStorage::kUserFd).value());
  }
  CachedFile& open(double cpu_weight, const CachedFile::Terms& terms = {}) {
    cache_.emplace(RegistrationRules{.bytes_max = 1u << 30, .cpu_weight = cpu_weight});
    return *cache_->find_or_make(*file_, *devices_.device(0).value(), terms);
  }
  // Often enough to outweigh the first guess.
  void teach(bool bounced, std::uint64_t request, std::uint64_t ns_per_mebibyte) {
    for (int i = 0; i < 40; ++i) {
      const std::uint64_t wall_ns = request / kMebibyte * ns_per_mebibyte;
      if (bounced) cache_->costs().learn_bounce(request, request, wall_ns, 8 * wall_ns);
      else cache_->costs().learn_first_fetch(request, request, wall_ns);
    }
  }
  // Returns after how many large reads of the first extent its registration is worth it.
  int reads_until_worth(CachedFile& cached, std::uint64_t size = kExtent) {
    for (int i = 1; i <= 100; ++i) {
      if (cache_->want(cached, {Op::read, 0, size}, SubmitMode::many) != Wanted::no) return i;
    }
    return 101;
  }

  FakeStorage storage_;
  HostDeviceSet devices_;
  std::unique_ptr<File> file_;
  std::optional<RegistrationCache> cache_;
};

TEST_F(RegistrationCacheTest, WhereCpuCountsTheFirstReadIsWorthIt) {
  CachedFile& cached = open(4);
  EXPECT_EQ(reads_until_worth(cached), 1);
}

TEST_F(RegistrationCacheTest, InBalanceToo) {
  CachedFile& cached = open(0.1);
  EXPECT_EQ(reads_until_worth(cached), 1);
}

TEST_F(RegistrationCacheTest, WhereTimeAloneCountsAnExtentIsBouncedUntilThatHasCostWhatRegisteringItDoes) {
  CachedFile& cached = open(0);
  teach(true, kExtent, 21'000);  // Two more than the DMA; registering by itself is thirteen more.
  EXPECT_EQ(reads_until_worth(cached), 7);
}

TEST_F(RegistrationCacheTest, WhereBouncingIsDearTheFirstReadIsWorthItAlsoWhereTimeAloneCounts) {
  CachedFile& cached = open(0);
  teach(true, kExtent, 70'000);
  EXPECT_EQ(reads_until_worth(cached), 1);
}

TEST_F(RegistrationCacheTest, RegisteringThatTurnsOutDearIsPutOff) {
  CachedFile& cached = open(0);
  teach(true, kExtent, 29'000);  // Ten more than the DMA,
  teach(false, kLarge, 59'000);  // and forty.
  EXPECT_EQ(reads_until_worth(cached), 4);
}

TEST_F(RegistrationCacheTest, PartsOfExtentsDoNotTellWhatRegisteringCosts) {
  CachedFile& cached = open(0);
  teach(true, kExtent, 29'000);
  teach(false, kExtent, 59'000);
  EXPECT_EQ(reads_until_worth(cached), 2);
}

TEST_F(RegistrationCacheTest, WhatIsNotInThePageCacheIsNotWorthIt) {
  CachedFile& cached = open(4);
  storage_.resident = false;
  EXPECT_EQ(reads_until_worth(cached), 101);
}

TEST_F(RegistrationCacheTest, WhereNothingElseCanWriteAnyWriteIsWorthItAtOnce) {
  CachedFile& cached = open(0, {.writable = true, .only_by_pages = true});
  EXPECT_NE(cache_->want(cached, {Op::write, 100, 8}, SubmitMode::alone), Wanted::no);
  EXPECT_EQ(cache_->want(cached, {Op::read, 100, 8}, SubmitMode::alone), Wanted::no);
}

TEST_F(RegistrationCacheTest, ASmallRequestFarBehindTheEndTakesNoMemory) {
  CachedFile& cached = open(4);
  constexpr std::uint64_t kFar = std::uint64_t{200} << 40;
  EXPECT_EQ(cache_->want(cached, {Op::read, kFar, 4096}, SubmitMode::alone), Wanted::no);
  EXPECT_EQ(cached.find(kFar / kExtent), nullptr);
  EXPECT_EQ(cache_->want(cached, {Op::read, 0, 4096}, SubmitMode::alone), Wanted::no);
  EXPECT_NE(cached.find(0), nullptr);
}

TEST_F(RegistrationCacheTest, AnExtentFarOutTakesNoMoreMemoryThanItsNeighbours) {
  CachedFile& cached = open(4);
  const std::size_t before = heap_bytes();

  ASSERT_NE(cached.extent((std::uint64_t{128} << 40) / kExtent), nullptr);

  EXPECT_LT(heap_bytes() - before, 256u << 10);
}

TEST_F(RegistrationCacheTest, AFileThatIsAskedForAllOverTakesBoundedMemory) {
  CachedFile& cached = open(4);
  const std::size_t before = heap_bytes();

  std::uint64_t index = 0;
  while (cached.extent(index) != nullptr) index += 256;

  EXPECT_LT(index * kExtent, std::uint64_t{20} << 40);
  EXPECT_LT(heap_bytes() - before, std::size_t{32} << 20);
  EXPECT_NE(cached.extent(index - 256), nullptr);
}

TEST_F(RegistrationCacheTest, EveryExtentHasAPlaceOfItsOwn) {
  CachedFile& cached = open(4);
  std::set<const Extent*> seen;

  for (std::uint64_t index = 0; index < 5000; ++index) {
    const Extent* const extent = cached.extent(index);
    EXPECT_TRUE(seen.insert(extent).second) << index;
    EXPECT_EQ(cached.find(index), extent) << index;
  }
  for (std::uint64_t index = 0; index < 5000; ++index) EXPECT_EQ(seen.count(cached.extent(index)), 1u) << index;
}

TEST_F(RegistrationCacheTest, AWriteBehindTheEndIsNot) {
  CachedFile& cached = open(4);
  EXPECT_EQ(cache_->want(cached, {Op::write, kExtent, kExtent + 1}, SubmitMode::many), Wanted::no);
  EXPECT_NE(cache_->want(cached, {Op::write, kExtent, kExtent}, SubmitMode::many), Wanted::no);
}

// ---- When it is a small request's turn -----------------------------------------------------------------------------

// A real file of two extents, all in the page cache, since its pages are registered.
class SmallOrdersTest : public testing::Test {
 protected:
  static constexpr int kWellWorthIt = 400;  // After so many requests any extent is worth registering.

  SmallOrdersTest() {
    const std::string content(2 * kExtent, 'c');
    EXPECT_EQ(storage_.write(fd_.get(), content.data(), content.size(), 0).value(), content.size());
  }
  // Makes many small reads of the extent; returns whether that registered it.
  bool is_registered_by_small_reads(std::uint64_t index, std::uint64_t size = 4096) {
    for (int i = 0; i < kWellWorthIt; ++i) {
      (void)cache_.want(cached_, {Op::read, index * kExtent, size}, SubmitMode::alone);
    }
    const Extent& extent = *cached_.extent(index);
    extent.wait_while_wanted();
    return extent.state() == Extent::State::registered;
  }

  ManualClock clock_;
  PosixStorage storage_{false};
  HostDeviceSet devices_;
  UniqueFd fd_{::memfd_create("registration_cache_test", MFD_CLOEXEC)};
  std::unique_ptr<File> file_ = std::move(File::open(storage_, fd_.get()).value());
  RegistrationCache cache_{{.bytes_max = 1u << 30, .cpu_weight = 0}, clock_};
  CachedFile& cached_ = *cache_.find_or_make(*file_, *devices_.device(0).value(), {});
};

TEST_F(SmallOrdersTest, OneExtentIsRegisteredForThem) { EXPECT_TRUE(is_registered_by_small_reads(0)); }

TEST_F(SmallOrdersTest, TheNextIsNotBeforeThePauseIsOver) {
  ASSERT_TRUE(is_registered_by_small_reads(0));

  clock_.advance(RegistrationCache::kSmallOrdersApart - std::chrono::nanoseconds(1));

  EXPECT_FALSE(is_registered_by_small_reads(1));
}

TEST_F(SmallOrdersTest, ForAMebibyteThePauseIsASixteenth) {
  ASSERT_TRUE(is_registered_by_small_reads(0, kMebibyte));
  clock_.advance(RegistrationCache::kSmallOrdersApart / 16 - std::chrono::nanoseconds(1));
  EXPECT_FALSE(is_registered_by_small_reads(1, kMebibyte));

  clock_.advance(std::chrono::nanoseconds(1));

  EXPECT_FALSE(is_registered_by_small_reads(1, 256u << 10)) << "as long as for 4 KiB";
  EXPECT_TRUE(is_registered_by_small_reads(1, kMebibyte));
}

TEST_F(SmallOrdersTest, TheNextIsRegisteredOnceThePauseIsOver) {
  ASSERT_TRUE(is_registered_by_small_reads(0));

  clock_.advance(RegistrationCache::kSmallOrdersApart);

  EXPECT_TRUE(is_registered_by_small_reads(1));
}

TEST_F(SmallOrdersTest, LargerOnesInQueuesWaitNoLongerThanSmallerOnes) {
  const auto is_registered = [this](std::uint64_t index, std::uint64_t size) {
    for (int i = 0; i < kWellWorthIt; ++i) {
      (void)cache_.want(cached_, {Op::read, index * kExtent, size}, SubmitMode::queued);
    }
    cached_.extent(index)->wait_while_wanted();
    return cached_.extent(index)->state() == Extent::State::registered;
  };
  ASSERT_TRUE(is_registered(0, 4096));
  clock_.advance(std::chrono::nanoseconds(RegistrationCache::kSmallOrdersApart) / 32 - std::chrono::nanoseconds(1));
  EXPECT_FALSE(is_registered(1, kMebibyte));

  clock_.advance(std::chrono::nanoseconds(1));

  EXPECT_TRUE(is_registered(1, kMebibyte));
}

// ---- Extents ahead of large reads ----------------------------------------------------------------------------------

// Two extents of a real file, as above.
class ReadAheadTest : public testing::TestWithParam<double> {
 protected:
  static constexpr std::uint64_t kRead = 2 * kMebibyte;

  ReadAheadTest() {
    const std::string content(2 * kExtent, 'c');
    EXPECT_EQ(storage_.write(fd_.get(), content.data(), content.size(), 0).value(), content.size());
  }
  // Reads as a request does, which registers the extents that the cache calls worth it.
  void read(std::uint64_t offset, std::uint64_t size = kRead) {
    if (cache_.want(cached_, {Op::read, offset, size}, SubmitMode::many) != Wanted::no) {
      cache_.register_now(cached_, offset / kExtent);
    }
  }
  bool is_registered(std::uint64_t index) {
    const Extent& extent = *cached_.extent(index);
    extent.wait_while_wanted();
    return extent.state() == Extent::State::registered;
  }

  PosixStorage storage_{false};
  HostDeviceSet devices_;
  UniqueFd fd_{::memfd_create("registration_cache_test", MFD_CLOEXEC)};
  std::unique_ptr<File> file_ = std::move(File::open(storage_, fd_.get()).value());
  RegistrationCache cache_{{.bytes_max = 1u << 30, .cpu_weight = GetParam()}};
  CachedFile& cached_ = *cache_.find_or_make(*file_, *devices_.device(0).value(), {});
};
using ReadAheadWhereCpuCounts = ReadAheadTest;
using ReadAheadWhereTimeAloneCounts = ReadAheadTest;

TEST_P(ReadAheadWhereCpuCounts, ReadsThatGoOnHaveTheirExtentAndTheNextRegistered) {
  read(0);
  read(kRead);

  EXPECT_TRUE(is_registered(0));
  EXPECT_TRUE(is_registered(1));
}

TEST_P(ReadAheadWhereCpuCounts, ThoseThatComeToAnotherExtentHaveItRegistered) {
  read(kExtent - 2 * kRead);
  read(kExtent - kRead);
  EXPECT_FALSE(is_registered(0));
  EXPECT_FALSE(is_registered(1));

  read(kExtent);

  EXPECT_TRUE(is_registered(1));
}

TEST_P(ReadAheadWhereCpuCounts, ReadsOfHalfAnExtentHaveNothingRegisteredBeforeThem) {
  read(0, kExtent / 2);
  read(kExtent / 2, kExtent / 2);

  EXPECT_FALSE(is_registered(1));
}

TEST_P(ReadAheadWhereCpuCounts, WhereOthersWouldHaveToGiveWayTheNextIsNot) {
  RegistrationCache little({.bytes_max = 2 * kExtent, .cpu_weight = GetParam()});
  const std::unique_ptr<File> file = std::move(File::open(storage_, fd_.get()).value());
  CachedFile& cached = *little.find_or_make(*file, *devices_.device(0).value(), {});

  (void)little.want(cached, {Op::read, 0, kRead}, SubmitMode::many);

  EXPECT_EQ(little.want(cached, {Op::read, kRead, kRead}, SubmitMode::many), Wanted::all_anew);
  EXPECT_EQ(cached.extent(1)->state(), Extent::State::none);
}

TEST_P(ReadAheadWhereCpuCounts, AnExtentThatIsThereAlreadyIsNotOrderedAgain) {
  cache_.register_now(cached_, 1);
  const std::byte* const pages = cached_.extent(1)->at(kExtent);

  read(0);
  read(kRead);

  EXPECT_TRUE(is_registered(1));
  EXPECT_EQ(cached_.extent(1)->at(kExtent), pages);
}

TEST_P(ReadAheadWhereCpuCounts, ReadsThatJumpHaveNothing) {
  for (const std::uint64_t offset : {8, 4, 16}) read(offset * kMebibyte);

  EXPECT_FALSE(is_registered(0));
  EXPECT_FALSE(is_registered(1));
}

TEST_P(ReadAheadWhereCpuCounts, AnExtentThatTheFileHasNotAllOfWaitsForItsReads) {
  ASSERT_EQ(::ftruncate(fd_.get(), 2 * kExtent - 4096), 0);

  read(0);
  read(kRead);

  EXPECT_TRUE(is_registered(0));
  EXPECT_FALSE(is_registered(1));
}

TEST_P(ReadAheadWhereCpuCounts, WhereRegisteringTurnsOutDearNothingIs) {
  for (int i = 0; i < 40; ++i) cache_.costs().learn_registering(kExtent / kMebibyte * 10'000'000);

  read(0);
  read(kRead);

  EXPECT_FALSE(is_registered(0));
  EXPECT_FALSE(is_registered(1));
}

TEST_P(ReadAheadWhereTimeAloneCounts, BouncingIsQuickerThanRegisteringWhatIsReadOnce) {
  read(0);
  read(kRead);

  EXPECT_FALSE(is_registered(0));
  EXPECT_FALSE(is_registered(1));
}

INSTANTIATE_TEST_SUITE_P(Policy, ReadAheadWhereCpuCounts, testing::Values(0.1, 4.0),
                         [](const auto& test) { return test.param > 1 ? "cpu" : "balanced"; });
INSTANTIATE_TEST_SUITE_P(Policy, ReadAheadWhereTimeAloneCounts, testing::Values(0.0),
                         [](const auto&) { return "throughput"; });

TEST_F(RegistrationCacheTest, WhatIsNotInThePageCacheIsNotRegisteredAheadOfAnybody) {
  CachedFile& cached = open(0.1);
  storage_.resident = false;

  for (std::uint64_t offset = 0; offset < 8; offset += 2) {
    const FileRange range{Op::read, offset * kMebibyte, 2 * kMebibyte};
    EXPECT_EQ(cache_->want(cached, range, SubmitMode::many), Wanted::no);
  }

  EXPECT_EQ(cached.find(0)->state(), Extent::State::none);
  EXPECT_EQ(cached.find(1)->state(), Extent::State::none);
}

}  // namespace
}  // namespace penstock::core
