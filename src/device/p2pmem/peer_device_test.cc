// SPDX-License-Identifier: Apache-2.0

#include "device/p2pmem/peer_device.h"

#include <gtest/gtest.h>

#include <string>

#include "base/page_size.h"
#include "fakes/fake_peer.h"

namespace penstock::core {
namespace {

class PeerDeviceTest : public testing::Test {
 protected:
  std::unique_ptr<DeviceSet> open() const {
    Result<std::unique_ptr<DeviceSet>> set = peers_.open();
    EXPECT_TRUE(set.ok());
    return set.ok() ? std::move(*set) : nullptr;
  }

  FakePeers peers_;
};

TEST_F(PeerDeviceTest, AGpusMemoryIsNeverTaken) {
  peers_.add("0000:01:00.0", 1 << 20, "0x030200");
  const auto set = peers_.open();
  ASSERT_FALSE(set.ok());
  EXPECT_TRUE(set.status().is(Code::no_device));
}

TEST_F(PeerDeviceTest, DevicesComeInTheOrderOfTheirAddresses) {
  peers_.add("0000:05:00.0", 1 << 20);
  peers_.add("0000:03:00.0", 2 << 20);
  peers_.add("0000:04:00.0", 2 << 20, "0x030000");
  const auto set = open();
  ASSERT_EQ(set->count(), 2u);
  EXPECT_STREQ((*set->device(0))->facts().pci_address, "0000:03:00.0");
  EXPECT_EQ((*set->device(0))->facts().memory_bytes, 2u << 20);
  EXPECT_STREQ((*set->device(1))->facts().pci_address, "0000:05:00.0");
  EXPECT_FALSE(set->device(2).ok());
}

TEST_F(PeerDeviceTest, MemoryIsKnownFromItsFirstByteToItsLast) {
  peers_.add("0000:03:00.0", 1 << 20);
  const auto set = open();
  Device* const device = *set->device(0);
  const std::size_t whole_pages = 3 * page_size();
  const Result<void*> memory = device->memory().allocate(whole_pages - 1000);
  ASSERT_TRUE(memory.ok());
  char* const bytes = static_cast<char*>(*memory);
  const PointerFacts facts = set->describe(bytes + whole_pages - 1);
  EXPECT_EQ(facts.kind, MemoryKind::device);
  EXPECT_EQ(facts.device, device);
  EXPECT_EQ(facts.size, whole_pages);
  EXPECT_EQ(facts.mapped, reinterpret_cast<std::uintptr_t>(bytes));
  EXPECT_EQ(set->describe(bytes + whole_pages).kind, MemoryKind::host);
  device->memory().release(bytes);
  EXPECT_EQ(set->describe(bytes).kind, MemoryKind::host);
}

TEST_F(PeerDeviceTest, MoreThanTheDeviceHasIsRefused) {
  peers_.add("0000:03:00.0", 1 << 20);
  const auto set = open();
  Device* const device = *set->device(0);
  EXPECT_TRUE(device->memory().allocate((1 << 20) + 1).status().is(Code::out_of_memory));
  EXPECT_TRUE(device->memory().allocate(SIZE_MAX).status().is(Code::out_of_memory));
  EXPECT_TRUE(device->memory().allocate(0).status().is(Code::invalid_argument));
}

TEST_F(PeerDeviceTest, CopiesMoveEveryByteBothWays) {
  peers_.add("0000:03:00.0", 4 << 20);
  const auto set = open();
  Device* const device = *set->device(0);
  const std::size_t size = (1 << 20) + 77;
  char* const memory = static_cast<char*>(*device->memory().allocate(size));
  std::string out(size, '\0'), back(size, '\0');
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<char>(i * 7 + i / 251);
  const auto queue = std::move(*device->open_copy_queue(1));
  ASSERT_TRUE(queue->copy_to_device(memory, out.data(), size).ok());
  ASSERT_TRUE(queue->copy_to_host(back.data(), memory, size).ok());
  ASSERT_TRUE(queue->record(0).ok() && queue->wait(0, false).ok());
  EXPECT_EQ(out, back);
}

// An unbound driver leaves a mapping without memory.
TEST_F(PeerDeviceTest, MemoryThatIsGoneIsAnErrorAndNoSignal) {
  peers_.add("0000:03:00.0", 1 << 20);
  const auto set = open();
  Device* const device = *set->device(0);
  char* const memory = static_cast<char*>(*device->memory().allocate(65536));
  const auto queue = std::move(*device->open_copy_queue(1));
  peers_.unbind("0000:03:00.0");
  std::string host(65536, 'x');
  EXPECT_TRUE(queue->copy_to_device(memory, host.data(), host.size()).is(Code::device_lost));
  EXPECT_TRUE(queue->copy_to_host(host.data(), memory, host.size()).is(Code::device_lost));
}

}  // namespace
}  // namespace penstock::core
