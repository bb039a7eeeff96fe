// SPDX-License-Identifier: Apache-2.0

#include "device/pinned_block.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "base/page_size.h"
#include "device/host/host_device.h"

namespace penstock::core {
namespace {

constexpr std::size_t kSize = 192u << 10;  // No other test of this program leaves a block of this size behind.

bool is_mapped(void* memory, std::size_t size) {
  std::vector<unsigned char> pages(size / page_size() + 1);
  return ::mincore(memory, size, pages.data()) == 0;
}

// Keeps, as CUDA's driver does, what was page-locked until it is unregistered, also where it refuses a call.
class LockingDevice final : public HostDevice {
 public:
  LockingDevice() : HostDevice(0, "host") {}
  bool refuses = false;           // To register anything.
  bool is_a_stream_held = false;  // Nothing can be unregistered.
  std::set<void*> locked;
  std::size_t others_reach = 0;  // Others have unmapped locked memory on either side of what was asked for first.
  std::vector<void*> asked_for;

  Status register_host(void* memory, std::size_t /*size*/) override {
    constexpr const char* kStep = "page-lock it, as scripted";
    asked_for.push_back(memory);
    if (refuses) return failure(Code::out_of_memory, kStep);
    if (is_of_others(memory)) return failure(Code::already_registered, kStep);
    return locked.insert(memory).second ? success() : failure(Code::already_registered, kStep);
  }
  bool unregister_host(void* memory) override {
    if (is_a_stream_held) return false;
    EXPECT_EQ(locked.erase(memory), 1u) << "it is another's registration";
    return true;
  }
  bool is_of_others(void* memory) const {
    const auto first = reinterpret_cast<std::uintptr_t>(asked_for.front());
    const auto at = reinterpret_cast<std::uintptr_t>(memory);
    return std::max(first, at) - std::min(first, at) < others_reach;
  }
};

class PinnedBlockTest : public testing::Test {
 protected:
  // Opens one and gives it back while a stream is held. It stays page-locked.
  void* leave_one_behind() {
    const PinnedBlock block = std::move(PinnedBlock::open(&device_, kSize).value());
    device_.is_a_stream_held = true;
    return block.data();
  }
  LockingDevice device_;
};

// Another block would be mapped in its place, and the driver would take that for page-locked.
TEST_F(PinnedBlockTest, ABlockThatIsStillPageLockedStaysMappedWhereTheDriverRefusesToLockItAgain) {
  void* const left = leave_one_behind();
  ASSERT_TRUE(device_.locked.contains(left));
  device_.refuses = true;
  EXPECT_TRUE(PinnedBlock::open(&device_, kSize).status().is(Code::out_of_memory));
  EXPECT_EQ(device_.asked_for.back(), left);
  EXPECT_TRUE(is_mapped(left, kSize));

  device_.refuses = device_.is_a_stream_held = false;
  const Result<PinnedBlock> again = PinnedBlock::open(&device_, kSize);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->data(), left);
}

// The driver's copies would go to pages that are not mapped there any more. Each open begins in the same place.
TEST_F(PinnedBlockTest, ALargeRegionThatOthersUnmappedAndDidNotUnregisterIsNotTaken) {
  device_.others_reach = 1024 * kSize;
  for (int i = 0; i < 2; ++i) {
    void* data = nullptr;
    {
      const Result<PinnedBlock> block = PinnedBlock::open(&device_, kSize);
      ASSERT_TRUE(block.ok()) << describe(block.status());
      data = block->data();
      EXPECT_TRUE(device_.locked.contains(data));
      EXPECT_FALSE(device_.is_of_others(data));
      EXPECT_FALSE(is_mapped(block->data() + kSize, kSize)) << "the rest of its area is left";
    }
    EXPECT_TRUE(device_.locked.empty());
    for (void* const memory : device_.asked_for) EXPECT_FALSE(is_mapped(memory, kSize));
  }
}

TEST_F(PinnedBlockTest, WhereTheDriverTakesAllMemoryForRegisteredThereIsNone) {
  device_.others_reach = SIZE_MAX;
  EXPECT_TRUE(PinnedBlock::open(&device_, kSize).status().is(Code::out_of_memory));
  EXPECT_LE(device_.asked_for.size(), 10u);
  EXPECT_TRUE(device_.locked.empty());
  for (void* const refused : device_.asked_for) EXPECT_FALSE(is_mapped(refused, kSize));
}

TEST_F(PinnedBlockTest, ABlockThatWasNeverPageLockedIsUnmappedWhereTheDriverRefuses) {
  device_.refuses = true;
  EXPECT_TRUE(PinnedBlock::open(&device_, kSize).status().is(Code::out_of_memory));
  ASSERT_EQ(device_.asked_for.size(), 1u);
  EXPECT_FALSE(is_mapped(device_.asked_for.front(), kSize));
}

}  // namespace
}  // namespace penstock::core
