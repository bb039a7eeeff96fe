// SPDX-License-Identifier: Apache-2.0

// Checksums by the GPU against those of the CPU, on the real driver where there is a GPU, and on test/fakes/fake_cuda.
#include "device/cuda/checksum_kernel.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "checksum/crc32c.h"
#include "checksum/hash64.h"
#include "device/cuda/cuda_device.h"
#include "device/pinned_block.h"

namespace penstock::core {
namespace {

constexpr const char* kRealDriver = "libcuda.so.1";
constexpr const char* kFake12 = PENSTOCK_FAKE_CUDA;
constexpr const char* kFake11 = PENSTOCK_FAKE_CUDA_11;
constexpr std::size_t kBlockBytes = ChecksumBlock::kBytesMax;
constexpr std::size_t kRoom = 41 * kBlockBytes;

class ChecksumKernelTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string why_not;
    auto opened = CudaDeviceSet::open(&why_not, GetParam());
    if (!opened.ok() && GetParam() == kRealDriver) GTEST_SKIP() << "no GPU to test on: " << why_not;
    ASSERT_TRUE(opened.ok()) << why_not;
    devices_ = std::move(opened.value());
    device_ = devices_->device(0).value();
    memory_ = static_cast<std::byte*>(device_->memory().allocate(kRoom).value());
    pinned_ = std::move(PinnedBlock::open(device_, 1u << 20).value());
    queue_ = std::move(device_->open_copy_queue(1).value());
  }
  void TearDown() override {
    if (devices_ == nullptr) return;
    queue_.reset();
    device_->memory().release(memory_);
  }

  void fill(const std::vector<std::byte>& bytes) {
    ASSERT_TRUE(wait_for_copies(*queue_, queue_->copy_to_device(memory_, bytes.data(), bytes.size())).ok());
  }
  std::span<ChecksumBlock> blocks(std::size_t count) const {
    return {reinterpret_cast<ChecksumBlock*>(pinned_.data()), count};
  }
  std::uint32_t sum_of(std::size_t at, std::uint32_t bytes) const {
    blocks(1)[0] = {memory_ + at, bytes, 1};
    EXPECT_TRUE(wait_for_copies(*queue_, queue_->checksum(blocks(1), {}, false)).ok());
    EXPECT_EQ(blocks(1)[0].hash, 0u);
    return blocks(1)[0].sum;
  }
  bool refuse_modules(bool refused) const {
    void* const driver = ::dlopen(GetParam(), RTLD_NOW | RTLD_LOCAL);
    const auto call = reinterpret_cast<int (*)(int)>(::dlsym(driver, "fake_cuda_refuse_modules"));
    return call != nullptr && call(refused) == 0;
  }

  std::unique_ptr<CudaDeviceSet> devices_;
  Device* device_ = nullptr;
  std::byte* memory_ = nullptr;
  PinnedBlock pinned_;
  std::unique_ptr<CopyQueue> queue_;
};

// The bytes around a block are not zero, so that a kernel that included them would fail.
TEST_P(ChecksumKernelTest, OfBlocksOfEverySizeAtEveryAlignmentIsTheOneOfTheCpu) {
  std::vector<std::byte> bytes(kRoom);
  std::mt19937 random(5);
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random()); });
  fill(bytes);
  std::vector<std::pair<std::size_t, std::uint32_t>> where;
  for (const std::size_t at : {0, 1, 2, 4, 8, 15, 16, 4096, 65535}) {
    for (const std::uint32_t size : {1,    2,    15,    16,    17,    31,    33,    4079,  4080,  4095,  4096, 4097,
                                     4112, 6144, 16384, 18432, 20481, 61440, 61441, 65519, 65520, 65535, 65536}) {
      where.emplace_back(at + where.size() % 40 * kBlockBytes, size);
    }
  }
  for (std::size_t i = 0; i < where.size(); ++i)
    blocks(where.size())[i] = {memory_ + where[i].first, where[i].second, 1, 1};

  ASSERT_TRUE(wait_for_copies(*queue_, queue_->checksum(blocks(where.size()), {}, true)).ok());

  for (std::size_t i = 0; i < where.size(); ++i) {
    const auto [at, size] = where[i];
    const std::span<const std::byte> block(bytes.data() + at, size);
    ASSERT_EQ(blocks(where.size())[i].sum, crc32c(block)) << size << " bytes from " << at;
    ASSERT_EQ(blocks(where.size())[i].hash, Hash64::of_block(block)) << size << " bytes from " << at;
  }
}

TEST_P(ChecksumKernelTest, OneBitAnywhereChangesThem) {
  const std::vector<std::byte> zeros(kBlockBytes);
  fill(zeros);
  EXPECT_EQ(sum_of(0, kBlockBytes), crc32c(zeros));

  for (std::size_t at = 3; at < kBlockBytes; at += 4099) {
    std::vector<std::byte> one = zeros;
    one[at] = std::byte{0x10};
    fill(one);
    EXPECT_EQ(sum_of(0, kBlockBytes), crc32c(one)) << at;
  }
}

TEST_P(ChecksumKernelTest, ADriverThatLoadsNoKernelSaysSo) {
  if (!refuse_modules(true)) GTEST_SKIP() << "only the stand-in for the driver can refuse";
  std::string why_not;
  auto others = std::move(CudaDeviceSet::open(&why_not, GetParam()).value());
  auto queue = std::move(others->device(0).value()->open_copy_queue(1).value());

  const Status queued = queue->checksum(blocks(1), {}, false);

  refuse_modules(false);
  EXPECT_TRUE(queued.is(Code::unsupported)) << describe(queued);
}

std::string name_of(const testing::TestParamInfo<const char*>& info) {
  return info.param == kRealDriver ? "gpu" : info.param == kFake11 ? "fake_11" : "fake_12";
}
INSTANTIATE_TEST_SUITE_P(Drivers, ChecksumKernelTest, testing::Values(kRealDriver, kFake12, kFake11), name_of);

}  // namespace
}  // namespace penstock::core
