// SPDX-License-Identifier: Apache-2.0

// Many small copies at once, on the real driver where there is a GPU, and on test/fakes/fake_cuda, as of CUDA 12
// and 11.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "device/cuda/cuda_device.h"
#include "device/pinned_block.h"
#include "device/stream_home.h"

namespace penstock::core {
namespace {

using namespace cuda;

constexpr const char* kRealDriver = "libcuda.so.1";
constexpr const char* kFake12 = PENSTOCK_FAKE_CUDA;
constexpr const char* kFake11 = PENSTOCK_FAKE_CUDA_11;
constexpr std::size_t kRoom = 4u << 20;

class CudaScatterTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string why_not;
    auto opened = CudaDeviceSet::open(&why_not, GetParam());
    if (!opened.ok() && GetParam() == kRealDriver) GTEST_SKIP() << "no GPU to test on: " << why_not;
    ASSERT_TRUE(opened.ok()) << why_not;
    devices_ = std::move(opened.value());
    driver_ = ::dlopen(GetParam(), RTLD_NOW | RTLD_LOCAL);
    device_ = devices_->device(0).value();
    memory_ = static_cast<char*>(device_->memory().allocate(kRoom).value());
    staging_ = std::move(PinnedBlock::open(device_, kRoom).value());
    queue_ = std::move(device_->open_copy_queue(2).value());
  }
  void TearDown() override {
    if (devices_ == nullptr) return;
    queue_.reset();
    device_->memory().release(memory_);
  }

  bool is_fake() const { return GetParam() != kRealDriver; }
  template <typename... Arguments>
  int driver(const char* name, Arguments... arguments) const {
    const auto call = reinterpret_cast<int (*)(Arguments...)>(::dlsym(driver_, name));
    return call != nullptr ? call(arguments...) : -1;
  }
  int scatters() const { return driver("fake_cuda_scatters"); }

  char* host() const { return reinterpret_cast<char*>(staging_.data()); }
  void finish(Status queued) { EXPECT_TRUE(wait_for_copies(*queue_, queued).ok()) << describe(queued); }
  void set_device(const std::vector<char>& bytes) {
    std::vector<char> copy = bytes;
    finish(queue_->copy_to_device(memory_, copy.data(), copy.size()));
  }
  std::vector<char> device_bytes() {
    std::vector<char> bytes(kRoom);
    finish(queue_->copy_to_host(bytes.data(), memory_, bytes.size()));
    return bytes;
  }
  static std::vector<char> noise(unsigned seed) {
    static const std::vector<char> source = [] {
      std::vector<char> bytes(2 * kRoom);
      std::mt19937 random(1);
      std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<char>(random()); });
      return bytes;
    }();
    const auto begin = source.begin() + seed * 977 % kRoom;
    return {begin, begin + kRoom};
  }
  // Pieces of any size up to `size_max` in cells of 32 KiB each, anywhere in their cells.
  std::vector<Copy> pieces(unsigned count, std::size_t size_max, unsigned seed) {
    constexpr std::size_t kCell = 32u << 10;
    std::mt19937 random(seed);
    std::vector<Copy> all;
    for (unsigned i = 0; i < count; ++i) {
      const std::size_t size = i % 7 == 0 ? size_max : random() % (size_max + 1);
      const std::size_t there = random() % (kCell - size), here = i % 3 == 0 ? there : random() % (kCell - size);
      all.push_back({memory_ + (count - 1 - i) * kCell + there, host() + i * kCell + here, size});
    }
    return all;
  }
  // Expects that every piece arrived, and nothing beside them was touched.
  void expect_both_ways(unsigned count, std::size_t size_max, unsigned seed) {
    SCOPED_TRACE(testing::Message() << count << " pieces of up to " << size_max << " bytes, seed " << seed);
    const std::vector<Copy> all = pieces(count, size_max, seed);
    std::vector<char> expected = noise(seed);
    set_device(expected);
    const std::vector<char> sent = noise(seed + 1);
    std::copy(sent.begin(), sent.end(), host());
    for (const Copy& copy : all) {
      std::memcpy(expected.data() + (static_cast<char*>(copy.device_address) - memory_), copy.host, copy.size);
    }

    finish(queue_->copy_many(all, Direction::to_device));
    EXPECT_EQ(device_bytes(), expected);

    std::vector<char> back = noise(seed + 2);
    std::copy(back.begin(), back.end(), host());
    for (const Copy& copy : all) {
      std::memcpy(back.data() + (static_cast<char*>(copy.host) - host()),
                  expected.data() + (static_cast<char*>(copy.device_address) - memory_), copy.size);
    }
    finish(queue_->copy_many(all, Direction::to_host));
    EXPECT_EQ(std::memcmp(host(), back.data(), kRoom), 0);
  }

  std::unique_ptr<CudaDeviceSet> devices_;
  void* driver_ = nullptr;
  Device* device_ = nullptr;
  char* memory_ = nullptr;
  PinnedBlock staging_;
  std::unique_ptr<CopyQueue> queue_;
};

class FakeCudaScatterTest : public CudaScatterTest {};

std::string name_of_driver(const testing::TestParamInfo<const char*>& info) {
  if (info.param == kRealDriver) return "RealDriver";
  return info.param == kFake11 ? "FakeCuda11" : "FakeCuda12";
}
INSTANTIATE_TEST_SUITE_P(On, CudaScatterTest, testing::Values(kRealDriver, kFake12, kFake11), name_of_driver);
INSTANTIATE_TEST_SUITE_P(On, FakeCudaScatterTest, testing::Values(kFake12, kFake11), name_of_driver);

TEST_P(CudaScatterTest, EveryPieceArrivesWhereverItLies) {
  unsigned seed = 1;
  for (const unsigned count : {1u, 3u, 4u, 5u, 64u, 127u}) {
    for (const std::size_t size_max :
         {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{33}, std::size_t{4096}, std::size_t{20000}}) {
      expect_both_ways(count, size_max, seed += 3);
    }
  }
}

TEST_P(CudaScatterTest, MorePiecesThanALaunchTakesGoByTwo) {
  std::vector<Copy> all;
  for (std::size_t i = 0; i < 300; ++i) all.push_back({memory_ + i * 5000, host() + i * 4096 + i % 16, 4000});
  const std::vector<char> sent = noise(9);
  std::copy(sent.begin(), sent.end(), host());
  const int before = scatters();

  finish(queue_->copy_many(all, Direction::to_device));

  const std::vector<char> arrived = device_bytes();
  for (std::size_t i = 0; i < 300; ++i) {
    ASSERT_EQ(std::memcmp(arrived.data() + i * 5000, all[i].host, 4000), 0) << i;
  }
  if (is_fake()) {
    EXPECT_EQ(scatters() - before, 3);
  }
}

TEST_P(CudaScatterTest, OneCopyIsOverWhenItsCallReturns) {
  const std::vector<char> sent = noise(4);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{1} << 20}) {
    std::memcpy(host(), sent.data(), size);
    ASSERT_TRUE(queue_->copy_and_wait({memory_ + 3, host(), size}, Direction::to_device).ok());
    std::memset(host(), 0, size);
    ASSERT_TRUE(queue_->copy_and_wait({memory_ + 3, host(), size}, Direction::to_host).ok());
    EXPECT_EQ(std::memcmp(host(), sent.data(), size), 0);
  }
}

TEST_P(CudaScatterTest, ManyThreadsMeetTheKernelAtOnce) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      auto own = std::move(device_->open_copy_queue(1).value());
      std::vector<Copy> all;
      for (std::size_t k = 0; k < 16; ++k) {
        const std::size_t at = (i * 16 + k) * 4096;
        std::memset(host() + at, static_cast<int>(i + 1), 4096);
        all.push_back({memory_ + at, host() + at, 4096});
      }
      for (int round = 0; round < 20; ++round) {
        EXPECT_TRUE(wait_for_copies(*own, own->copy_many(all, Direction::to_device)).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<char> arrived = device_bytes();
  for (unsigned i = 0; i < 8; ++i) EXPECT_EQ(arrived[i * 16 * 4096 + 77], static_cast<char>(i + 1));
}

// There are fewer signals than queues: the last queues use events.
TEST_P(CudaScatterTest, ManyQueuesLaunchBesideEachOther) {
  constexpr std::size_t kQueues = 70, kPieces = 8, kBytes = 512;
  std::vector<std::unique_ptr<CopyQueue>> queues;
  for (std::size_t i = 0; i < kQueues; ++i) queues.push_back(std::move(device_->open_copy_queue(2).value()));
  for (int round = 1; round <= 3; ++round) {
    std::memset(host(), round, kQueues * kPieces * kBytes);
    for (std::size_t i = 0; i < kQueues; ++i) {
      std::vector<Copy> all;
      for (std::size_t k = 0; k < kPieces; ++k) {
        const std::size_t at = (i * kPieces + k) * kBytes;
        all.push_back({memory_ + at, host() + at, kBytes, true});
      }
      ASSERT_TRUE(queues[i]->copy_many(all, Direction::to_device).ok());
      ASSERT_TRUE(queues[i]->record(0).ok());
    }
    for (auto& queue : queues) ASSERT_TRUE(queue->wait(0, false).ok());
    const std::vector<char> arrived = device_bytes();
    for (std::size_t at = 0; at < kQueues * kPieces * kBytes; at += 64) ASSERT_EQ(arrived[at], round) << at;
  }
}

TEST_P(CudaScatterTest, MarkersBehindLaunchesAndCopiesComeInOrder) {
  const std::vector<char> sent = noise(12);
  std::copy(sent.begin(), sent.end(), host());
  auto queue = std::move(device_->open_copy_queue(3).value());
  for (int round = 0; round < 20; ++round) {
    std::vector<Copy> all;
    for (std::size_t i = 0; i < 32; ++i) all.push_back({memory_ + i * 4096, host() + i * 4096, 4096, true});
    ASSERT_TRUE(queue->copy_many(all, Direction::to_device).ok());
    ASSERT_TRUE(queue->record(0).ok());
    ASSERT_TRUE(queue->copy_to_device(memory_ + (1 << 18), host() + (1 << 18), 1 << 18).ok());
    ASSERT_TRUE(queue->record(1).ok());
    ASSERT_TRUE(queue->copy_many(all, Direction::to_device).ok());
    ASSERT_TRUE(queue->record(2).ok());

    ASSERT_TRUE(queue->wait(2, round % 2 == 0).ok());

    EXPECT_TRUE(queue->reached(0).value());
    EXPECT_TRUE(queue->reached(1).value());
    EXPECT_TRUE(queue->reached(2).value());
    const std::vector<char> arrived = device_bytes();
    ASSERT_EQ(std::memcmp(arrived.data() + (1 << 18), host() + (1 << 18), 1 << 18), 0);
    ASSERT_EQ(std::memcmp(arrived.data(), host(), 32 * 4096), 0);
  }
}

TEST_P(FakeCudaScatterTest, ManySmallPiecesTakeOneLaunchAndFewOrLargeOnesNone) {
  const int before = scatters();
  expect_both_ways(3, 4096, 50);
  EXPECT_EQ(scatters(), before);

  expect_both_ways(16, 4096, 51);
  EXPECT_EQ(scatters(), before + 2);

  std::vector<Copy> large;
  for (std::size_t i = 0; i < 8; ++i) large.push_back({memory_ + i * 100'000, host() + i * 100'000, 70'000});
  finish(queue_->copy_many(large, Direction::to_device));
  EXPECT_EQ(scatters(), before + 2);
}

TEST_P(FakeCudaScatterTest, WithoutTheModuleTheyGoOneByOne) {
  driver("fake_cuda_refuse_modules", 1);
  const int before = scatters();

  expect_both_ways(64, 4096, 60);

  EXPECT_EQ(scatters(), before);
  driver("fake_cuda_refuse_modules", 0);
}

// Once enough streams are held, no kernel starts, and loading one would wait for any held stream.
TEST_P(FakeCudaScatterTest, WhileAStreamMayBeHeldTheyGoOneByOne) {
  CUstream stream = nullptr;
  ASSERT_EQ(driver("cuCtxPushCurrent_v2", static_cast<CudaDevice*>(device_)->context().handle), 0);
  ASSERT_EQ(driver("cuStreamCreate", &stream, 1u), 0);
  CUcontext popped = nullptr;
  ASSERT_EQ(driver("cuCtxPopCurrent_v2", &popped), 0);
  StreamHome* const home = devices_->stream_home(stream).value();
  StreamBlock* const held = home->memory().take(0, UINT64_MAX).value();
  const int before = scatters();

  expect_both_ways(64, 4096, 90);
  EXPECT_EQ(scatters(), before);

  home->memory().give_back(*held);
  expect_both_ways(64, 4096, 91);
  EXPECT_EQ(scatters(), before + 2);
}

TEST_P(FakeCudaScatterTest, ARefusedLaunchIsMadeUpForByCopies) {
  expect_both_ways(64, 4096, 70);
  driver("fake_cuda_fail_at", 2);  // The first call writes the device's new content.

  expect_both_ways(64, 4096, 71);
}

TEST_P(FakeCudaScatterTest, ARefusedCopyIsReported) {
  std::vector<Copy> few = pieces(3, 4096, 80);
  for (Copy& copy : few) copy.size = 100;
  driver("fake_cuda_fail_at", 2);

  EXPECT_FALSE(queue_->copy_many(few, Direction::to_device).ok());
  EXPECT_TRUE(queue_->copy_many(few, Direction::to_host).ok());
}

// The fake would abort, as a real context would be lost.
TEST_P(FakeCudaScatterTest, NoKernelTouchesMemoryThatTheDriverDoesNotKnow) {
  char* const gone = static_cast<char*>(device_->memory().allocate(64 << 10).value());
  device_->memory().release(gone);
  std::vector<char> pageable(64 << 10);
  std::vector<Copy> stale, unpinned;
  for (std::size_t i = 0; i < 8; ++i) {
    stale.push_back({gone + i * 4096, host() + i * 4096, 4096});
    unpinned.push_back({memory_ + i * 4096, pageable.data() + i * 4096, 4096});
  }
  const int before = scatters();

  EXPECT_FALSE(queue_->copy_many(stale, Direction::to_device).ok());
  finish(queue_->copy_many(unpinned, Direction::to_device));

  EXPECT_EQ(scatters(), before);
}

TEST_P(FakeCudaScatterTest, AQueueOfAContextThatIsGoneIsLost) {
  CUcontext users = nullptr;
  ASSERT_EQ(driver("cuCtxCreate_v2", &users, 0u, 0), 0);
  CUdeviceptr memory = 0;
  ASSERT_EQ(driver("cuMemAlloc_v2", &memory, std::size_t{65536}), 0);
  auto* const there = reinterpret_cast<char*>(memory);
  auto queue = std::move(devices_->describe(there).device->open_copy_queue(1).value());
  std::vector<Copy> all;
  for (std::size_t i = 0; i < 16; ++i) all.push_back({there + i * 4096, host() + i * 4096, 4096});
  ASSERT_TRUE(wait_for_copies(*queue, queue->copy_many(all, Direction::to_device)).ok());
  ASSERT_EQ(driver("cuCtxDestroy_v2", users), 0);

  EXPECT_TRUE(queue->copy_many(all, Direction::to_device).is(Code::device_lost));
  EXPECT_TRUE(queue->copy_and_wait(all[0], Direction::to_device).is(Code::device_lost));
}

}  // namespace
}  // namespace penstock::core
