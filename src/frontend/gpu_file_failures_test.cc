// SPDX-License-Identifier: Apache-2.0

// Files for kernels on a device that refuses each call once, over storage that tells odd sizes, and where no path, no
// descriptor or no session is left.
#include <linux/magic.h>

#include <thread>

#include "fakes/fake_gpu.h"
#include "fakes/forbidden_calls.h"
#include "fakes/gpu_file_fixture.h"
#include "fakes/refusing_device.h"
#include "path/pagecache/pagecache_reasons.h"

namespace penstock::core {
namespace {

class NoFile final : public UserspaceFile {
 public:
  Result<std::size_t> move(Op, std::byte*, std::size_t, std::uint64_t) override { return std::size_t{0}; }
};

class GpuFileFailures : public GpuFileFixture {
 protected:
  void SetUp() override {
    GpuFileFixture::SetUp();
    open_anew();
  }
  void TearDown() override {
    GpuFileFixture::TearDown();
    EXPECT_EQ(refusals_.allocated, 0);
    EXPECT_EQ(refusals_.queues, 0);
    EXPECT_EQ(refusals_.locked, 0);
  }
  void open_anew() {
    close_session();
    auto storage = std::make_unique<TellingStorage>();
    storage_ = storage.get();
    open_session(std::move(storage), std::make_unique<RefusingDevices>(refusals_));
  }
  void configure(Config& config) override {
    if (change_) change_(config);
  }
  // With the configuration changed so.
  void open_with(std::function<void(Config&)> change) {
    change_ = std::move(change);
    open_anew();
    open();
  }
  Status opened(const GpuFile::Terms& terms = {}) { return files().open(file_, terms).status(); }

  Refusals refusals_;
  TellingStorage* storage_ = nullptr;
  std::function<void(Config&)> change_;
};

// Without registered pages a file is read by the ring, so that a refusal of these need not fail the opening.
TEST_F(GpuFileFailures, EachCallOfTheDeviceThatIsRefusedLeavesNothingBehind) {
  // Cached sets of more than a mebibyte, so that several copies clear them.
  const GpuFile::Terms terms{.cache_bytes = std::uint64_t{1} << 30};
  int failed = 0;
  for (unsigned n = 1;; ++n) {
    open_anew();
    refusals_.refuse(n);
    const Result<std::uint64_t> number = files().open(file_, terms);
    const bool was_refused = refusals_.was_refused();
    refusals_.refuse(0);
    if (!number.ok()) {
      ++failed;
      EXPECT_TRUE(number.status().is(Code::device_lost)) << "call " << n << ": " << describe(number.status());
      EXPECT_EQ(refusals_.allocated, 0) << "call " << n;
    }
    ASSERT_NO_FATAL_FAILURE(open(terms)) << "call " << n;
    EXPECT_EQ(version_of(0, 64), 0);
    EXPECT_EQ(version_of(kWords - 30, 30), 0);
    if (!was_refused) break;
  }
  EXPECT_GE(failed, 10);
}

TEST_F(GpuFileFailures, ADeviceThatDoesNotTellWhenKernelsEndedLosesTheCountsAndNoMemory) {
  open();
  EXPECT_EQ(version_of(0, 64), 0);
  refusals_.refuse(1);
  files().close(number_);
  EXPECT_TRUE(refusals_.was_refused());
  open();
  EXPECT_EQ(version_of(0, 64), 0);
}

TEST_F(GpuFileFailures, ASizeThatCannotBeToldOrThatKernelsCannotNumberIsRefused) {
  storage_->tell = [] { return os_failure(EIO, "look at the file"); };
  EXPECT_TRUE(opened().is_errno(EIO));
  storage_->tell = [] { return gpu::kOffsetEnd; };
  EXPECT_TRUE(opened().is(Code::unsupported));
  EXPECT_EQ(refusals_.allocated, 0);
  storage_->tell = nullptr;
  EXPECT_TRUE(opened().ok());
}

// The cache numbers blocks by 34 bits.
TEST_F(GpuFileFailures, AFileOfMoreBlocksThanTheCacheCanNumberHasNone) {
  const std::uint64_t most = ((std::uint64_t{1} << gpu::kBlockBits) - 1) * 4096;
  for (const std::uint64_t size : {most - 4096, most}) {
    storage_->tell = [size] { return size; };
    // Few pages are registered, and none is looked for behind the real end.
    open({.resident_bytes_max = 0, .cache_bytes = 1 << 20});
    EXPECT_EQ(facts().cache_bytes > 0, size < most && facts().is_leased) << size;
    EXPECT_EQ(version_of(0, 64), 0);
    files().close(number_);
  }
}

TEST_F(GpuFileFailures, AnEmptyFileIsOpenAndEndsAtOnce) {
  ASSERT_EQ(::truncate(path_.c_str(), 0), 0);
  open({.cache_bytes = 1 << 20});
  EXPECT_EQ(facts().size, 0u);
  gpu::Result result;
  EXPECT_EQ(version_of(0, 1, &result), -1);
  EXPECT_EQ(result.error, gpu::Error::none);
  EXPECT_EQ(result.bytes, 0u);
}

TEST_F(GpuFileFailures, WhyNothingIsResidentIsTold) {
  open_with([](Config& config) { config.paths = {PathId::host}; });
  EXPECT_EQ(facts().reason, pagecache_reason::registration_cache_off) << "no path serves the device";
  EXPECT_EQ(version_of(0, 64), 0);
  open_with([](Config& config) { config.paths = {PathId::bounce, PathId::host}; });
  EXPECT_EQ(facts().reason, pagecache_reason::registration_cache_off) << "the path keeps no pages";
  open_with([](Config& config) { config.registration_cache_bytes = 0; });
  EXPECT_EQ(facts().reason, pagecache_reason::registration_cache_off);
  open_with([](Config& config) { config.require = PathId::host; });
  EXPECT_EQ(facts().ring_path, PathId::host) << "no path serves the slots' memory";
  EXPECT_EQ(version_of(9, 64), 0);
}

TEST_F(GpuFileFailures, AFileSystemWhosePagesAreNotTheFilesIsToldAndReadByTheRing) {
  storage_->magic = OVERLAYFS_SUPER_MAGIC;
  ASSERT_TRUE(session_->deregister_file(file_).ok());
  file_ = *session_->register_file(reader_.get());
  open();
  EXPECT_EQ(facts().reason, pagecache_reason::file_system_pages);
  EXPECT_EQ(facts().resident_bytes, 0u);
  EXPECT_EQ(version_of(0, 64), 0);
  EXPECT_EQ(facts().counts.ring_reads, 1u);
}

// Its pages are looked for under the lease, which somebody asks back before kernels could be told.
TEST_F(GpuFileFailures, AFileThatIsOpenedForWritingMeanwhileIsOpenWithoutALease) {
  bool was_leased = false;
  storage_->tell = [&] {
    was_leased |= !open_as(O_WRONLY | O_NONBLOCK).valid();
    return kBytes;
  };
  open();
  storage_->tell = nullptr;
  if (!was_leased) GTEST_SKIP() << "not here: " << reason_name(facts().reason);
  EXPECT_FALSE(facts().is_leased);
  EXPECT_EQ(facts().reason, resident_reason::lease_ended);
  write(open_as(O_WRONLY).get(), 1);
  for (unsigned i = 0; i < 300; ++i) ASSERT_EQ(version_of(i, 9), 1);
  EXPECT_EQ(facts().counts.resident_reads, 0u);
}

TEST_F(GpuFileFailures, ReadsThatGoAroundThePageCacheNeedNoDescriptorsOfTheirOwn) {
  open_with([](Config& config) { config.direct_io = DirectIo::always; });
  value_.prefetch(gpu::Thread(), 0, 4096);
  EXPECT_EQ(version_of(7, 9), 0);
  files().close(number_);

  change_ = nullptr;
  open_anew();
  const UniqueFd direct = open_as(O_RDONLY | O_DIRECT);
  if (!direct.valid()) GTEST_SKIP() << "this file system has no O_DIRECT";
  file_ = *session_->register_file(direct.get());
  open({.resident_bytes_max = 0});
  EXPECT_EQ(version_of(7, 9), 0);
}

TEST_F(GpuFileFailures, AnotherFileThatGoesDoesNotCloseIt) {
  open();
  const UniqueFd other = open_as(O_RDONLY);
  const std::uint64_t beside = *session_->register_file(other.get());
  ASSERT_TRUE(session_->deregister_file(beside).ok());
  EXPECT_EQ(version_of(7, 9), 0);
}

TEST_F(GpuFileFailures, AFileThatGoesWhileItIsOpenedIsNotOpen) {
  std::thread other;
  storage_->tell = [&]() -> Result<std::uint64_t> {
    if (!other.joinable()) other = std::thread([&] { EXPECT_TRUE(session_->deregister_file(file_).ok()); });
    while (session_->is_file(file_)) std::this_thread::yield();
    return kBytes;
  };
  EXPECT_TRUE(opened().is(Code::not_registered));
  other.join();
  storage_->tell = nullptr;
}

TEST_F(GpuFileFailures, FilesOfUserSpaceAndDevicesWithoutKernelsAreNotForThem) {
  const std::uint64_t userspace = *session_->register_file(std::make_unique<NoFile>());
  EXPECT_TRUE(files().open(userspace, {}).status().is(Code::unsupported));
  EXPECT_EQ(in_child([&] { return opened().is(Code::closed) ? 0 : 1; }), 0);
  close_session();
  open_session(std::make_unique<PosixStorage>(true), std::make_unique<FakeGpu>());
  EXPECT_TRUE(opened().is(Code::unsupported));
}

}  // namespace
}  // namespace penstock::core
