// SPDX-License-Identifier: Apache-2.0

#include "device/pinned_block.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

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
  std::set<void*> of_others;    // New memory where others unmapped locked memory.
  std::size_t others_most = 0;  // So many of those are found.
  void* asked_for = nullptr;    // At last.

  Status register_host(void* memory, std::size_t /*size*/) override {
    constexpr const char* kStep = "page-lock it, as scripted";
    asked_for = memory;
    if (refuses) return failure(Code::out_of_memory, kStep);
    if (of_others.size() < others_most) of_others.insert(memory);
    if (of_others.contains(memory)) return failure(Code::already_registered, kStep);
    return locked.insert(memory).second ? success() : failure(Code::already_registered, kStep);
  }
  bool unregister_host(void* memory) override {
    if (is_a_stream_held) return false;
    EXPECT_EQ(locked.erase(memory), 1u) << "it is another's registration";
    return true;
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
  EXPECT_EQ(device_.asked_for, left);
  EXPECT_TRUE(is_mapped(left, kSize));

  device_.refuses = device_.is_a_stream_held = false;
  const Result<PinnedBlock> again = PinnedBlock::open(&device_, kSize);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->data(), left);
}

// The driver's copies would go to pages that are not mapped there any more.
TEST_F(PinnedBlockTest, MemoryThatOthersUnmappedAndDidNotUnregisterIsNotTaken) {
  device_.others_most = 2;
  void* data = nullptr;
  {
    const Result<PinnedBlock> block = PinnedBlock::open(&device_, kSize);
    ASSERT_TRUE(block.ok()) << describe(block.status());
    data = block->data();
    EXPECT_TRUE(device_.locked.contains(data));
    EXPECT_EQ(device_.of_others.size(), 2u);
    EXPECT_FALSE(device_.of_others.contains(data));
    for (void* const refused : device_.of_others) EXPECT_FALSE(is_mapped(refused, kSize));
  }
  EXPECT_TRUE(device_.locked.empty());
  EXPECT_FALSE(is_mapped(data, kSize));

  device_.others_most = 1000;
  EXPECT_TRUE(PinnedBlock::open(&device_, kSize).status().is(Code::already_registered));
  EXPECT_LT(device_.of_others.size(), 20u);
  EXPECT_TRUE(device_.locked.empty());
  for (void* const refused : device_.of_others) EXPECT_FALSE(is_mapped(refused, kSize));
}

TEST_F(PinnedBlockTest, ABlockThatWasNeverPageLockedIsUnmappedWhereTheDriverRefuses) {
  device_.refuses = true;
  EXPECT_TRUE(PinnedBlock::open(&device_, kSize).status().is(Code::out_of_memory));
  ASSERT_NE(device_.asked_for, nullptr);
  EXPECT_FALSE(is_mapped(device_.asked_for, kSize));
}

}  // namespace
}  // namespace penstock::core
