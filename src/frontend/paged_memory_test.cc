// SPDX-License-Identifier: Apache-2.0

// Vectored requests whose pieces lie in many allocations of a GPU, on test/fakes/fake_cuda: how often the driver is
// asked about them, and that no kernel touches what it was not asked about. The fake would abort, as a real context
// would be lost.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device/cuda/cuda_device.h"
#include "fakes/fake_storage.h"
#include "fakes/test_config.h"
#include "frontend/vectored.h"
#include "session/session.h"

namespace penstock::core {
namespace {

constexpr std::size_t kPiece = 4096, kLayers = 8, kBlocks = 4;

class PagedMemoryTest : public testing::Test {
 protected:
  PagedMemoryTest() {
    auto storage = std::make_unique<FakeStorage>();
    for (std::size_t i = 0; i < kLayers * kBlocks * kPiece; ++i)
      storage->content.push_back(static_cast<char>(i / kPiece + 1));
    std::string why_not;
    auto devices = std::move(CudaDeviceSet::open(&why_not, PENSTOCK_FAKE_CUDA).value());
    session_ = std::make_unique<Session>(test_config({{"workers", "1"}}), std::move(storage), std::move(devices));
    file_ = *session_->register_file(FakeStorage::kUserFd);
    while (layers_.size() < kLayers) layers_.push_back(allocate());
  }

  DeviceMemory& memory() { return session_->devices().device(0).value()->memory(); }
  char* allocate() { return static_cast<char*>(memory().allocate(kBlocks * kPiece).value()); }
  std::vector<MemoryPiece> block(std::size_t number) const {
    std::vector<MemoryPiece> pieces;
    for (char* const layer : layers_) pieces.push_back({layer + number * kPiece, kPiece});
    return pieces;
  }
  Outcome read(const std::vector<MemoryPiece>& pieces) {
    return transfer_vectored(*session_, {.op = Op::read, .file = file_}, pieces);
  }
  static int driver(const char* name) {
    void* const library = ::dlopen(PENSTOCK_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<int (*)()>(::dlsym(library, name))();
  }

  std::unique_ptr<Session> session_;
  std::uint64_t file_ = 0;
  std::vector<char*> layers_;
};

TEST_F(PagedMemoryTest, TheDriverIsAskedOnceAboutEachPiece) {
  ASSERT_TRUE(read(block(0)).status.ok());  // It loads the kernel.
  const int lookups = driver("fake_cuda_lookups"), scatters = driver("fake_cuda_scatters");

  const Outcome outcome = read(block(1));

  EXPECT_EQ(outcome.report.bytes, kLayers * kPiece) << describe(outcome.status);
  EXPECT_EQ(driver("fake_cuda_scatters") - scatters, 1);
  EXPECT_EQ(driver("fake_cuda_lookups") - lookups, static_cast<int>(kLayers));
}

TEST_F(PagedMemoryTest, AKernelDoesNotTrustWhatARegistrationHasKept) {
  ASSERT_TRUE(read(block(0)).status.ok());
  ASSERT_TRUE(session_->register_buffer(layers_.back(), kPiece).ok());
  memory().release(layers_.back());
  const int scatters = driver("fake_cuda_scatters");

  const Outcome outcome = read(block(0));

  EXPECT_FALSE(outcome.status.ok());
  EXPECT_EQ(driver("fake_cuda_scatters"), scatters);
  ASSERT_TRUE(session_->deregister_buffer(layers_.back()).ok());
}

TEST_F(PagedMemoryTest, PiecesOfARegisteredBufferThatIsThereGoTogether) {
  ASSERT_TRUE(session_->register_buffer(layers_[3], kPiece).ok());
  ASSERT_TRUE(read(block(0)).status.ok());
  const int scatters = driver("fake_cuda_scatters");

  EXPECT_EQ(read(block(0)).report.bytes, kLayers * kPiece);

  EXPECT_EQ(driver("fake_cuda_scatters") - scatters, 1);
}

}  // namespace
}  // namespace penstock::core
