// SPDX-License-Identifier: Apache-2.0

// Sessions that write to files in memory by the page-cache path: a real tmpfs and a real hugetlbfs, and a stand-in
// device that holds pages as a GPU's driver does.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

#include "base/unique_fd.h"
#include "device/host/host_device.h"
#include "fakes/noise.h"
#include "fakes/test_config.h"
#include "frontend/transfer.h"
#include "path/pagecache/pagecache_reasons.h"
#include "session/session.h"
#include "storage/posix_storage.h"
#include "storage/uring_ring.h"

namespace penstock::core {
namespace {

constexpr std::size_t kMebibyte = 1u << 20;
constexpr std::size_t kSize = 40 * kMebibyte;  // Two extents.

std::uint64_t free_huge_pages() {
  std::ifstream file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  std::uint64_t count = 0;
  file >> count;
  return count;
}

class PagecacheWriteTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto ring = UringRing::open(1);
    if (!ring.ok()) GTEST_SKIP() << "the stand-in holds writable pages by io_uring: " << describe(ring.status());
    Config config = test_config({{"workers", "2"}, {"paths", "pagecache,bounce"}});
    config_ = config;
    open_session(Policy::cpu);
  }
  void open_session(Policy policy) {
    config_.policy = policy;
    config_.registration_cache_bytes = 1u << 30;
    session_ =
        std::make_unique<Session>(config_, std::make_unique<PosixStorage>(true), std::make_unique<HostDeviceSet>());
    memory_ = static_cast<std::byte*>(session_->devices().device(0).value()->memory().allocate(kSize).value());
  }
  void TearDown() override { session_.reset(); }

  void open_memory_file(unsigned flags = 0) {
    fd_.reset(::memfd_create("pagecache_write_test", MFD_CLOEXEC | flags));
    ASSERT_TRUE(fd_.valid());
    ASSERT_EQ(::ftruncate(fd_.get(), static_cast<off_t>(kSize)), 0);
  }
  void fill(const std::string& content) {
    for (std::size_t done = 0; done < content.size();) {
      const ssize_t put = ::pwrite(fd_.get(), content.data() + done, content.size() - done, static_cast<off_t>(done));
      ASSERT_GT(put, 0);
      done += static_cast<std::size_t>(put);
    }
  }
  void use() { file_ = *session_->register_file(fd_.get()); }
  Outcome transfer(Op op, std::size_t offset, std::size_t size) {
    return core::transfer(*session_, {op, file_, memory_, size, static_cast<std::int64_t>(offset), 0});
  }
  Outcome write(std::size_t offset, const std::string& bytes) {
    std::memcpy(memory_, bytes.data(), bytes.size());
    return transfer(Op::write, offset, bytes.size());
  }
  std::string file_bytes(std::size_t offset, std::size_t size) {
    std::string bytes(size, '\0');
    for (std::size_t done = 0; done < size;) {
      const ssize_t got = ::pread(fd_.get(), bytes.data() + done, size - done, static_cast<off_t>(offset + done));
      if (got <= 0) break;
      done += static_cast<std::size_t>(got);
    }
    return bytes;
  }
  static void expect(const Outcome& outcome, std::size_t bytes, PathId path) {
    EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
    EXPECT_EQ(outcome.report.bytes, bytes);
    EXPECT_EQ(outcome.report.path, path) << path_name(outcome.report.path) << ", "
                                         << reason_name(outcome.report.bounced_reason);
  }

  UniqueFd fd_;
  Config config_;
  std::unique_ptr<Session> session_;
  std::uint64_t file_ = 0;
  std::byte* memory_ = nullptr;
};

TEST_F(PagecacheWriteTest, BytesOverAFileInMemoryArePutThereByTheDevice) {
  open_memory_file();
  fill(noise(kSize, 1));
  use();
  const std::string whole = noise(kSize, 2);

  expect(write(0, whole), kSize, PathId::pagecache);
  EXPECT_EQ(file_bytes(0, kSize), whole);

  const std::string some = noise(100'000, 3);
  expect(write(32 * kMebibyte - 50'001, some), some.size(), PathId::pagecache);
  EXPECT_EQ(file_bytes(32 * kMebibyte - 50'001, some.size()), some);
  expect(transfer(Op::read, 32 * kMebibyte - 50'001, some.size()), some.size(), PathId::pagecache);
  EXPECT_EQ(std::memcmp(memory_, some.data(), some.size()), 0);
}

TEST_F(PagecacheWriteTest, TheTimeOfTheLastChangeIsThatOfTheWrite) {
  open_memory_file();
  fill(noise(kSize, 1));
  use();
  expect(write(0, noise(kSize, 2)), kSize, PathId::pagecache);
  const timespec long_ago[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
  ASSERT_EQ(::futimens(fd_.get(), long_ago), 0);

  expect(write(0, noise(kSize, 3)), kSize, PathId::pagecache);

  struct stat status {};
  ASSERT_EQ(::fstat(fd_.get(), &status), 0);
  EXPECT_GT(status.st_mtim.tv_sec, 1'500'000'000);
  EXPECT_EQ(status.st_atim.tv_sec, 1'000'000'000);
}

TEST_F(PagecacheWriteTest, WhatLiesBehindTheEndIsBounced) {
  open_memory_file();
  fill(noise(kSize, 1));
  use();
  expect(write(0, noise(kSize, 2)), kSize, PathId::pagecache);
  const std::string more = noise(8 * kMebibyte, 3), few = noise(100'000, 4);

  EXPECT_EQ(write(kSize - 4 * kMebibyte, more).report.bytes, more.size());
  expect(write(kSize + 4 * kMebibyte - 10, few), few.size(), PathId::bounce);

  EXPECT_EQ(session_->counters().total(PathId::bounce, pagecache_reason::reads_only, Op::write).bytes,
            4 * kMebibyte + few.size());
  EXPECT_EQ(file_bytes(kSize - 4 * kMebibyte, more.size() - 10), more.substr(0, more.size() - 10));
  EXPECT_EQ(file_bytes(kSize + 4 * kMebibyte - 10, few.size()), few);
}

TEST_F(PagecacheWriteTest, BytesThatWouldGoToPagesThatAreGoneAreWrittenToTheFile) {
  open_memory_file();
  fill(noise(kSize, 1));
  use();
  expect(write(0, noise(kSize, 2)), kSize, PathId::pagecache);
  ASSERT_EQ(::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 5 * kMebibyte, kMebibyte), 0);
  const std::string bytes = noise(2 * kMebibyte, 5);

  const Outcome outcome = write(4 * kMebibyte + kMebibyte / 2, bytes);

  EXPECT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.report.bytes, bytes.size());
  EXPECT_EQ(file_bytes(4 * kMebibyte + kMebibyte / 2, bytes.size()), bytes);
  EXPECT_EQ(session_->counters().total(PathId::bounce, pagecache_reason::pages_replaced, Op::write).bytes,
            bytes.size());
}

TEST_F(PagecacheWriteTest, ASealedFileIsReadAndRefusesWrites) {
  open_memory_file(MFD_ALLOW_SEALING);
  const std::string content = noise(kSize, 1);
  fill(content);
  ASSERT_EQ(::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  use();

  expect(transfer(Op::read, 0, kSize), kSize, PathId::pagecache);
  EXPECT_EQ(std::memcmp(memory_, content.data(), kSize), 0);
  const Outcome outcome = write(0, noise(kSize, 2));

  EXPECT_TRUE(outcome.status.is_errno(EPERM)) << describe(outcome.status);
  EXPECT_EQ(file_bytes(0, kSize), content);
}

TEST_F(PagecacheWriteTest, HugePagesGoBothWays) {
  if (free_huge_pages() < kSize / (2 * kMebibyte)) {
    GTEST_SKIP() << "fewer than 20 huge pages of 2 MiB are free (/proc/sys/vm/nr_hugepages)";
  }
  open_memory_file(MFD_HUGETLB | MFD_HUGE_2MB);
  void* const map = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  ASSERT_NE(map, MAP_FAILED);
  std::memset(map, 'x', kSize);
  use();
  const std::string whole = noise(kSize, 2), some = noise(100'000, 3);

  expect(write(0, whole), kSize, PathId::pagecache);
  expect(write(5'000'001, some), some.size(), PathId::pagecache);
  expect(transfer(Op::read, 5'000'001, some.size()), some.size(), PathId::pagecache);

  EXPECT_EQ(std::memcmp(memory_, some.data(), some.size()), 0);
  std::string expected = whole;
  expected.replace(5'000'001, some.size(), some);
  EXPECT_EQ(std::memcmp(map, expected.data(), kSize), 0);
  ::munmap(map, kSize);
}

// There is no write() to fall back on.
TEST_F(PagecacheWriteTest, HugePagesTakeAnyWriteUnderAnyPolicy) {
  if (free_huge_pages() < kSize / (2 * kMebibyte)) {
    GTEST_SKIP() << "fewer than 20 huge pages of 2 MiB are free (/proc/sys/vm/nr_hugepages)";
  }
  for (const Policy policy : {Policy::throughput, Policy::balanced, Policy::cpu}) {
    open_session(policy);
    open_memory_file(MFD_HUGETLB | MFD_HUGE_2MB);
    use();
    for (const std::size_t size :
         {std::size_t{5}, std::size_t{4096}, std::size_t{100'000}, 2 * kMebibyte, 33 * kMebibyte}) {
      const std::string bytes = noise(size, size);
      expect(write(3 * kMebibyte + 1, bytes), size, PathId::pagecache);
      EXPECT_EQ(file_bytes(3 * kMebibyte + 1, size), bytes) << size;
    }
    ASSERT_TRUE(session_->deregister_file(file_).ok());
  }
}

}  // namespace
}  // namespace penstock::core
