// SPDX-License-Identifier: Apache-2.0

#include "device/host/host_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "fakes/waiting.h"

namespace penstock::core {
namespace {

class HostDeviceTest : public testing::Test {
 protected:
  Device& device() { return *devices_.device(0).value(); }
  HostDeviceSet devices_;
};

TEST_F(HostDeviceTest, ACopyLandsOnlyWhenItIsWaitedFor) {
  auto* memory = static_cast<char*>(device().memory().allocate(4096).value());
  auto queue = std::move(device().open_copy_queue(1).value());
  char host[] = "weights";

  ASSERT_TRUE(queue->copy_to_device(memory, host, sizeof host).ok());
  ASSERT_TRUE(queue->record(0).ok());
  EXPECT_EQ(memory[0], '\0');
  ASSERT_TRUE(queue->wait(0, false).ok());

  EXPECT_STREQ(memory, "weights");
}

TEST_F(HostDeviceTest, MemoryThatWasNotFreedIsThereWhenTheDeviceIsGone) {
  char* memory = nullptr;
  {
    HostDeviceSet gone;
    memory = static_cast<char*>((*gone.device(0))->memory().allocate(4096).value());
    memory[0] = 'k';
  }
  EXPECT_EQ(memory[0], 'k');
}

TEST_F(HostDeviceTest, ASourceReusedTooEarlyShowsInTheCopy) {
  auto* memory = static_cast<char*>(device().memory().allocate(4096).value());
  auto queue = std::move(device().open_copy_queue(1).value());
  char host[] = "first";

  ASSERT_TRUE(queue->copy_to_device(memory, host, sizeof host).ok());
  ASSERT_TRUE(queue->record(0).ok());
  std::memcpy(host, "later", 5);
  ASSERT_TRUE(queue->wait(0, false).ok());

  EXPECT_STREQ(memory, "later");
}

TEST_F(HostDeviceTest, AMarkerSaysNothingOfCopiesQueuedAfterIt) {
  auto* memory = static_cast<char*>(device().memory().allocate(4096).value());
  auto queue = std::move(device().open_copy_queue(2).value());
  char host[] = "ab";

  ASSERT_TRUE(queue->copy_to_device(memory, host, 1).ok());
  ASSERT_TRUE(queue->record(0).ok());
  ASSERT_TRUE(queue->copy_to_device(memory + 1, host + 1, 1).ok());
  ASSERT_TRUE(queue->record(1).ok());
  ASSERT_TRUE(queue->reached(0).value());

  EXPECT_EQ(memory[0], 'a');
  EXPECT_EQ(memory[1], '\0');
}

TEST_F(HostDeviceTest, KnowsItsOwnMemoryAndNoOther) {
  Device* second = devices_.device(1).value();
  auto* memory = static_cast<char*>(second->memory().allocate(10000).value());
  char stack = 0;

  const PointerFacts inside = devices_.describe(memory + 5000);
  const PointerFacts outside = devices_.describe(&stack);

  EXPECT_EQ(inside.kind, MemoryKind::device);
  EXPECT_EQ(inside.device, second);
  EXPECT_EQ(inside.base, reinterpret_cast<std::uintptr_t>(memory));
  EXPECT_GE(inside.size, 10000u);
  EXPECT_EQ(outside.kind, MemoryKind::host);
  EXPECT_EQ(outside.device, nullptr);
  second->memory().release(memory);
  EXPECT_EQ(devices_.describe(memory).kind, MemoryKind::host);
}

// Work that queues itself again, until it is told to stop.
struct Steady {
  static void go_on(void* self) {
    auto& steady = *static_cast<Steady*>(self);
    ++steady.calls;
    if (!steady.shall_stop) (void)steady.home.call(self, &go_on, self);
  }
  HostStreamHome& home = HostStreamHome::of_process();
  std::atomic<unsigned> calls{0};
  std::atomic<bool> shall_stop{false};
};

// A hang here is the fault that this test looks for.
TEST_F(HostDeviceTest, WhoWaitsForStreamsWaitsForWhatTheyWereGivenBeforeAndNoMore) {
  Steady steady;
  std::thread producer([&] { Steady::go_on(&steady); });
  ASSERT_TRUE(wait_until([&] { return steady.calls > 0; }));

  device().memory().drain_streams();
  EXPECT_TRUE(steady.home.drain(&steady).ok());

  steady.shall_stop = true;
  producer.join();
  // The call that runs now may still have queued one more, the last.
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(steady.home.drain(&steady).ok());
}

TEST_F(HostDeviceTest, ADeviceThatIsNotThereIsAnError) { EXPECT_TRUE(devices_.device(2).status().is(Code::no_device)); }

}  // namespace
}  // namespace penstock::core
