// SPDX-License-Identifier: Apache-2.0

// Reads on streams that take their bytes out of registered pages by themselves: real files and a real page cache, and
// streams of the stand-in device or of the CUDA driver without a GPU, which do their work when they are waited for.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "base/unique_fd.h"
#include "device/cuda/cuda_device.h"
#include "device/host/host_device.h"
#include "fakes/noise.h"
#include "fakes/test_config.h"
#include "frontend/frontends.h"
#include "frontend/transfer.h"
#include "path/pagecache/pagecache_path.h"
#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

constexpr std::size_t kMebibyte = 1u << 20;
constexpr std::size_t kSize = 40 * kMebibyte;  // Two extents.

class PagecacheStreamsTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    fd_ = UniqueFd(::memfd_create("pagecache_streams_test", MFD_CLOEXEC));
    put(content_);
    Config config = test_config({{"workers", "2"}, {"paths", "pagecache,bounce,host"}});
    config.policy = Policy::cpu;
    std::unique_ptr<DeviceSet> devices = std::make_unique<HostDeviceSet>();
    std::string why_not;
    if (is_cuda()) devices = std::move(CudaDeviceSet::open(&why_not, PENSTOCK_FAKE_CUDA).value());
    session_ = std::make_unique<Session>(config, std::make_unique<PosixStorage>(true), std::move(devices));
    frontends_ = std::make_unique<Frontends>(*session_);
    file_ = *session_->register_file(fd_.get());
    device_ = session_->devices().device(0).value();
    memory_ = static_cast<std::byte*>(device_->memory().allocate(kSize).value());
    if (is_cuda()) enter_cuda();
    if (read_whole().report.path != PathId::pagecache) GTEST_SKIP() << "pages cannot be registered here";
  }
  void TearDown() override {
    frontends_.reset();
    session_.reset();
    cuda::CUcontext left = nullptr;
    if (is_cuda()) (void)api_.cuCtxPopCurrent(&left);
  }

  bool is_cuda() const { return GetParam(); }
  void enter_cuda() {
    std::string why_not;
    ASSERT_TRUE(api_.load(PENSTOCK_FAKE_CUDA, &why_not)) << why_not;
    ASSERT_EQ(api_.cuCtxPushCurrent(static_cast<CudaDevice*>(device_)->context().handle), cuda::CUDA_SUCCESS);
    cuda::CUstream stream = nullptr;
    ASSERT_EQ(api_.cuStreamCreate(&stream, cuda::CU_STREAM_NON_BLOCKING), cuda::CUDA_SUCCESS);
    stream_ = stream;
  }
  void put(const std::string& content) {
    ASSERT_EQ(::pwrite(fd_.get(), content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
  }
  // Its pages leave the file, which gets others.
  void replace_content() {
    ASSERT_EQ(::ftruncate(fd_.get(), 0), 0);
    content_ = noise(kSize, 2);
    put(content_);
  }
  Outcome read_whole() { return transfer(*session_, {Op::read, file_, memory_, kSize, 0, 0}); }

  StreamHome& home() { return *session_->devices().stream_home(stream_).value(); }
  // The stream waits for a word of a block that is ours.
  const std::uint32_t* hold() {
    block_ = home().memory().take(0, UINT64_MAX).value();
    EXPECT_TRUE(home().work().wait(stream_, *block_, block_->word(0), ++block_->begun[0]).ok());
    return &block_->word(0);
  }
  void let_go(const std::uint32_t* word) {
    home().work().set(*const_cast<std::uint32_t*>(word), block_->begun[0]);
    home().memory().give_back(*block_);
  }
  void begin(std::uint64_t size, std::int64_t offset) {
    outcome_ = {};
    asked_ = {size, offset};
    const StreamParameters wanted{.op = Op::read,
                                  .file = file_,
                                  .base = memory_,
                                  .size = &asked_.size,
                                  .file_offset = &asked_.offset,
                                  .buffer_offset = &kNowhere,
                                  .result = &outcome_};
    const auto deliver = [](void* result, const RawRequest&, const Outcome& outcome) {
      *static_cast<Outcome*>(result) = outcome;
    };
    const Status status = frontends_->streams().submit(stream_, wanted, {deliver, nullptr, nullptr});
    ASSERT_TRUE(status.ok()) << describe(status);
  }
  // Requests that the page cache has taken note of.
  std::uint64_t requests_noted() const {
    return static_cast<const PagecachePath*>(session_->engine().router().fallback_of(*device_))->cache().now();
  }
  void drain() { ASSERT_TRUE(home().drain(stream_).ok()); }
  void expect_read(PathId path) {
    EXPECT_TRUE(outcome_.status.ok()) << describe(outcome_.status);
    EXPECT_EQ(outcome_.report.path, path) << path_name(outcome_.report.path);
    ASSERT_EQ(outcome_.report.bytes, asked_.size);
    std::string arrived(asked_.size, '\0');
    std::memcpy(arrived.data(), memory_, asked_.size);  // The fakes allocate host memory.
    EXPECT_EQ(arrived, content_.substr(static_cast<std::size_t>(asked_.offset), asked_.size));
  }
  void expect_read(std::uint64_t size, std::int64_t offset, PathId path) {
    std::memset(memory_, 0xee, size);
    begin(size, offset);
    drain();
    expect_read(path);
  }

  struct Asked {
    std::uint64_t size = 0;
    std::int64_t offset = 0;
  };
  static constexpr std::int64_t kNowhere = 0;
  std::string content_ = noise(kSize, 1);
  UniqueFd fd_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Frontends> frontends_;
  cuda::CudaApi api_ = {};
  Device* device_ = nullptr;
  std::byte* memory_ = nullptr;
  std::uint64_t file_ = 0;
  void* stream_ = reinterpret_cast<void*>(0x7000);
  StreamBlock* block_ = nullptr;
  Asked asked_;
  Outcome outcome_;
};
INSTANTIATE_TEST_SUITE_P(On, PagecacheStreamsTest, testing::Bool(),
                         [](const auto& fixture) { return fixture.param ? "FakeCuda" : "HostStandIn"; });

TEST_P(PagecacheStreamsTest, WhatIsRegisteredIsTakenFromThePagesWhereverItLies) {
  expect_read(64u << 10, 12'345, PathId::pagecache);
  expect_read(kMebibyte, 31 * kMebibyte + (kMebibyte >> 1), PathId::pagecache);  // The range has parts in two extents.
  expect_read(kSize, 0, PathId::pagecache);
  EXPECT_EQ(session_->counters().total(PathId::pagecache, Reason::none, Op::read).bytes,
            2 * kSize + kMebibyte + (64u << 10));
}

TEST_P(PagecacheStreamsTest, AFewBytesAreStaged) { expect_read(4096, 77, PathId::bounce); }

TEST_P(PagecacheStreamsTest, AReadCountsOnceWhetherItsPagesAreTakenOrNot) {
  const std::uint64_t before = requests_noted();
  expect_read(100u << 10, 0, PathId::pagecache);
  EXPECT_EQ(requests_noted(), before + 1);
  expect_read(kMebibyte, 31 * kMebibyte + (kMebibyte >> 1), PathId::pagecache);  // The range has parts in two extents.
  EXPECT_EQ(requests_noted(), before + 2);

  replace_content();
  expect_read(100u << 10, 0, PathId::bounce);

  EXPECT_EQ(requests_noted(), before + 3);
}

TEST_P(PagecacheStreamsTest, AStreamThatIsHeldTakesThemWhenItGetsThere) {
  const std::uint32_t* const word = hold();
  begin(kMebibyte, 0);
  replace_content();
  let_go(word);
  drain();
  expect_read(PathId::bounce);
}

TEST_P(PagecacheStreamsTest, OfAHeldStreamTooWhatIsRegisteredIsNotStaged) {
  const std::uint32_t* const word = hold();
  begin(2 * kMebibyte, 0);
  let_go(word);
  drain();
  expect_read(PathId::pagecache);
}

TEST_P(PagecacheStreamsTest, PagesThatWereCutOffAreNotTaken) {
  replace_content();
  expect_read(kMebibyte, 0, PathId::bounce);
}

TEST_P(PagecacheStreamsTest, BehindTheEndThereIsNothingToTake) {
  ASSERT_EQ(::ftruncate(fd_.get(), kMebibyte), 0);
  begin(2 * kMebibyte, 0);
  drain();
  EXPECT_EQ(outcome_.report.bytes, kMebibyte);
}

TEST_P(PagecacheStreamsTest, BytesThatAreStagedBehindRegisteredOnesCountAsBounced) {
  const std::string more = noise(kMebibyte, 3);
  ASSERT_EQ(::pwrite(fd_.get(), more.data(), more.size(), kSize), static_cast<ssize_t>(more.size()));
  content_ += more;

  expect_read(2 * kMebibyte, kSize - kMebibyte, PathId::pagecache);

  EXPECT_GT(outcome_.report.bounced_bytes, 0u);
}

TEST_P(PagecacheStreamsTest, ARegisteredBufferBoundsWhatIsTaken) {
  ASSERT_TRUE(session_->register_buffer(memory_, kMebibyte).ok());
  std::memset(memory_, 0xee, 2 * kMebibyte);

  begin(2 * kMebibyte, 0);
  drain();

  EXPECT_TRUE(outcome_.status.is(Code::out_of_range)) << describe(outcome_.status);
  EXPECT_EQ(memory_[kMebibyte], std::byte{0xee});
  expect_read(kMebibyte, 0, PathId::pagecache);
}

class LentPagesTest : public PagecacheStreamsTest {};
INSTANTIATE_TEST_SUITE_P(On, LentPagesTest, testing::Values(true));

// The driver without a GPU need not have copied when the call returns: bytes that it took from a mapping that is gone
// would end the test.
TEST_P(LentPagesTest, StayUntilTheStreamHasThemWhenTheFileIsDeregistered) {
  std::memset(memory_, 0xee, kMebibyte);
  begin(kMebibyte, 0);

  ASSERT_TRUE(session_->deregister_file(file_).ok());

  ASSERT_EQ(api_.cuStreamSynchronize(static_cast<cuda::CUstream>(stream_)), cuda::CUDA_SUCCESS);
  expect_read(PathId::pagecache);
}

}  // namespace
}  // namespace penstock::core
