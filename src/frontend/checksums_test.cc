// SPDX-License-Identifier: Apache-2.0

// Checksums of memory of every kind: by the stand-in for a GPU, by test/fakes/fake_cuda, and by the CPU.
#include "frontend/checksums.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include "checksum/crc32c.h"
#include "checksum/hash64.h"
#include "device/cuda/cuda_device.h"
#include "device/host/host_device.h"

namespace penstock::core {
namespace {

constexpr std::size_t kRoom = 3u << 20;

std::vector<std::byte> noise() {
  std::vector<std::byte> bytes(kRoom);
  std::mt19937 random(11);
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random()); });
  return bytes;
}

// The expected checksums, by the CPU.
std::vector<std::uint32_t> expected(std::span<const std::byte> bytes, std::size_t piece_bytes) {
  std::vector<std::uint32_t> sums;
  for (std::size_t at = 0; at < bytes.size(); at += piece_bytes) {
    sums.push_back(crc32c(bytes.subspan(at, std::min(piece_bytes, bytes.size() - at))));
  }
  return sums;
}

class ChecksumsFixture : public testing::Test {
 protected:
  void use(DeviceSet& devices) {
    checksums_ = std::make_unique<Checksums>(devices);
    device_ = devices.device(0).value();
    memory_ = static_cast<std::byte*>(device_->memory().allocate(kRoom).value());
    auto queue = std::move(device_->open_copy_queue(1).value());
    ASSERT_TRUE(wait_for_copies(*queue, queue->copy_to_device(memory_, bytes_.data(), kRoom)).ok());
  }
  void TearDown() override {
    checksums_.reset();
    if (device_ != nullptr) device_->memory().release(memory_);
  }
  void expect_those_of_the_bytes(std::size_t at, std::size_t size, std::size_t piece_bytes) {
    const std::vector<std::uint32_t> wanted = expected(std::span(bytes_).subspan(at, size), piece_bytes);
    std::vector<std::uint32_t> sums(wanted.size(), 7);
    const Status status = checksums_->make(memory_ + at, size, piece_bytes, sums);
    ASSERT_TRUE(status.ok()) << describe(status);
    EXPECT_EQ(sums, wanted) << size << " bytes from " << at << " in pieces of " << piece_bytes;
  }
  // Expects the checksums of pieces here and there, in the memory and in the host's, in one call.
  void expect_those_of_scattered_pieces() {
    std::mt19937 random(3);
    std::vector<iovec> pieces;
    std::vector<std::uint32_t> wanted;
    for (int i = 0; i < 300; ++i) {
      const std::size_t size = i % 7 == 0 ? 0 : i % 5 == 0 ? random() % 200'000 : 1 + random() % 20 * 4096;
      const std::size_t at = random() % (kRoom - size);
      const bool is_host = i % 11 == 0;
      const std::byte* const memory = is_host ? bytes_.data() : memory_;
      pieces.push_back({const_cast<std::byte*>(memory) + at, size});
      wanted.push_back(crc32c(std::span(bytes_).subspan(at, size)));
    }
    std::vector<std::uint32_t> sums(pieces.size(), 7);

    const Status status = checksums_->make(pieces, sums);

    ASSERT_TRUE(status.ok()) << describe(status);
    EXPECT_EQ(sums, wanted);
  }
  void expect_all_right() {
    for (const std::size_t at : {0, 3, 16}) {
      for (const std::size_t size : {1, 65535, 65536, 65537, 1000003, 3000000}) {
        for (const std::size_t piece : {1000, 65536, 100000, 1 << 20, 16 << 20}) {
          if (size / piece < 100) expect_those_of_the_bytes(at, size, piece);
        }
      }
    }
  }

  HostDeviceSet stand_ins_;
  const std::vector<std::byte> bytes_ = noise();
  std::unique_ptr<Checksums> checksums_;
  Device* device_ = nullptr;
  std::byte* memory_ = nullptr;
};

TEST_F(ChecksumsFixture, ADeviceThatMakesNoneHasItsBytesCopied) {
  use(stand_ins_);
  expect_all_right();
}

TEST_F(ChecksumsFixture, PiecesMayLieAnywhere) {
  use(stand_ins_);
  expect_those_of_scattered_pieces();
}

TEST_F(ChecksumsFixture, HostMemoryIsLookedAtWhereItIs) {
  Checksums checksums(stand_ins_);
  std::vector<std::uint32_t> sums(3);
  ASSERT_TRUE(checksums.make(bytes_.data() + 1, 2'500'000, 1 << 20, sums).ok());
  EXPECT_EQ(sums, expected(std::span(bytes_).subspan(1, 2'500'000), 1 << 20));
}

class ChecksumsOfAGpu : public ChecksumsFixture {
 protected:
  void SetUp() override {
    std::string why_not;
    devices_ = std::move(CudaDeviceSet::open(&why_not, PENSTOCK_FAKE_CUDA).value());
    use(*devices_);
  }
  void TearDown() override {
    ChecksumsFixture::TearDown();
    devices_.reset();
  }
  template <typename... Arguments>
  static int driver(const char* name, Arguments... arguments) {
    void* const library = ::dlopen(PENSTOCK_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<int (*)(Arguments...)>(::dlsym(library, name))(arguments...);
  }
  std::unique_ptr<CudaDeviceSet> devices_;
};

TEST_F(ChecksumsOfAGpu, OfEverySizeAreMadeByTheGpu) {
  const int before = driver("fake_cuda_checksums");
  expect_all_right();
  EXPECT_GT(driver("fake_cuda_checksums"), before);
}

TEST_F(ChecksumsOfAGpu, ManyPiecesTakeOneLaunch) {
  const int before = driver("fake_cuda_checksums");
  expect_those_of_scattered_pieces();
  EXPECT_EQ(driver("fake_cuda_checksums"), before + 1);
}

// A paged cache has an allocation for each layer.
TEST_F(ChecksumsOfAGpu, PiecesThatGoRoundAFewAllocationsAskForEachOnce) {
  std::vector<std::byte*> layers = {memory_};
  while (layers.size() < 8) layers.push_back(static_cast<std::byte*>(device_->memory().allocate(64 << 10).value()));
  std::vector<iovec> pieces;
  for (std::size_t block = 0; block < 16; ++block) {
    for (std::byte* const layer : layers) pieces.push_back({layer + block * 4096, 4096});
  }
  std::vector<std::uint32_t> sums(pieces.size());
  const int before = driver("fake_cuda_lookups");

  ASSERT_TRUE(checksums_->make(pieces, sums).ok());

  EXPECT_EQ(driver("fake_cuda_lookups") - before, 8);
  EXPECT_EQ(sums[8], crc32c(std::span(bytes_).subspan(4096, 4096)));
  for (std::byte* const layer : std::span(layers).subspan(1)) device_->memory().release(layer);
}

TEST_F(ChecksumsOfAGpu, MemoryThatEndsTooSoonFailsAndNoKernelReadsIt) {
  const int before = driver("fake_cuda_checksums");
  std::uint32_t sum = 0;
  EXPECT_FALSE(checksums_->make(memory_ + kRoom - 65536, 131072, 131072, {&sum, 1}).ok());
  EXPECT_EQ(driver("fake_cuda_checksums"), before);
}

class ChecksumsOnAStream : public ChecksumsOfAGpu {
 protected:
  void SetUp() override {
    ChecksumsOfAGpu::SetUp();
    EXPECT_TRUE(device_->run_inside([&] { driver("cuStreamCreate", &stream_, 1u); }).ok());
  }
  // Queues the copy of other bytes to all of the memory.
  void overwrite() {
    ASSERT_TRUE(
        device_
            ->run_inside([&] {
              const auto to = reinterpret_cast<cuda::CUdeviceptr>(memory_);
              ASSERT_EQ(driver("cuMemcpyHtoDAsync_v2", to, static_cast<const void*>(zeros_.data()), kRoom, stream_), 0);
            })
            .ok());
  }
  // Expects those of memory and of the host's, with hashes and without.
  void expect_hashes() {
    const auto part = std::span(bytes_).subspan(5, 1'000'000);
    const std::vector<iovec> pieces = {{memory_ + 5, part.size()}, {const_cast<std::byte*>(part.data()), part.size()}};
    const Result<std::uint64_t> both = checksums_->begin(pieces, stream_, true);
    const Result<std::uint64_t> plain = checksums_->begin(pieces, stream_);
    std::vector<std::uint32_t> sums(2), plain_sums(2);
    std::vector<std::uint64_t> hashes(2), none(2);
    ASSERT_TRUE(both.ok() && plain.ok()) << describe(both.status());
    ASSERT_TRUE(checksums_->end(*both, sums, hashes).ok());
    ASSERT_TRUE(checksums_->end(*plain, plain_sums, none).ok());
    EXPECT_EQ(sums, std::vector<std::uint32_t>(2, crc32c(part)));
    EXPECT_EQ(plain_sums, sums);
    EXPECT_EQ(hashes, std::vector<std::uint64_t>(2, fingerprint(part).hash64));
    EXPECT_EQ(none, std::vector<std::uint64_t>(2));
  }
  std::vector<iovec> halves() const { return {{memory_, kRoom / 2}, {memory_ + kRoom / 2, kRoom - kRoom / 2}}; }

  cuda::CUstream stream_ = nullptr;
  const std::vector<std::byte> zeros_ = std::vector<std::byte>(kRoom);
};

TEST_F(ChecksumsOnAStream, AreThoseOfTheBytesBeforeItsLaterWork) {
  const Result<std::uint64_t> before = checksums_->begin(halves(), stream_);
  overwrite();
  const Result<std::uint64_t> after = checksums_->begin(halves(), stream_);

  std::vector<std::uint32_t> sums(2), sums_after(2);
  ASSERT_TRUE(before.ok() && after.ok());
  ASSERT_TRUE(checksums_->end(*after, sums_after).ok());
  ASSERT_TRUE(checksums_->end(*before, sums).ok());
  EXPECT_EQ(sums, expected(bytes_, kRoom / 2));
  EXPECT_EQ(sums_after, expected(zeros_, kRoom / 2));
}

TEST_F(ChecksumsOnAStream, HaveHashesBesideThemIfTheseAreAskedFor) {
  const int before = driver("fake_cuda_checksums");
  expect_hashes();
  EXPECT_EQ(driver("fake_cuda_checksums"), before + 3);  // CRC32C twice, and the hashes.
}

TEST_F(ChecksumsOnAStream, HaveHashesAlsoWhereTheGpuMakesNone) {
  driver("fake_cuda_refuse_modules", 1);
  expect_hashes();
  driver("fake_cuda_refuse_modules", 0);
}

TEST_F(ChecksumsOnAStream, WaitForItWhereTheGpuMakesNone) {
  driver("fake_cuda_refuse_modules", 1);
  overwrite();
  const Result<std::uint64_t> begun = checksums_->begin(halves(), stream_);
  driver("fake_cuda_refuse_modules", 0);

  std::vector<std::uint32_t> sums(2);
  ASSERT_TRUE(begun.ok()) << describe(begun.status());
  ASSERT_TRUE(checksums_->end(*begun, sums).ok());
  EXPECT_EQ(sums, expected(zeros_, kRoom / 2));
}

TEST_F(ChecksumsOnAStream, AreRefusedWhileItIsCaptured) {
  ASSERT_TRUE(device_->run_inside([&] { driver("cuStreamBeginCapture_v2", stream_, 0); }).ok());

  EXPECT_TRUE(checksums_->begin(halves(), stream_).status().is(Code::unsupported));

  void* graph = nullptr;
  int ended = -1;
  ASSERT_TRUE(device_->run_inside([&] { ended = driver("cuStreamEndCapture", stream_, &graph); }).ok());
  EXPECT_EQ(ended, 0) << "the capture was spoiled";
}

TEST_F(ChecksumsOnAStream, MayBeLeftUnread) {
  ASSERT_TRUE(checksums_->begin(halves(), stream_).ok());
  EXPECT_TRUE(checksums_->end(12345, {}).is(Code::invalid_argument));
}

TEST_F(ChecksumsOfAGpu, ThreadsDoNotDisturbEachOther) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      for (int turn = 0; turn < 5; ++turn) expect_those_of_the_bytes(i * 1000, 1'000'000, 300'000);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace penstock::core
