// SPDX-License-Identifier: Apache-2.0

#include "device/mixed_devices.h"

#include <gtest/gtest.h>

#include <utility>

#include "device/host/host_device.h"
#include "fakes/fake_peer.h"

namespace penstock::core {
namespace {

// Peers 0 and 1, and stand-ins 2 and 3.
class MixedDevicesTest : public testing::Test {
 protected:
  void SetUp() override {
    peers_.add("0000:03:00.0", 1 << 20);
    peers_.add("0000:04:00.0", 1 << 20);
    std::vector<std::unique_ptr<DeviceSet>> sets;
    sets.push_back(std::move(*peers_.open({.kind = "peers"})));
    sets.push_back(std::make_unique<HostDeviceSet>(DeviceTerms{.kind = "stand-ins", .first_ordinal = 2}));
    mixed_ = std::make_unique<MixedDevices>(std::move(sets));
  }

  FakePeers peers_;
  std::unique_ptr<MixedDevices> mixed_;
};

TEST_F(MixedDevicesTest, EveryDeviceIsFoundByItsOrdinal) {
  const char* const kinds[] = {"peers", "peers", "stand-ins", "stand-ins"};
  ASSERT_EQ(mixed_->count(), 4u);
  for (unsigned i = 0; i < 4; ++i) {
    const DeviceFacts& facts = (*mixed_->device(i))->facts();
    EXPECT_EQ(facts.ordinal, static_cast<int>(i));
    EXPECT_STREQ(facts.kind, kinds[i]);
  }
  EXPECT_TRUE(mixed_->device(4).status().is(Code::no_device));
}

TEST_F(MixedDevicesTest, MemoryIsThatOfTheDeviceThatGaveIt) {
  for (unsigned i = 0; i < 4; ++i) {
    Device* const owner = *mixed_->device(i);
    char* const memory = static_cast<char*>(*owner->memory().allocate(8192));

    const PointerFacts facts = mixed_->describe(memory + 5000);

    EXPECT_EQ(facts.kind, MemoryKind::device);
    EXPECT_EQ(facts.device, owner) << i;
    EXPECT_EQ(facts.base, reinterpret_cast<std::uintptr_t>(memory));
    owner->memory().release(memory);
    EXPECT_EQ(mixed_->describe(memory).kind, MemoryKind::host);
  }
}

TEST_F(MixedDevicesTest, AnAddressThatNobodyKnowsIsHostMemory) {
  char ours = 0;
  const PointerFacts facts = mixed_->describe(&ours);
  EXPECT_EQ(facts.kind, MemoryKind::host);
  EXPECT_EQ(facts.device, nullptr);
}

TEST_F(MixedDevicesTest, StreamsAreTheFirstProvidersThatHasAnyAndReachItsMemoryAlone) {
  ASSERT_TRUE(mixed_->has_streams());
  const Result<StreamHome*> home = mixed_->stream_home(nullptr);
  ASSERT_TRUE(home.ok());
  EXPECT_EQ(*home, &HostStreamHome::of_process());
  for (unsigned i = 0; i < 4; ++i) {
    Device* const owner = *mixed_->device(i);
    void* const memory = *owner->memory().allocate(4096);
    EXPECT_EQ((*home)->reaches(mixed_->describe(memory), memory), i >= 2) << i;
    owner->memory().release(memory);
  }
}

TEST_F(MixedDevicesTest, WhereNobodyHasStreamsTheyAreUnsupported) {
  std::vector<std::unique_ptr<DeviceSet>> sets;
  sets.push_back(std::move(*peers_.open()));
  MixedDevices peers_alone(std::move(sets));
  EXPECT_FALSE(peers_alone.has_streams());
  EXPECT_TRUE(peers_alone.stream_home(nullptr).status().is(Code::unsupported));
}

}  // namespace
}  // namespace penstock::core
