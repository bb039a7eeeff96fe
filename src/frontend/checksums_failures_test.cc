// SPDX-License-Identifier: Apache-2.0

// Checksums of memory that a device tells in small allocations, on a device that fails, and of memory that is not
// there.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <functional>
#include <random>
#include <vector>

#include "checksum/crc32c.h"
#include "checksum/hash64.h"
#include "fakes/refusing_device.h"
#include "frontend/checksums.h"

namespace penstock::core {
namespace {

constexpr std::size_t kRoom = 3u << 20;
constexpr std::uint64_t kGranule = 64u << 10;

// Tells facts as a test wants them.
class ToldDevices final : public RefusingDevices {
 public:
  using RefusingDevices::RefusingDevices;
  PointerFacts describe(const void* pointer) override {
    PointerFacts facts = RefusingDevices::describe(pointer);
    if (told && facts.device != nullptr) told(facts, reinterpret_cast<std::uintptr_t>(pointer) - facts.base);
    return facts;
  }
  std::function<void(PointerFacts& facts, std::uint64_t offset)> told;
};

// Every granule is an allocation of its own.
void in_granules(PointerFacts& facts, std::uint64_t offset) {
  facts.base += offset / kGranule * kGranule;
  facts.size = std::min(kGranule, facts.size);
}

class ChecksumsFailures : public testing::Test {
 protected:
  ChecksumsFailures() {
    std::mt19937 random(11);
    for (int device = 0; device < 2; ++device) {
      memory_[device] = static_cast<std::byte*>(devices_.device(device).value()->memory().allocate(kRoom).value());
      std::generate_n(memory_[device], kRoom, [&] { return static_cast<std::byte>(random()); });
    }
  }
  ~ChecksumsFailures() override {
    checksums_.reset();
    EXPECT_EQ(refusals_.queues, 0);
    EXPECT_EQ(refusals_.locked, 0);
  }
  // Pieces of one device's memory, of the other's, and again of the first one's.
  std::vector<iovec> pieces_of_both() const {
    return {{memory_[0] + 3, 1'500'000}, {memory_[1], 200'000}, {memory_[0] + 2'000'000, 70'000}};
  }
  static std::vector<std::uint32_t> sums_of(std::span<const iovec> pieces) {
    std::vector<std::uint32_t> sums;
    for (const iovec& piece : pieces) sums.push_back(crc32c({static_cast<std::byte*>(piece.iov_base), piece.iov_len}));
    return sums;
  }
  void expect_right(std::span<const iovec> pieces) {
    std::vector<std::uint32_t> sums(pieces.size(), 7);
    const Status status = checksums_->make(pieces, sums);
    ASSERT_TRUE(status.ok()) << describe(status);
    EXPECT_EQ(sums, sums_of(pieces));
  }
  // Makes them in a stream's order, with hashes.
  Status in_order(std::span<const iovec> pieces) {
    const Result<std::uint64_t> begun = checksums_->begin(pieces, this, true);
    if (!begun.ok()) return begun.status();
    std::vector<std::uint32_t> sums(pieces.size());
    std::vector<std::uint64_t> hashes(pieces.size());
    const Status status = checksums_->end(*begun, sums, hashes);
    if (!status.ok()) return status;
    EXPECT_EQ(sums, sums_of(pieces));
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const std::span bytes(static_cast<const std::byte*>(pieces[i].iov_base), pieces[i].iov_len);
      EXPECT_EQ(hashes[i], fingerprint(bytes).hash64) << i;
    }
    return status;
  }

  Refusals refusals_;
  ToldDevices devices_{refusals_};
  std::unique_ptr<Checksums> checksums_ = std::make_unique<Checksums>(devices_);
  std::byte* memory_[2] = {};
};

TEST_F(ChecksumsFailures, EachCallOfTheDeviceThatIsRefusedFailsThatCallAlone) {
  struct Row {
    const char* name;
    bool makes_checksums, is_managed, in_order;
    int calls;  // At least.
  };
  const Row rows[] = {{"copied, many at once", false, false, false, 10},
                      {"copied, piece by piece", false, true, false, 10},
                      {"made by the device", true, false, false, 6},
                      {"copied, in a stream's order", false, false, true, 10},
                      {"copied piece by piece, in a stream's order", false, true, true, 10},
                      {"made by the device, in a stream's order", true, false, true, 6}};
  for (const Row& row : rows) {
    refusals_.makes_checksums = row.makes_checksums;
    devices_.told = [&](PointerFacts& facts, std::uint64_t) {
      if (row.is_managed) facts.kind = MemoryKind::managed;
    };
    int refused = 0;
    for (unsigned n = 1;; ++n, ++refused) {
      checksums_ = std::make_unique<Checksums>(devices_);
      const std::vector<iovec> pieces = pieces_of_both();
      std::vector<std::uint32_t> sums(pieces.size());
      refusals_.refuse(n);
      const Status status = row.in_order ? in_order(pieces) : checksums_->make(pieces, sums);
      const bool was_refused = refusals_.was_refused();
      refusals_.refuse(0);
      EXPECT_EQ(status.is(Code::device_lost), was_refused) << row.name << ", call " << n << ": " << describe(status);
      expect_right(pieces);
      if (!was_refused) break;
    }
    EXPECT_GE(refused, row.calls) << row.name;
  }
}

TEST_F(ChecksumsFailures, AFailureOfOneBufferInPiecesIsToldToo) {
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::managed}) {
    devices_.told = [&](PointerFacts& facts, std::uint64_t) { facts.kind = kind; };
    std::vector<std::uint32_t> sums(3);
    refusals_.refuse(4);
    EXPECT_TRUE(checksums_->make(memory_[0], kRoom, 1u << 20, sums).is(Code::device_lost));
    EXPECT_TRUE(checksums_->make(memory_[0], kRoom, 1u << 20, sums).ok());
    EXPECT_EQ(sums[1], crc32c({memory_[0] + (1u << 20), 1u << 20}));
  }
}

TEST_F(ChecksumsFailures, APieceOfSeveralAllocationsIsTheDevicesWhereAllOfThemAre) {
  refusals_.makes_checksums = true;
  const std::vector<iovec> across = {{memory_[0] + 100, 3 * kGranule}, {memory_[0] + kGranule, kGranule}};
  const auto copies = [&](std::function<void(PointerFacts&, std::uint64_t)> told) {
    devices_.told = [&, told](PointerFacts& facts, std::uint64_t offset) {
      in_granules(facts, offset);
      if (told) told(facts, offset);
    };
    expect_right(across);
  };
  copies(nullptr);
  copies([](PointerFacts& facts, std::uint64_t offset) {
    if (offset / kGranule == 2) facts.kind = MemoryKind::managed;
  });
  copies([&](PointerFacts& facts, std::uint64_t offset) {
    if (offset / kGranule == 2) facts.device = devices_.device(1).value();
  });
  copies([](PointerFacts& facts, std::uint64_t offset) {
    if (offset / kGranule == 2) facts.size = 0;  // Nobody knows how far it goes.
  });
}

TEST_F(ChecksumsFailures, MoreAllocationsThanAreRememberedAreAskedForAgain) {
  devices_.told = [](PointerFacts& facts, std::uint64_t offset) {
    facts.base += offset / 4096 * 4096;
    facts.size = 4096;
  };
  std::vector<iovec> pieces;
  for (std::size_t i = 0; i < 2 * 300; ++i) pieces.push_back({memory_[0] + i % 300 * 4096, 4096});
  expect_right(pieces);
}

// Each tiny piece is a block, and one launch takes fewer.
TEST_F(ChecksumsFailures, MorePiecesThanOneLaunchTakesComeInSeveral) {
  std::vector<iovec> pieces;
  for (std::size_t i = 0; i < 17'000; ++i) pieces.push_back({memory_[0] + i, 1 + i % 3});
  expect_right(pieces);
  ASSERT_TRUE(in_order(pieces).ok());

  checksums_ = std::make_unique<Checksums>(devices_);
  refusals_.refuse(5);
  std::vector<std::uint32_t> sums(pieces.size());
  EXPECT_TRUE(checksums_->make(pieces, sums).is(Code::device_lost)) << "the first launch";
  checksums_ = std::make_unique<Checksums>(devices_);
  refusals_.queues_most = 1;
  EXPECT_TRUE(in_order(pieces).is(Code::limit)) << "what is under way keeps its queue";
  refusals_.queues_most = INT_MAX;
  expect_right(pieces);
}

TEST_F(ChecksumsFailures, NoMoreIsKeptThanAFewNeed) {
  std::vector<std::uint64_t> begun;
  const iovec piece{memory_[0], 1000};
  for (int i = 0; i < 20; ++i) begun.push_back(checksums_->begin({&piece, 1}, this).value());
  EXPECT_EQ(refusals_.queues, 20);
  for (const std::uint64_t number : begun) {
    std::uint32_t sum = 0;
    ASSERT_TRUE(checksums_->end(number, {&sum, 1}).ok());
    EXPECT_EQ(sum, crc32c({memory_[0], 1000}));
  }
  EXPECT_EQ(refusals_.queues, 16);
}

TEST_F(ChecksumsFailures, MemoryThatIsNotThereOrNobodysIsRefused) {
  void* const nowhere = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(nowhere, MAP_FAILED);
  const iovec pieces[] = {{nowhere, 100}};
  std::uint32_t sum = 7;
  EXPECT_TRUE(checksums_->make(pieces, {&sum, 1}).is(Code::bad_pointer));
  // A driver that page-locked memory keeps it mapped, within its bounds.
  devices_.told = [](PointerFacts& facts, std::uint64_t) {
    facts.kind = MemoryKind::registered_host;
    facts.size = 1000;
  };
  const iovec locked[] = {{memory_[0], 1000}, {memory_[0] + 900, 200}};
  std::uint32_t sums[2] = {};
  ASSERT_TRUE(checksums_->make(locked, sums).ok());
  EXPECT_EQ(sums[1], crc32c({memory_[0] + 900, 200}));
  ::munmap(nowhere, 4096);

  devices_.told = [](PointerFacts& facts, std::uint64_t) { facts.device = nullptr; };
  EXPECT_TRUE(checksums_->make(locked, sums).is(Code::no_device)) << "a GPU that nobody can use";
}

}  // namespace
}  // namespace penstock::core
