// SPDX-License-Identifier: Apache-2.0

// The ring reads from storage into device memory where the session has a direct path to it.
#include <gtest/gtest.h>

#include <functional>

#include "fakes/fake_gpu.h"
#include "fakes/fake_nvfs.h"
#include "fakes/gpu_file_fixture.h"
#include "path/nvfs/nvfs_reasons.h"

namespace penstock::core {
namespace {

// Kernels are host code, and reach all memory at its address.
class GpuWithKernels final : public FakeGpu, public DevicePages {
 public:
  GpuWithKernels() : FakeGpu(this) {}
  bool can_register_pages() const override { return false; }
  Status register_pages(const std::byte*, std::size_t, bool) override {
    return failure(Code::unsupported, "register pages");
  }
  bool unregister_pages(const std::byte*) override { return true; }
  Result<void*> address_in_kernels(void* memory) override { return memory; }
  Status wait_for_kernels() override { return success(); }
};

constexpr const char* kNoDirectIo = "this file system has no O_DIRECT";

class GpuToDeviceTest : public GpuFileFixture {
 protected:
  void configure(Config& config) override {
    config.paths = paths_;
    config.nvfs_kernel = module_;
    config.nvfs = NvfsUse::stand_in;
  }
  // On a GPU to which nvidia-fs moves bytes. False where the file system has no O_DIRECT.
  bool open_on(std::vector<PathId> paths, std::unique_ptr<Storage> storage = std::make_unique<UncachedStorage>()) {
    paths_ = std::move(paths);
    close_session();
    open_session(std::move(storage), std::make_unique<GpuWithKernels>());
    return session_->file_facts(file_)->can_do_o_direct();
  }
  FakeGpu& gpu() { return static_cast<FakeGpu&>(session_->devices()); }
  std::uint64_t counted(PathId path, Reason reason) const {
    return session_->counters().total(path, reason, Op::read).operations;
  }

  void expect_closing_to_release_the_memory(const std::function<void()>& close) {
    if (!open_on({PathId::nvfs, PathId::bounce, PathId::host})) GTEST_SKIP() << kNoDirectIo;
    const unsigned before = gpu().allocation_count();
    open();
    ASSERT_EQ(facts().ring_path, PathId::nvfs);
    EXPECT_GT(gpu().allocation_count(), before);
    close();
    EXPECT_EQ(gpu().allocation_count(), before);
  }

  std::shared_ptr<FakeNvfs> module_ = std::make_shared<FakeNvfs>();
  std::vector<PathId> paths_;
};

TEST_F(GpuToDeviceTest, WholeBlocksByADirectPathWhereThereIsOne) {
  if (!open_on({PathId::nvfs, PathId::bounce, PathId::host})) GTEST_SKIP() << kNoDirectIo;
  open();
  EXPECT_EQ(facts().ring_path, PathId::nvfs);
  std::vector<std::uint64_t> words(1024);

  EXPECT_EQ(value_.read(gpu::Thread(), 4096, 8192, words.data()).bytes, 8192u);

  for (std::uint64_t i = 0; i < words.size(); ++i) ASSERT_EQ(words[i], word(512 + i, 0));
  EXPECT_EQ(facts().counts.ring_reads, 1u);
  EXPECT_EQ(counted(PathId::nvfs, nvfs_reason::simulated), 2u);
  EXPECT_EQ(counted(PathId::host, Reason::host_memory), 0u);
}

// A kernel of the library's would have to bounce them, and waits for a GPU that is full of kernels that wait.
TEST_F(GpuToDeviceTest, PartsOfBlocksComeToPinnedMemory) {
  if (!open_on({PathId::nvfs, PathId::bounce, PathId::host})) GTEST_SKIP() << kNoDirectIo;
  open();
  EXPECT_EQ(version_of(0, 64), 0);
  EXPECT_EQ(version_of(kWords - 30, 30), 0);
  EXPECT_EQ(counted(PathId::nvfs, nvfs_reason::simulated), 0u);
  EXPECT_EQ(counted(PathId::host, Reason::host_memory), 2u);
}

TEST_F(GpuToDeviceTest, BlocksOfTheCacheDoAndThoseThatThePageCacheHasDoNot) {
  for (const bool is_cached : {false, true}) {
    std::unique_ptr<Storage> storage = std::make_unique<UncachedStorage>();
    if (is_cached) storage = std::make_unique<PosixStorage>(true);
    if (!open_on({PathId::nvfs, PathId::bounce, PathId::host}, std::move(storage))) GTEST_SKIP() << kNoDirectIo;
    open({.cache_bytes = 1 << 20});
    if (!facts().is_leased) GTEST_SKIP() << reason_name(facts().reason);
    EXPECT_EQ(version_of(0, 64), 0);
    EXPECT_EQ(version_of(kWords - 30, 30), 0);
    EXPECT_EQ(facts().counts.fetched, 2u);
    EXPECT_EQ(counted(PathId::nvfs, nvfs_reason::simulated), is_cached ? 0u : 1u) << "the last block is not whole";
    EXPECT_EQ(counted(PathId::host, Reason::host_memory), is_cached ? 2u : 1u);
  }
}

// The module tells of holes where there are bytes, as one does whose hook did not see them.
TEST_F(GpuToDeviceTest, AfterThePathWasFoundToLieAllComesToPinnedMemory) {
  if (!open_on({PathId::nvfs, PathId::bounce, PathId::host})) GTEST_SKIP() << kNoDirectIo;
  open();
  ASSERT_EQ(facts().ring_path, PathId::nvfs);
  std::vector<std::uint64_t> words(512);
  const auto read_block = [&](std::uint64_t number) {
    std::fill(words.begin(), words.end(), 0);
    EXPECT_EQ(value_.read(gpu::Thread(), number * 4096, 4096, words.data()).bytes, 4096u);
    for (std::uint64_t i = 0; i < words.size(); ++i) ASSERT_EQ(words[i], word(number * 512 + i, 0));
  };
  module_->is_hole = [](std::uint64_t) { return true; };
  read_block(1);
  const std::uint64_t before = counted(PathId::host, Reason::host_memory);

  read_block(2);

  EXPECT_EQ(counted(PathId::host, Reason::host_memory), before + 1);
}

TEST_F(GpuToDeviceTest, WithoutADirectPathAllComesToPinnedMemory) {
  if (!open_on({PathId::bounce, PathId::host})) GTEST_SKIP() << kNoDirectIo;
  open();
  EXPECT_EQ(facts().ring_path, PathId::host);
  EXPECT_EQ(version_of(9, 64), 0);
  EXPECT_EQ(counted(PathId::host, Reason::host_memory), 1u);
}

TEST_F(GpuToDeviceTest, OfAGpuWhoseContextIsLostKernelsAreStillAnsweredAndTheReportSaysSo) {
  if (!open_on({PathId::bounce, PathId::host})) GTEST_SKIP() << kNoDirectIo;
  open();
  gpu().loses_context = true;

  EXPECT_EQ(version_of(9, 64), 0);

  GpuFile* const opened = files().pin(number_);
  EXPECT_FALSE(opened->facts().ok());
  files().unpin(number_);
  files().close(number_);
  EXPECT_FALSE(files().open(file_, {}).ok());
}

TEST_F(GpuToDeviceTest, ItsMemoryGoesWithItsFileAndWithItsSession) {
  expect_closing_to_release_the_memory([&] { files().close(number_); });
  expect_closing_to_release_the_memory([&] { EXPECT_TRUE(session_->deregister_file(file_).ok()); });
  expect_closing_to_release_the_memory([&] { session_->stop(); });
}

TEST_F(GpuToDeviceTest, AGpuThatHasNoRoomIsSaidSo) {
  if (!open_on({PathId::bounce, PathId::host})) GTEST_SKIP() << kNoDirectIo;
  gpu().is_full = true;
  EXPECT_TRUE(files().open(file_, {}).status().is(Code::out_of_memory));
}

}  // namespace
}  // namespace penstock::core
