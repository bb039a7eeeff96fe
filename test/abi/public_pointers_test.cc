// SPDX-License-Identifier: Apache-2.0

// Memory that is not there, passed to every call that moves or reads it: an answer, and never a signal.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "penstock/penstock.hpp"

namespace {

using penstock::Config;
using penstock::Session;
using penstock::Status;

constexpr std::size_t kSize = 1 << 20;

class PublicPointersTest : public testing::Test {
 protected:
  void SetUp() override {
    auto session = Session::open(Config().set("device", "host"));
    ASSERT_TRUE(session) << session.error().message();
    session_.emplace(std::move(*session));
    const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    map_ = static_cast<char*>(::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_EQ(::mprotect(map_ + kSize - page, page, PROT_NONE), 0);
    ASSERT_EQ(::mprotect(map_, page, PROT_READ), 0);
    // Nothing there; a range that runs into what may not be touched.
    bad_ = {{reinterpret_cast<char*>(0x10), 10}, {reinterpret_cast<char*>(0x10), kSize / 2}, {map_, kSize}};
  }
  void TearDown() override { ::munmap(map_, kSize); }

  struct Range {
    char* begin;
    std::size_t size;
  };
  std::optional<Session> session_;
  char* map_ = nullptr;
  std::vector<Range> bad_;
};

TEST_F(PublicPointersTest, ChecksumsOfMemoryThatIsNotThereAreRefused) {
  std::uint32_t sums[2] = {};
  for (const Range& bad : bad_) {
    const iovec pieces[] = {{map_, 10}, {bad.begin, bad.size}};
    const Status status = session_->crc32c(bad.begin, bad.size, bad.size, sums);
    EXPECT_TRUE(status.is(PENSTOCK_BAD_POINTER)) << status.message();
    EXPECT_TRUE(session_->crc32c(pieces, 2, sums).is(PENSTOCK_BAD_POINTER));
  }
  EXPECT_TRUE(session_->crc32c(map_, kSize / 2, kSize, sums).ok());
}

TEST_F(PublicPointersTest, ChecksumsArePutIntoNoMemoryThatIsNotThere) {
  const iovec piece{map_, 10};
  auto* const nowhere = reinterpret_cast<std::uint32_t*>(0x10);

  EXPECT_TRUE(session_->crc32c(map_, 10, 10, nowhere).is(PENSTOCK_BAD_POINTER));
  EXPECT_TRUE(session_->crc32c(map_, 10, 10, reinterpret_cast<std::uint32_t*>(map_)).is(PENSTOCK_BAD_POINTER));
  EXPECT_TRUE(session_->crc32c(&piece, 1, nowhere).is(PENSTOCK_BAD_POINTER));
  std::uint32_t sum = 0;
  EXPECT_TRUE(session_->crc32c(reinterpret_cast<const iovec*>(0x10), 1, &sum).is(PENSTOCK_BAD_POINTER));
}

TEST_F(PublicPointersTest, DeviceMemoryIsCopiedToAndFromNoMemoryThatIsNotThere) {
  auto memory = session_->allocate(0, kSize);
  ASSERT_TRUE(memory);
  for (const Range& bad : bad_) {
    EXPECT_TRUE(memory->upload(0, bad.begin, bad.size).is(PENSTOCK_BAD_POINTER));
    EXPECT_TRUE(memory->download(0, bad.begin, bad.size).is(PENSTOCK_BAD_POINTER));
  }
  EXPECT_TRUE(memory->upload(0, map_, 10).ok());
  EXPECT_TRUE(memory->download(0, map_, 10).is(PENSTOCK_BAD_POINTER)) << "it is read-only";
}

TEST_F(PublicPointersTest, DeviceMemoryIsNotCopiedBeyondItsEnd) {
  auto memory = session_->allocate(0, 4096);
  ASSERT_TRUE(memory);
  std::vector<char> host(kSize);

  EXPECT_TRUE(memory->upload(4095, host.data(), 2).is(PENSTOCK_PAST_ALLOCATION));
  EXPECT_TRUE(memory->download(0, host.data(), kSize).is(PENSTOCK_PAST_ALLOCATION));
  EXPECT_TRUE(memory->download(4095, host.data(), 1).ok());
}

TEST_F(PublicPointersTest, RequestsOnMemoryThatIsNotThereAreAnswered) {
  const int fd = ::memfd_create("pointers", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(fd, kSize), 0);
  auto file = session_->file(fd);
  ASSERT_TRUE(file);
  for (const Range& bad : bad_) {
    const iovec pieces[] = {{bad.begin, bad.size}};
    penstock::Request request = file->request(PENSTOCK_READ, nullptr, 0, 0);
    request.pieces = pieces;
    request.piece_count = 1;
    EXPECT_TRUE(file->read(bad.begin, bad.size, 0).status.is(PENSTOCK_BAD_POINTER));
    EXPECT_TRUE(Status(penstock_transfer(&request, nullptr)).is(PENSTOCK_BAD_POINTER));
  }
  ::close(fd);
}

}  // namespace
