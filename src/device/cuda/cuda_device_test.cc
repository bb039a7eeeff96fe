// SPDX-License-Identifier: Apache-2.0

// The same tests run on the real driver, where there is a GPU, and on test/fakes/fake_cuda/, as of CUDA 12 and 11.
#include "device/cuda/cuda_device.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <regex>
#include <thread>
#include <vector>

namespace penstock::core {
namespace {

using namespace cuda;

constexpr const char* kRealDriver = "libcuda.so.1";
constexpr const char* kFake12 = PENSTOCK_FAKE_CUDA;
constexpr const char* kFake11 = PENSTOCK_FAKE_CUDA_11;
constexpr std::size_t kMiB = 1 << 20;

// An application's own calls to the driver, beside the library.
class Driver {
 public:
  void open(const char* library) { library_ = ::dlopen(library, RTLD_NOW | RTLD_LOCAL); }
  bool has(const char* name) const { return ::dlsym(library_, name) != nullptr; }
  template <typename... Arguments>
  CUresult operator()(const char* name, Arguments... arguments) const {
    const auto call = reinterpret_cast<CUresult (*)(Arguments...)>(::dlsym(library_, name));
    return call != nullptr ? call(arguments...) : -1;
  }

  CUcontext create_context() const {
    CUcontext context = nullptr;
    EXPECT_EQ((*this)("cuCtxCreate_v2", &context, 0u, 0), CUDA_SUCCESS);
    return context;
  }
  void destroy_context(CUcontext context) const { EXPECT_EQ((*this)("cuCtxDestroy_v2", context), CUDA_SUCCESS); }
  CUcontext current() const {
    CUcontext context = nullptr;
    EXPECT_EQ((*this)("cuCtxGetCurrent", &context), CUDA_SUCCESS);
    return context;
  }
  void push(CUcontext context) const { EXPECT_EQ((*this)("cuCtxPushCurrent_v2", context), CUDA_SUCCESS); }
  CUcontext pop() const {
    CUcontext context = nullptr;
    EXPECT_EQ((*this)("cuCtxPopCurrent_v2", &context), CUDA_SUCCESS);
    return context;
  }
  char* allocate(std::size_t size) const {  // In the current context.
    CUdeviceptr memory = 0;
    EXPECT_EQ((*this)("cuMemAlloc_v2", &memory, size), CUDA_SUCCESS);
    return pointer(memory);
  }
  static char* pointer(CUdeviceptr address) { return reinterpret_cast<char*>(address); }
  static CUdeviceptr address(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

 private:
  void* library_ = nullptr;
};

class CudaDeviceTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string why_not;
    auto opened = CudaDeviceSet::open(&why_not, GetParam());
    if (!opened.ok() && GetParam() == kRealDriver) GTEST_SKIP() << "no GPU to test on: " << why_not;
    ASSERT_TRUE(opened.ok()) << why_not;
    devices_ = std::move(opened.value());
    driver_.open(GetParam());
  }
  void TearDown() override {
    if (devices_ == nullptr) return;
    EXPECT_EQ(driver_.current(), nullptr) << "a context was left behind";
  }

  Device& device(unsigned ordinal = 0) { return *devices_->device(ordinal).value(); }
  char* allocate(std::size_t size) { return static_cast<char*>(device().memory().allocate(size).value()); }
  std::unique_ptr<CopyQueue> open_queue(Device& owner, unsigned markers = 1) {
    auto opened = owner.open_copy_queue(markers);
    EXPECT_TRUE(opened.ok()) << describe(opened.status());
    return std::move(opened.value());
  }
  void expect_kind(const void* memory, MemoryKind kind, Device* owner, std::size_t size) {
    for (const std::size_t inside : {std::size_t{0}, size - 1}) {
      const PointerFacts facts = devices_->describe(static_cast<const char*>(memory) + inside);
      EXPECT_EQ(facts.kind, kind);
      EXPECT_EQ(facts.device, owner);
      EXPECT_EQ(facts.base, Driver::address(memory));
      EXPECT_EQ(facts.size, size);
    }
  }
  void expect_works(Device& owner, char* memory) {
    char sent[] = "weights", received[sizeof sent] = "";
    auto queue = open_queue(owner);
    ASSERT_TRUE(queue->copy_to_device(memory, sent, sizeof sent).ok());
    ASSERT_TRUE(queue->copy_to_host(received, memory, sizeof sent).ok());
    ASSERT_TRUE(queue->record(0).ok());
    ASSERT_TRUE(queue->wait(0, true).ok());
    EXPECT_STREQ(received, sent);
  }
  void expect_lost(CopyQueue& queue, char* memory) {
    char host[4] = "";
    EXPECT_TRUE(queue.copy_to_device(memory, host, 4).is(Code::device_lost));
    EXPECT_TRUE(queue.copy_to_host(host, memory, 4).is(Code::device_lost));
    EXPECT_TRUE(queue.record(0).is(Code::device_lost));
    EXPECT_TRUE(queue.reached(0).status().is(Code::device_lost));
    EXPECT_TRUE(queue.wait(0, true).is(Code::device_lost));
    EXPECT_TRUE(queue.wait(0, false).is(Code::device_lost));
  }
  void expect_round_trip(char* host, char* device_memory, std::size_t size) {
    std::mt19937_64 random(size);
    for (std::size_t i = 0; i < size; i += 8) {
      const std::uint64_t word = random();
      std::memcpy(host + i, &word, 8);
    }
    const std::vector<char> sent(host, host + size);
    auto queue = open_queue(device());
    constexpr std::size_t kPiece = 5 * kMiB + 3;
    for (std::size_t at = 0; at < size; at += kPiece) {
      ASSERT_TRUE(queue->copy_to_device(device_memory + at, host + at, std::min(kPiece, size - at)).ok());
    }
    ASSERT_TRUE(queue->record(0).ok());
    ASSERT_TRUE(queue->wait(0, false).ok());
    std::memset(host, 0, size);
    ASSERT_TRUE(queue->copy_to_host(host, device_memory, size).ok());
    ASSERT_TRUE(queue->record(0).ok());
    ASSERT_TRUE(queue->wait(0, true).ok());
    EXPECT_EQ(std::memcmp(host, sent.data(), size), 0);
  }

  std::unique_ptr<CudaDeviceSet> devices_;
  Driver driver_;
};

class FakeCudaDeviceTest : public CudaDeviceTest {};

std::string name_of_driver(const testing::TestParamInfo<const char*>& info) {
  if (info.param == kRealDriver) return "RealDriver";
  return info.param == kFake11 ? "FakeCuda11" : "FakeCuda12";
}
INSTANTIATE_TEST_SUITE_P(On, CudaDeviceTest, testing::Values(kRealDriver, kFake12, kFake11), name_of_driver);
INSTANTIATE_TEST_SUITE_P(On, FakeCudaDeviceTest, testing::Values(kFake12, kFake11), name_of_driver);

TEST_P(CudaDeviceTest, GpusAreNamedByOrdinal) {
  ASSERT_GE(devices_->count(), 1u);
  for (unsigned ordinal = 0; ordinal < devices_->count(); ++ordinal) {
    const DeviceFacts& facts = device(ordinal).facts();
    EXPECT_EQ(facts.ordinal, static_cast<int>(ordinal));
    EXPECT_NE(facts.name[0], '\0');
    EXPECT_EQ(facts.is_pinned_for_modules, std::strstr(facts.name, "GeForce") == nullptr) << facts.name;
    EXPECT_TRUE(std::regex_match(facts.pci_address, std::regex("[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\\.[0-7]")));
    EXPECT_NE(std::memcmp(facts.uuid, DeviceFacts{}.uuid, 16), 0);
    EXPECT_GE(facts.memory_bytes, 512 * kMiB);
    EXPECT_FALSE(facts.stand_in);
    EXPECT_EQ(&device(ordinal), &device(ordinal));
  }
  EXPECT_TRUE(devices_->device(devices_->count()).status().is(Code::no_device));
}

TEST_P(CudaDeviceTest, MemoryOfThePrimaryContextIsKnownByItsKind) {
  const auto in_primary = [&](const char* call, auto... arguments) {
    CUdeviceptr memory = 0;
    driver_.push(static_cast<CudaDevice&>(device()).context().handle);
    EXPECT_EQ(driver_(call, &memory, arguments...), CUDA_SUCCESS) << call;
    driver_.pop();
    return Driver::pointer(memory);
  };
  char* const plain = allocate(1000);
  char* const managed = in_primary("cuMemAllocManaged", std::size_t{5000}, 1u);
  char* const pinned = in_primary("cuMemHostAlloc", std::size_t{4096}, 0u);
  char* const stream_ordered = in_primary("cuMemAllocAsync", std::size_t{3000}, in_primary("cuStreamCreate", 1u));

  std::thread([&] {  // A thread without a context, as many file-reading threads are.
    expect_kind(plain, MemoryKind::device, &device(), 1000);
    expect_kind(managed, MemoryKind::managed, &device(), 5000);
    expect_kind(pinned, MemoryKind::registered_host, nullptr, 4096);
    expect_kind(stream_ordered, MemoryKind::device, &device(), 3000);
    expect_works(device(), managed);
    expect_works(device(), stream_ordered);
  })
      .join();

  device().memory().release(plain);
  EXPECT_EQ(devices_->describe(plain).kind, MemoryKind::host);
  device().memory().release(managed);
  device().memory().release(stream_ordered);
  EXPECT_EQ(driver_("cuMemFreeHost", Driver::address(pinned)), CUDA_SUCCESS);
}

TEST_P(CudaDeviceTest, MappedMemoryHasNoContextAndIsKnownByItsReservation) {
  struct Properties {
    int type = 1, handle_types = 0, location_type = 1, location = 0;
    void* unused = nullptr;
    unsigned char flags[8] = {};
  } properties;
  const int access[] = {1, 0, 3};
  CUdeviceptr memory = 0;
  unsigned long long handle = 0;
  ASSERT_EQ(driver_("cuMemAddressReserve", &memory, 8 * kMiB, std::size_t{0}, CUdeviceptr{0}, 0ull), CUDA_SUCCESS);
  EXPECT_EQ(devices_->describe(Driver::pointer(memory)).kind, MemoryKind::host);
  ASSERT_EQ(driver_("cuMemCreate", &handle, 2 * kMiB, &properties, 0ull), CUDA_SUCCESS);
  ASSERT_EQ(driver_("cuMemMap", memory, 2 * kMiB, std::size_t{0}, handle, 0ull), CUDA_SUCCESS);
  ASSERT_EQ(driver_("cuMemSetAccess", memory, 2 * kMiB, &access[0], std::size_t{1}), CUDA_SUCCESS);

  const PointerFacts facts = devices_->describe(Driver::pointer(memory) + 2 * kMiB - 1);

  EXPECT_EQ(facts.kind, MemoryKind::device);
  EXPECT_EQ(facts.device, &device());
  EXPECT_EQ(facts.base, memory);
  EXPECT_EQ(facts.size, 8 * kMiB);
  EXPECT_EQ(devices_->describe(Driver::pointer(memory) + 2 * kMiB).kind, MemoryKind::host);
  expect_works(*facts.device, Driver::pointer(memory));
}

TEST_P(CudaDeviceTest, WhatTheDriverDoesNotKnowIsHostMemory) {
  int on_stack = 0;
  const auto on_heap = std::make_unique<int>(0);
  const void* const addresses[] = {&on_stack, on_heap.get(), nullptr, Driver::pointer(0x10),
                                   Driver::pointer(~0ull << 31)};
  for (const void* address : addresses) {
    const PointerFacts facts = devices_->describe(address);
    EXPECT_EQ(facts.kind, MemoryKind::host);
    EXPECT_EQ(facts.device, nullptr);
    EXPECT_EQ(facts.size, 0u);
  }
}

TEST_P(CudaDeviceTest, HostMemoryIsRegisteredOnceAndForgottenAfterwards) {
  std::vector<char> memory(kMiB);
  ASSERT_TRUE(device().register_host(memory.data(), memory.size()).ok());
  expect_kind(memory.data(), MemoryKind::registered_host, nullptr, memory.size());
  EXPECT_TRUE(device().register_host(memory.data(), memory.size()).is(Code::already_registered));
  device().unregister_host(memory.data());
  EXPECT_EQ(devices_->describe(memory.data()).kind, MemoryKind::host);
}

TEST_P(CudaDeviceTest, MoreMemoryThanTheGpuHasIsRefused) {
  const Result<void*> refused = device().memory().allocate(std::size_t{1} << 50);
  EXPECT_EQ(refused.status().domain, Domain::driver);
  EXPECT_EQ(refused.status().code, 2);
}

TEST_P(CudaDeviceTest, MemoryOfUsersContextsComesWithDevicesOfTheirOwn) {
  CUcontext contexts[2];
  char* memory[2];
  PointerFacts facts[2];
  for (int i = 0; i < 2; ++i) {
    contexts[i] = driver_.create_context();
    memory[i] = driver_.allocate(4096);
    driver_.pop();
    facts[i] = devices_->describe(memory[i]);
    ASSERT_NE(facts[i].device, nullptr);
    EXPECT_EQ(static_cast<CudaDevice*>(facts[i].device)->context().handle, contexts[i]);
    EXPECT_EQ(facts[i].device->facts().ordinal, 0);
    expect_kind(memory[i], MemoryKind::device, facts[i].device, 4096);
    expect_works(*facts[i].device, memory[i]);
  }
  EXPECT_NE(facts[0].device, facts[1].device);
  EXPECT_NE(facts[0].device, &device());

  std::vector<char> host(4096);
  ASSERT_TRUE(facts[0].device->register_host(host.data(), host.size()).ok());
  for (const CUcontext context : contexts) driver_.destroy_context(context);
  EXPECT_EQ(devices_->describe(host.data()).kind, MemoryKind::registered_host) << "it went with the user's context";
  facts[0].device->unregister_host(host.data());
  EXPECT_EQ(devices_->describe(memory[0]).kind, MemoryKind::host);
}

TEST_P(CudaDeviceTest, MemoryOfTheSecondGpuComesWithItsDevice) {
  if (devices_->count() < 2) GTEST_SKIP() << "this machine has one GPU";
  auto* const memory = static_cast<char*>(device(1).memory().allocate(4096).value());
  expect_kind(memory, MemoryKind::device, &device(1), 4096);
  expect_works(device(1), memory);
  device(1).memory().release(memory);
}

TEST_P(CudaDeviceTest, BytesSurviveTheRoundTripThroughPageableMemory) {
  constexpr std::size_t kSize = 64 * kMiB;
  std::vector<char> host(kSize);
  char* const memory = allocate(kSize);
  expect_round_trip(host.data(), memory, kSize);
  device().memory().release(memory);
}

TEST_P(CudaDeviceTest, BytesSurviveTheRoundTripThroughRegisteredMemory) {
  constexpr std::size_t kSize = 64 * kMiB;
  std::vector<char> host(kSize);
  char* const memory = allocate(kSize);
  ASSERT_TRUE(device().register_host(host.data(), kSize).ok());
  expect_round_trip(host.data(), memory, kSize);
  device().unregister_host(host.data());
  device().memory().release(memory);
}

TEST_P(CudaDeviceTest, BytesAreCopiedWithinTheDevicesMemory) {
  char received[sizeof "weights"] = "";
  char* const memory = allocate(8192);
  expect_works(device(), memory);  // This leaves a word there.
  auto queue = open_queue(device());

  ASSERT_TRUE(queue->copy_on_device(memory + 4096, memory, sizeof received).ok());

  ASSERT_TRUE(queue->copy_to_host(received, memory + 4096, sizeof received).ok());
  ASSERT_TRUE(queue->record(0).ok() && queue->wait(0, true).ok());
  EXPECT_STREQ(received, "weights");
  device().memory().release(memory);
}

TEST_P(CudaDeviceTest, AMarkerIsReachedOnceTheCopiesBeforeItAreDone) {
  constexpr std::size_t kSize = 64 * kMiB;
  std::vector<char> host(kSize, 'x');
  char* const memory = allocate(kSize);
  ASSERT_TRUE(device().register_host(host.data(), kSize).ok());
  auto queue = open_queue(device(), 2);
  EXPECT_TRUE(queue->reached(0).value()) << "nothing was queued before it";

  for (int i = 0; i < 4; ++i) ASSERT_TRUE(queue->copy_to_device(memory, host.data(), kSize).ok());
  ASSERT_TRUE(queue->record(0).ok());
  EXPECT_FALSE(queue->reached(0).value());
  EXPECT_TRUE(queue->reached(1).value());
  while (!queue->reached(0).value()) continue;
  ASSERT_TRUE(queue->copy_to_device(memory, host.data(), kSize).ok());
  ASSERT_TRUE(queue->record(1).ok());
  EXPECT_TRUE(queue->reached(0).value()) << "it does not speak of later copies";
  ASSERT_TRUE(queue->record(0).ok());
  ASSERT_TRUE(queue->wait(0, false).ok());
  EXPECT_TRUE(queue->reached(1).value());
  device().unregister_host(host.data());
  device().memory().release(memory);
}

TEST_P(CudaDeviceTest, ClosingAQueueWaitsForItsCopies) {
  char* const memory = allocate(64 * kMiB);
  std::vector<char> sent(64 * kMiB, 'x'), received(64 * kMiB);
  ASSERT_TRUE(device().register_host(received.data(), received.size()).ok());
  auto queue = open_queue(device());
  ASSERT_TRUE(queue->copy_to_device(memory, sent.data(), sent.size()).ok());
  ASSERT_TRUE(queue->copy_to_host(received.data(), memory, received.size()).ok());
  queue.reset();
  EXPECT_EQ(received, sent);
  device().unregister_host(received.data());
  device().memory().release(memory);
}

TEST_P(CudaDeviceTest, TheCallersContextIsLeftAlone) {
  char* const memory = allocate(4096);
  const CUcontext users = driver_.create_context();
  expect_works(device(), memory);
  EXPECT_EQ(devices_->describe(memory).device, &device());
  std::vector<char> host(4096);
  ASSERT_TRUE(device().register_host(host.data(), 4096).ok());
  device().unregister_host(host.data());
  EXPECT_EQ(driver_.current(), users);

  std::thread([&] { driver_.destroy_context(users); }).join();  // The destroyed context stays current on this thread.
  expect_works(device(), memory);
  EXPECT_EQ(devices_->describe(memory).device, &device());
  EXPECT_EQ(driver_.pop(), users);
  device().memory().release(memory);
}

TEST_P(CudaDeviceTest, ManyThreadsMeetNewContextsAtOnce) {
  constexpr int kContexts = 4;
  CUcontext contexts[kContexts];
  char* memory[kContexts];
  for (int i = 0; i < kContexts; ++i) {
    contexts[i] = driver_.create_context();
    memory[i] = driver_.allocate(4096);
    driver_.pop();
  }
  std::vector<std::array<Device*, kContexts>> seen(8);
  std::vector<std::thread> threads;
  for (auto& mine : seen) {
    threads.emplace_back([&] {
      for (int i = 0; i < kContexts; ++i) mine[i] = devices_->describe(memory[i]).device;
      for (int round = 0; round < 20; ++round) {
        char* const own = static_cast<char*>(mine[round % kContexts]->memory().allocate(4096).value());
        expect_works(*devices_->describe(own).device, own);
        mine[round % kContexts]->memory().release(own);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& each : seen) EXPECT_EQ(each, seen[0]);
  for (const CUcontext context : contexts) driver_.destroy_context(context);
}

TEST_P(CudaDeviceTest, AQueueWhoseContextWasDestroyedIsLostAndCanStillBeClosed) {
  const CUcontext users = driver_.create_context();
  char* const memory = driver_.allocate(4096);
  driver_.pop();
  Device& lost = *devices_->describe(memory).device;
  auto queue = open_queue(lost);
  ASSERT_TRUE(queue->record(0).ok());
  driver_.destroy_context(users);

  expect_lost(*queue, memory);
  EXPECT_TRUE(lost.open_copy_queue(1).status().is(Code::device_lost));
  EXPECT_TRUE(lost.memory().allocate(1).status().is(Code::device_lost));
  queue.reset();
}

// The dangerous case: the driver has given the dead context's memory to another one.
TEST_P(CudaDeviceTest, AContextAtTheAddressOfADestroyedOneIsAnother) {
  if (!driver_.has("cuCtxGetId")) GTEST_SKIP() << "drivers before CUDA 12.0 cannot tell them apart";
  const CUcontext users = driver_.create_context();
  char* memory = driver_.allocate(4096);
  driver_.pop();
  Device& lost = *devices_->describe(memory).device;
  auto queue = open_queue(lost);
  driver_.destroy_context(users);
  std::vector<CUcontext> later;
  while (later.empty() || (later.back() != users && later.size() < 6)) later.push_back(driver_.create_context());
  memory = driver_.allocate(4096);

  Device& next = *devices_->describe(memory).device;
  EXPECT_NE(&next, &lost);
  expect_works(next, memory);
  expect_lost(*queue, memory);
  queue.reset();
  for (; !later.empty(); later.pop_back()) driver_.destroy_context(later.back());
}

TEST_P(CudaDeviceTest, APrimaryContextThatWasResetIsReplaced) {
  if (!driver_.has("cuCtxGetId")) GTEST_SKIP() << "drivers before CUDA 12.0 cannot tell them apart";
  Device& lost = device();
  auto queue = open_queue(lost);
  ASSERT_EQ(driver_("cuDevicePrimaryCtxReset_v2", 0), CUDA_SUCCESS);

  char* const memory = allocate(4096);
  EXPECT_NE(&device(), &lost);
  expect_lost(*queue, memory);
  queue.reset();
  expect_kind(memory, MemoryKind::device, &device(), 4096);
  expect_works(device(), memory);
  device().memory().release(memory);
}

TEST_P(CudaDeviceTest, AGraphCaptureOfTheUsersIsNotSpoiled) {
  CUstream stream = nullptr;
  void* graph = nullptr;
  std::vector<char> host(4096);
  driver_.push(static_cast<CudaDevice&>(device()).context().handle);
  ASSERT_EQ(driver_("cuStreamCreate", &stream, 1u), CUDA_SUCCESS);
  driver_.pop();
  ASSERT_EQ(driver_("cuStreamBeginCapture_v2", stream, 0), CUDA_SUCCESS);
  std::thread([&] {
    char* const memory = allocate(4096);
    expect_works(device(), memory);
    EXPECT_TRUE(device().register_host(host.data(), host.size()).ok());
    device().unregister_host(host.data());
    EXPECT_TRUE(device().pages()->wait_for_kernels().ok());
    device().memory().release(memory);
  }).join();
  EXPECT_EQ(driver_("cuStreamEndCapture", stream, &graph), CUDA_SUCCESS);
}

TEST_P(FakeCudaDeviceTest, MoreContextsThanThereAreSlotsFallBackToThePrimaryOne) {
  std::vector<Device*> seen;
  for (int i = 0; i < 200; ++i) {
    const CUcontext users = driver_.create_context();
    char* const memory = driver_.allocate(4096);
    driver_.pop();
    seen.push_back(devices_->describe(memory).device);
    expect_works(*seen.back(), memory);
    driver_.destroy_context(users);
  }
  EXPECT_NE(seen.front(), &device());
  EXPECT_EQ(seen.back() == &device(), driver_.has("cuCtxGetId"));
  EXPECT_EQ(device(1).facts().ordinal, 1) << "no slot was left for the second GPU";
}

TEST_P(FakeCudaDeviceTest, WhenTheDriverHasShutDownNothingCrashes) {
  char* const memory = allocate(4096);
  auto queue = open_queue(device());
  Device& survivor = device();
  EXPECT_EXIT(
      {
        driver_("fake_cuda_shut_down");
        expect_lost(*queue, memory);
        EXPECT_EQ(devices_->describe(memory).kind, MemoryKind::host);
        EXPECT_FALSE(devices_->device(0).ok());
        survivor.memory().release(memory);
        queue.reset();
        devices_.reset();
        ::_exit(HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
  device().memory().release(memory);
}

}  // namespace
}  // namespace penstock::core
