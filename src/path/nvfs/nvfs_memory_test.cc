// SPDX-License-Identifier: Apache-2.0

#include "path/nvfs/nvfs_memory.h"

#include <optional>
#include <thread>
#include <vector>

#include "fakes/fake_gpu.h"
#include "fakes/nvfs_fixture.h"
#include "fakes/waiting.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kPage = nvfs::kGpuPage;

TEST(GpuRangeTest, IsOfWholePagesWhoseRestBelongsToNobodyElse) {
  struct Case {
    std::uint64_t base, size;
    bool is_nvidia;
    std::optional<std::pair<std::uint64_t, std::uint64_t>> range;  // Address and bytes.
  };
  const Case cases[] = {{8 * kPage, 2 * kPage, false, {{8 * kPage, 2 * kPage}}},
                        {8 * kPage + 1, kPage, false, {}},
                        {8 * kPage, kPage + 1, false, {}},
                        {8 * kPage + 1, kPage, true, {{8 * kPage, 2 * kPage}}},
                        {8 * kPage, 1, true, {{8 * kPage, kPage}}},
                        {0, kPage, true, {}},
                        {8 * kPage, 0, true, {}},
                        {8 * kPage, UINT64_MAX - 8 * kPage, true, {}}};
  for (const Case& one : cases) {
    const DeviceFacts facts{.pci_address = "0001:17:02.3", .is_nvidia = one.is_nvidia};
    const auto range = gpu_range_of(facts, one.base, one.size);
    ASSERT_EQ(range.has_value(), one.range.has_value()) << one.base << ' ' << one.size;
    if (!range) continue;
    EXPECT_EQ(range->address, one.range->first);
    EXPECT_EQ(range->bytes, one.range->second);
    EXPECT_EQ(range->pci, 1ull << 32 | 0x17 << 8 | 2 << 3 | 3);
  }
  EXPECT_EQ(gpu_range_of({.pci_address = "none"}, kPage, kPage)->pci, 0u) << "unknown";
}

class NvfsBuffersTest : public OpenedNvfsTest {
 protected:
  void TearDown() override {
    buffers_.reset();
    OpenedNvfsTest::TearDown();
  }
  std::uint64_t page(unsigned number) const { return reinterpret_cast<std::uintptr_t>(memory_) + number * kPage; }
  void add(unsigned first, unsigned count = 1) { buffers_->add(*device_, page(first), count * kPage); }
  NvfsBuffers::Loan borrow(std::uint64_t address, std::uint64_t size = nvfs::kBlock) {
    return buffers_->borrow(opened_, *device_, address, size);
  }
  // So many at once.
  std::vector<NvfsBuffers::Loan> borrow_all(std::uint64_t address) {
    std::vector<NvfsBuffers::Loan> loans;
    while (NvfsBuffers::Loan loan = borrow(address)) loans.push_back(std::move(loan));
    return loans;
  }

  std::optional<NvfsBuffers> buffers_{std::in_place};
};

TEST_F(NvfsBuffersTest, LendOnlyWhatLiesWhollyInOneOfThisDevice) {
  FakeGpu other;
  add(2, 2);
  EXPECT_FALSE(borrow(page(2) - nvfs::kBlock, nvfs::kBlock)) << "before it";
  EXPECT_FALSE(borrow(page(4))) << "behind it";
  EXPECT_FALSE(borrow(page(3), 2 * kPage)) << "larger than its rest";
  EXPECT_FALSE(buffers_->borrow(opened_, other, page(2), nvfs::kBlock)) << "of another device";
  EXPECT_EQ(module_->maps_made, 0u);
  const NvfsBuffers::Loan loan = borrow(page(3), kPage);
  ASSERT_TRUE(loan);
  EXPECT_EQ(loan.offset_of(page(3)), kPage);
  EXPECT_EQ(loan.group().range().bytes, 2 * kPage);
}

TEST_F(NvfsBuffersTest, MemoryWhosePagesOthersMayHaveIsNotTaken) {
  buffers_->add(*device_, page(2) + 512, kPage);
  EXPECT_FALSE(borrow(page(2) + 512));
}

TEST_F(NvfsBuffersTest, AreLentToSoManyAtOnceAndMappedNoOftener) {
  add(0);
  std::vector<NvfsBuffers::Loan> loans = borrow_all(page(0));
  EXPECT_EQ(loans.size(), NvfsBuffers::kGroupsPerBuffer);
  loans.pop_back();
  EXPECT_TRUE(borrow(page(0)));
  EXPECT_EQ(module_->maps_made, NvfsBuffers::kGroupsPerBuffer);
}

TEST_F(NvfsBuffersTest, TakeNoMoreUnswappableMemoryThanTheirLimit) {
  constexpr unsigned kMappings = NvfsBuffers::kShadowBytesMax / NvfsBuffers::kShadowBytes;
  for (unsigned i = 0; i <= kMappings / NvfsBuffers::kGroupsPerBuffer; ++i) add(0);
  std::vector<NvfsBuffers::Loan> loans = borrow_all(page(0));
  EXPECT_EQ(loans.size(), kMappings);
  EXPECT_EQ(module_->shadow_bytes, NvfsBuffers::kShadowBytesMax);
  loans.pop_back();
  EXPECT_TRUE(borrow(page(0))) << "one that is mapped already";
}

TEST_F(NvfsBuffersTest, BeyondTheMostOneIsServedOnceAnotherHasGone) {
  for (unsigned i = 0; i < NvfsBuffers::kBuffersMax; ++i) add(0);
  add(1);
  EXPECT_FALSE(borrow(page(1)));
  buffers_->remove(page(0));
  add(1);
  EXPECT_TRUE(borrow(page(1)));
}

TEST_F(NvfsBuffersTest, AMapThatFailedIsTriedAgainOnlyForAnotherBuffer) {
  add(0);
  const NvfsBuffers::Loan first = borrow(page(0));
  module_->map_error = ENOMEM;
  EXPECT_FALSE(borrow(page(0)));
  EXPECT_FALSE(borrow(page(0)));
  EXPECT_EQ(module_->maps_made, 2u);
  module_->map_error = 0;
  add(1);
  EXPECT_TRUE(borrow(page(1)));
  EXPECT_EQ(module_->shadow_bytes, 2 * NvfsBuffers::kShadowBytes);
}

TEST_F(NvfsBuffersTest, AMappingThatBrokeIsThrownAwayWithItsLoan) {
  add(0);
  module_->faults.push_back({nvfs::kRead, 512});
  {
    const NvfsBuffers::Loan loan = borrow(page(0));
    const NvfsFile file = NvfsFile::of(*file_->descriptor(IoMode::o_direct), file_->facts());
    EXPECT_TRUE(loan.group().run({Op::read, file, 0, 0, nvfs::kBlock}).status.is_errno(EINTR));
  }
  EXPECT_EQ(module_->mappings, 0u);
  EXPECT_TRUE(borrow(page(0)));
  EXPECT_EQ(module_->maps_made, 2u);
}

TEST_F(NvfsBuffersTest, OnlyTheOneThatBeginsThereIsRemoved) {
  add(0);
  add(1);
  buffers_->remove(page(2));
  EXPECT_TRUE(borrow(page(0)));
  buffers_->remove(page(1));
  buffers_->remove(page(1));
  EXPECT_FALSE(borrow(page(1)));
  EXPECT_TRUE(borrow(page(0)));
  EXPECT_EQ(module_->mappings, 1u);
}

TEST_F(NvfsBuffersTest, RemovalWaitsForTheRequestThatHasOne) {
  add(0);
  NvfsBuffers::Loan loan = borrow(page(0));
  std::thread remover([&] { buffers_->remove(page(0)); });
  EXPECT_TRUE(wait_until([&] { return !borrow(page(0)); })) << "nobody else gets it";
  EXPECT_GE(module_->mappings, 1u);
  loan.give_back();
  remover.join();
  EXPECT_EQ(module_->mappings, 0u);
}

TEST_F(NvfsBuffersTest, ARequestThatLastsTooLongUnmapsItsMemoryItself) {
  buffers_.emplace(std::chrono::nanoseconds(0));
  add(0);
  NvfsBuffers::Loan loan = borrow(page(0));
  buffers_->remove(page(0));
  EXPECT_EQ(module_->mappings, 1u);
  add(0);
  EXPECT_TRUE(borrow(page(0))) << "registered anew meanwhile, in another place";
  loan.give_back();
  EXPECT_EQ(module_->mappings, 1u) << "of the second";
}

// ---- A channel's own memory ----------------------------------------------------------------------------------------

TEST_F(NvfsBuffersTest, OwnMemoryIsGivenBackHoweverItsOpeningFails) {
  struct Case {
    std::uint64_t bytes;
    bool is_full;
    int map_error;
    Status status;
  };
  constexpr const char* kStep = "";
  const Case cases[] = {{kPage, true, 0, failure(Code::out_of_memory, kStep)},
                        {0, false, 0, failure(Code::invalid_argument, kStep)},
                        {kPage, false, ENOMEM, os_failure(ENOMEM, kStep)}};
  for (const auto& [bytes, is_full, map_error, status] : cases) {
    FakeGpu gpu;
    gpu.is_full = is_full;
    module_->map_error = map_error;
    const Status seen = OwnMemory::open(opened_, gpu, bytes).status();
    EXPECT_EQ(seen.domain, status.domain);
    EXPECT_EQ(seen.code, status.code);
    EXPECT_EQ(gpu.allocation_count(), 0u);
    EXPECT_EQ(module_->mappings, 0u);
  }
}

}  // namespace
}  // namespace penstock::core
