// SPDX-License-Identifier: Apache-2.0

// The things that are opened before the first request, by the CUDA driver without a GPU (test/fakes/fake_cuda/).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "base/unique_fd.h"
#include "device/cuda/cuda_device.h"
#include "fakes/noise.h"
#include "fakes/test_config.h"
#include "frontend/frontends.h"
#include "frontend/transfer.h"
#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

constexpr std::size_t kSize = 4096;

// With each list of paths that device memory may go by.
class WarmUpTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string why_not;
    session_ = std::make_unique<Session>(test_config({{"workers", "2"}, {"paths", GetParam()}}),
                                         std::make_unique<PosixStorage>(true),
                                         std::move(CudaDeviceSet::open(&why_not, PENSTOCK_FAKE_CUDA).value()));
    frontends_ = std::make_unique<Frontends>(*session_);
    ASSERT_TRUE(api_.load(PENSTOCK_FAKE_CUDA, &why_not)) << why_not;
    device_ = session_->devices().device(0).value();
  }
  void TearDown() override {
    cuda::CUcontext left = nullptr;
    while (entered_-- > 0) (void)api_.cuCtxPopCurrent(&left);
  }

  void enter() {
    ASSERT_EQ(api_.cuCtxPushCurrent(static_cast<CudaDevice*>(device_)->context().handle), cuda::CUDA_SUCCESS);
    ++entered_;
  }
  std::uint64_t pinned() const { return session_->engine().bounce_bytes(); }
  // Reads a new file in memory; the bytes are compared.
  Outcome read(const std::string& content) {
    const UniqueFd fd(::memfd_create("warm_up_test", MFD_CLOEXEC));
    EXPECT_EQ(::pwrite(fd.get(), content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
    const std::uint64_t file = session_->register_file(fd.get()).value();
    const RawRequest request{.file = file, .base = memory_, .size = content.size()};
    const Outcome outcome = transfer(*session_, request);
    EXPECT_TRUE(session_->deregister_file(file).ok());
    return outcome;
  }
  std::string in_memory(std::size_t size) {
    std::string bytes(size, '\0');
    const auto copies = std::move(*device_->open_copy_queue(1));
    EXPECT_TRUE(copies->copy_and_wait({memory_, bytes.data(), size}, Direction::to_host).ok());
    return bytes;
  }

  cuda::CudaApi api_ = {};
  std::unique_ptr<Session> session_;
  std::unique_ptr<Frontends> frontends_;
  Device* device_ = nullptr;
  void* memory_ = nullptr;
  int entered_ = 0;
};

TEST_P(WarmUpTest, WhatTheFirstReadOfTheCurrentDeviceNeedsIsOpen) {
  enter();
  memory_ = device_->memory().allocate(kSize).value();
  const std::string content = noise(kSize, 1);

  frontends_->warm_up();
  const std::uint64_t before = pinned();
  const Outcome outcome = read(content);

  EXPECT_GT(before, 0u);
  EXPECT_EQ(pinned(), before);
  EXPECT_EQ(outcome.report.bytes, kSize) << describe(outcome.status);
  EXPECT_TRUE(in_memory(kSize) == content);
  device_->memory().release(memory_);
}

TEST_P(WarmUpTest, WithoutACurrentDeviceNothingIs) {
  frontends_->warm_up();

  EXPECT_EQ(session_->devices().current(), nullptr);
  EXPECT_EQ(pinned(), 0u);
}

TEST_P(WarmUpTest, AgainNothingMoreIs) {
  enter();
  frontends_->warm_up();
  const std::uint64_t once = pinned();

  frontends_->warm_up();

  EXPECT_EQ(session_->devices().current(), device_);
  EXPECT_EQ(pinned(), once);
}

INSTANTIATE_TEST_SUITE_P(By, WarmUpTest, testing::Values("pagecache,bounce,host", "bounce,host"), [](const auto& test) {
  return std::string(test.param).starts_with("page") ? "Pages" : "Bounce";
});

}  // namespace
}  // namespace penstock::core
