// SPDX-License-Identifier: Apache-2.0

// The public face's requests on streams, over the CUDA driver without a GPU, which is loaded as libcuda.so.1 would be.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <string>

#include "penstock/penstock.hpp"

namespace {

using penstock::Config;
using penstock::File;
using penstock::Session;

constexpr std::size_t kSize = 3 << 20;

template <typename... Arguments>
int driver(const char* name, Arguments... arguments) {
  const auto call = reinterpret_cast<int (*)(Arguments...)>(::dlsym(RTLD_DEFAULT, name));
  return call != nullptr ? call(arguments...) : -1;
}

class PublicStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(driver("cuInit", 0u), 0);
    ASSERT_EQ(driver("cuDevicePrimaryCtxRetain", &context_, 0), 0);
    ASSERT_EQ(driver("cuCtxSetCurrent", context_), 0);
    fd_ = ::memfd_create("stream", MFD_CLOEXEC);
    for (std::size_t i = 0; i < kSize; ++i) content_[i] = static_cast<char>(i * 40503u >> 7);
    ASSERT_EQ(::pwrite(fd_, content_.data(), kSize, 0), static_cast<ssize_t>(kSize));
    auto session = Session::open(Config().set("device", "cuda"));
    ASSERT_TRUE(session) << session.error().message();
    session_.emplace(std::move(*session));
    file_ = std::move(*session_->file(fd_));
    ASSERT_EQ(driver("cuStreamCreate", &stream_, 1u), 0);
    ASSERT_EQ(driver("cuMemAlloc_v2", &buffer_, kSize), 0);
  }
  void TearDown() override {
    EXPECT_EQ(driver("cuStreamSynchronize", stream_), 0);
    session_.reset();
    EXPECT_EQ(driver("cuMemFree_v2", buffer_), 0);
    EXPECT_EQ(driver("cuDevicePrimaryCtxRelease_v2", 0), 0);
    ::close(fd_);
  }

  penstock::Request request(penstock_op op, std::uint64_t size, std::int64_t file_offset,
                            std::int64_t buffer_offset = 0) const {
    penstock::Request request = file_.request(op, buffer(), size, file_offset, buffer_offset);
    request.stream = stream_;
    return request;
  }
  penstock::Status submit(const penstock::Request& request) { return penstock_stream_submit(&request, &result_); }
  penstock::Status read(std::uint64_t size, std::int64_t file_offset, std::int64_t buffer_offset) {
    return submit(request(PENSTOCK_READ, size, file_offset, buffer_offset));
  }
  penstock::Status write(std::uint64_t size, std::int64_t file_offset) {
    return submit(request(PENSTOCK_WRITE, size, file_offset));
  }
  void* buffer() const { return reinterpret_cast<void*>(buffer_); }
  void synchronize() { ASSERT_EQ(driver("cuStreamSynchronize", stream_), 0); }

  void* context_ = nullptr;
  int fd_ = -1;
  std::string content_ = std::string(kSize, '\0');
  std::optional<Session> session_;
  File file_{nullptr};
  void* stream_ = nullptr;
  unsigned long long buffer_ = 0;
  penstock::Sized<penstock_stream_result> result_;
};

TEST_F(PublicStreamTest, AReadComesBeforeWhatIsOnTheStreamAfterIt) {
  std::string back(kSize, '\0');

  ASSERT_TRUE(read(kSize - 100, 100, 0).ok());
  ASSERT_EQ(driver("cuMemcpyDtoHAsync_v2", static_cast<void*>(back.data()), buffer_, kSize, stream_), 0);
  synchronize();

  EXPECT_EQ(result_.done, 1);
  EXPECT_EQ(result_.status.code, 0);
  EXPECT_EQ(result_.report.bytes, kSize - 100);
  EXPECT_EQ(penstock_report_bytes(&result_.report, PENSTOCK_PATH_BOUNCE), kSize - 100);
  EXPECT_TRUE(back.compare(0, kSize - 100, content_, 100) == 0);
}

TEST_F(PublicStreamTest, AWriteComesAfterWhatWasOnTheStreamBeforeIt) {
  ASSERT_EQ(driver("cuMemsetD8Async", buffer_, static_cast<unsigned char>('z'), std::size_t{5000}, stream_), 0);
  ASSERT_TRUE(write(5000, 7).ok());
  synchronize();

  std::string written(5000, '\0');
  ASSERT_EQ(::pread(fd_, written.data(), 5000, 7), 5000);
  EXPECT_TRUE(written == std::string(5000, 'z'));
  EXPECT_EQ(result_.report.bytes, 5000u);
}

TEST_F(PublicStreamTest, AReadOfNothingIsOverWithTheCall) {
  ASSERT_TRUE(read(0, 0, 0).ok());

  EXPECT_EQ(result_.done, 1);
  EXPECT_EQ(result_.report.bytes, 0u);
}

TEST_F(PublicStreamTest, ACopyThatReachesBeyondPageLockedMemoryIsRefusedWhereNothingIsMapped) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const both = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_EQ(::munmap(static_cast<char*>(both) + page, page), 0);
  ASSERT_EQ(driver("cuMemHostRegister_v2", both, page, 0u), 0);

  EXPECT_EQ(penstock_device_upload(session_->raw(), buffer(), both, page).code, PENSTOCK_OK);
  EXPECT_EQ(penstock_device_upload(session_->raw(), buffer(), both, 2 * page).code, PENSTOCK_BAD_POINTER);

  ASSERT_EQ(driver("cuMemHostUnregister", both), 0);
  ::munmap(both, page);
}

TEST_F(PublicStreamTest, WhatCannotBeIsToldInTheResult) {
  ASSERT_TRUE(read(100, -1, 0).ok());
  synchronize();

  EXPECT_EQ(result_.done, 1);
  EXPECT_EQ(result_.status.code, PENSTOCK_NEGATIVE_OFFSET);
}

TEST_F(PublicStreamTest, ARequestOnAStreamIsAnObjectThatMayGoBeforeItsEnd) {
  auto first = File::submit(file_.request(PENSTOCK_READ, buffer(), kSize, 0), stream_);
  auto refused = File::submit(file_.request(PENSTOCK_READ, nullptr, kSize, 0), stream_);
  ASSERT_TRUE(first) << first.error().message();
  { const auto gone = File::submit(file_.request(PENSTOCK_READ, buffer(), kSize, 0), stream_); }
  synchronize();

  EXPECT_TRUE(first->is_done());
  EXPECT_EQ(first->outcome().report.bytes, kSize);
  EXPECT_TRUE(refused.error().is(PENSTOCK_INVALID_ARGUMENT));
}

TEST_F(PublicStreamTest, WhatAStreamCannotDoIsRefusedAndNotIgnored) {
  penstock::Request late = request(PENSTOCK_READ, 100, 0), bound = late, odd = late, scattered = late;
  late.deadline_ns = 1;
  bound.flags = PENSTOCK_REQUEST_REQUIRES_PATH;
  odd.op = 7;
  const iovec piece{buffer(), 100};
  scattered.base = nullptr;
  scattered.size = 0;
  scattered.pieces = &piece;
  scattered.piece_count = 1;

  EXPECT_TRUE(submit(late).is(PENSTOCK_UNSUPPORTED));
  EXPECT_TRUE(submit(bound).is(PENSTOCK_UNSUPPORTED));
  EXPECT_TRUE(submit(scattered).is(PENSTOCK_UNSUPPORTED));
  EXPECT_TRUE(submit(odd).is(PENSTOCK_INVALID_ARGUMENT));
  EXPECT_EQ(result_.done, 0);
}

TEST_F(PublicStreamTest, ARequestThatNamesAStreamGoesByNoOtherCall) {
  const penstock::Request named = request(PENSTOCK_READ, 100, 0);
  auto queue = session_->queue(1);
  ASSERT_TRUE(queue);

  EXPECT_EQ(penstock_transfer(&named, nullptr).code, PENSTOCK_UNSUPPORTED);
  EXPECT_TRUE(queue->submit(named).is(PENSTOCK_UNSUPPORTED));
}

TEST_F(PublicStreamTest, AResultWhoseSizeIsNotSetIsRefusedBeforeTheStreamHearsOfIt) {
  result_.struct_size = 0;

  EXPECT_TRUE(read(100, 0, 0).is(PENSTOCK_INVALID_ARGUMENT));
}

}  // namespace

int main(int argc, char** argv) {
  ::unsetenv("PENSTOCK_DEVICE");
  if (::dlopen(PENSTOCK_FAKE_CUDA, RTLD_NOW | RTLD_GLOBAL) == nullptr) return 1;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
