// SPDX-License-Identifier: Apache-2.0

// cuFile's calls on streams, from outside: libcufile.so.0 over the CUDA driver without a GPU, which this program finds
// as libcuda.so.1. The driver's own calls are made as an application makes them.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "cufile.h"

namespace {

class CufileStreamTest : public testing::Test {
 protected:
  static constexpr std::size_t kFileBytes = 8 << 20;

  void SetUp() override {
    ASSERT_EQ(driver("cuInit", 0u), 0);
    ASSERT_EQ(driver("cuDevicePrimaryCtxRetain", &context_, 0), 0);
    ASSERT_EQ(driver("cuCtxSetCurrent", context_), 0);
    name_ = testing::TempDir() + "penstock_stream_XXXXXX";
    fd_ = ::mkstemp(name_.data());
    content_.resize(kFileBytes);
    for (std::size_t i = 0; i < kFileBytes; ++i) content_[i] = static_cast<char>(i * 40503u >> 7);
    ASSERT_EQ(::pwrite(fd_, content_.data(), kFileBytes, 0), static_cast<ssize_t>(kFileBytes));
    CUfileDescr_t descr{};
    descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    descr.handle.fd = fd_;
    ASSERT_EQ(cuFileHandleRegister(&handle_, &descr).err, CU_FILE_SUCCESS);
    ASSERT_EQ(driver("cuStreamCreate", &stream_, 1u), 0);
    ASSERT_EQ(driver("cuMemAlloc_v2", &buffer_, kFileBytes), 0);
  }
  void TearDown() override {
    while (cuFileUseCount() > 0) (void)cuFileDriverClose();
    EXPECT_EQ(driver("cuMemFree_v2", buffer_), 0);
    EXPECT_EQ(driver("cuDevicePrimaryCtxRelease_v2", 0), 0);
    ::close(fd_);
    ::unlink(name_.c_str());
  }

  template <typename... Arguments>
  static int driver(const char* name, Arguments... arguments) {
    static void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
    const auto call = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library, name));
    return call != nullptr ? call(arguments...) : -1;
  }
  void* buffer() const { return reinterpret_cast<void*>(buffer_); }
  CUfileError_t read(CUstream stream) {
    return cuFileReadAsync(handle_, buffer(), &size_, &file_offset_, &buffer_offset_, &bytes_, stream);
  }
  CUfileError_t write(CUstream stream) {
    return cuFileWriteAsync(handle_, buffer(), &size_, &file_offset_, &buffer_offset_, &bytes_, stream);
  }
  void synchronize(CUstream stream) { EXPECT_EQ(driver("cuStreamSynchronize", stream), 0); }
  std::string downloaded(std::size_t offset, std::size_t size) {
    std::string host(size, '\0');
    EXPECT_EQ(driver("cuMemcpyDtoH_v2", static_cast<void*>(host.data()), buffer_ + offset, size), 0);
    return host;
  }

  void* context_ = nullptr;
  std::string name_;
  int fd_ = -1;
  std::string content_;
  CUfileHandle_t handle_ = nullptr;
  CUstream stream_ = nullptr;
  unsigned long long buffer_ = 0;
  size_t size_ = 5000;
  off_t file_offset_ = 0;
  off_t buffer_offset_ = 0;
  ssize_t bytes_ = 12345;
};

TEST_F(CufileStreamTest, DataGoesThereAndBackInTheOrderOfTheStream) {
  size_ = 5 << 20;
  file_offset_ = 100;
  buffer_offset_ = 64;
  ASSERT_EQ(read(stream_).err, CU_FILE_SUCCESS);
  synchronize(stream_);
  EXPECT_EQ(bytes_, 5 << 20);
  EXPECT_TRUE(downloaded(64, size_) == content_.substr(100, size_));

  bytes_ = 0;
  file_offset_ = 7;
  ASSERT_EQ(driver("cuMemsetD8Async", buffer_ + 64, static_cast<unsigned char>('z'), std::size_t{1000}, stream_), 0);
  ASSERT_EQ(write(stream_).err, CU_FILE_SUCCESS);
  synchronize(stream_);
  EXPECT_EQ(bytes_, 5 << 20);
  std::string written(1000, '\0');
  ASSERT_EQ(::pread(fd_, written.data(), 1000, 7), 1000);
  EXPECT_TRUE(written == std::string(1000, 'z'));
}

TEST_F(CufileStreamTest, WhatIsMissingOrUnknownIsRefusedByNumber) {
  const CUfileHandle_t known = handle_;
  void* const base = buffer();
  const auto call = [&](CUfileHandle_t fh, void* memory, size_t* size, off_t* file, off_t* offset, ssize_t* bytes) {
    return cuFileReadAsync(fh, memory, size, file, offset, bytes, stream_).err;
  };
  EXPECT_EQ(call(nullptr, base, &size_, &file_offset_, &buffer_offset_, &bytes_), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(call(known, nullptr, &size_, &file_offset_, &buffer_offset_, &bytes_), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(call(known, base, nullptr, &file_offset_, &buffer_offset_, &bytes_), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(call(known, base, &size_, nullptr, &buffer_offset_, &bytes_), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(call(known, base, &size_, &file_offset_, nullptr, &bytes_), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(call(known, base, &size_, &file_offset_, &buffer_offset_, nullptr), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(bytes_, -EINVAL);
  bytes_ = 12345;
  EXPECT_EQ(call(&size_, base, &size_, &file_offset_, &buffer_offset_, &bytes_), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(bytes_, -EINVAL);
  size_ = SIZE_MAX;
  EXPECT_EQ(call(known, base, &size_, &file_offset_, &buffer_offset_, &bytes_), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileStreamDeregister(stream_).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileStreamRegister(stream_, 31).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileStreamRegister(stream_, 15).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileStreamDeregister(stream_).err, CU_FILE_SUCCESS);
}

TEST_F(CufileStreamTest, FailuresAtTheArrivalAreNegativeNumbers) {
  const auto result = [&] {
    EXPECT_EQ(read(stream_).err, CU_FILE_SUCCESS);
    synchronize(stream_);
    return bytes_;
  };
  file_offset_ = -1;
  EXPECT_EQ(result(), -CU_FILE_INVALID_VALUE);
  file_offset_ = 0;
  buffer_offset_ = -1;
  EXPECT_EQ(result(), -CU_FILE_INTERNAL_ERROR);
  buffer_offset_ = kFileBytes;
  EXPECT_EQ(result(), -CU_FILE_INVALID_MAPPING_SIZE);
  buffer_offset_ = 0;
  ASSERT_EQ(cuFileBufRegister(buffer(), 4096, 0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(result(), -CU_FILE_INVALID_MAPPING_SIZE);
  ASSERT_EQ(cuFileBufDeregister(buffer()).err, CU_FILE_SUCCESS);
  EXPECT_EQ(result(), 5000);

  std::atomic<bool> open{false};
  void (*const wait)(void*) = [](void* gate) { static_cast<std::atomic<bool>*>(gate)->wait(false); };
  ASSERT_EQ(driver("cuLaunchHostFunc", stream_, wait, static_cast<void*>(&open)), 0);
  EXPECT_EQ(read(stream_).err, CU_FILE_SUCCESS);
  size_ = 5001;  // More than at the time of the call.
  open = true;
  open.notify_all();
  synchronize(stream_);
  EXPECT_EQ(bytes_, -CU_FILE_INVALID_VALUE);
}

TEST_F(CufileStreamTest, ACapturedStreamIsNotSupportedAndItsCaptureStands) {
  void* graph = nullptr;
  ASSERT_EQ(cuFileStreamRegister(stream_, 0).err, CU_FILE_SUCCESS);
  ASSERT_EQ(driver("cuStreamBeginCapture_v2", stream_, 0), 0);
  EXPECT_EQ(read(stream_).err, CU_FILE_ASYNC_NOT_SUPPORTED);
  EXPECT_EQ(write(stream_).err, CU_FILE_ASYNC_NOT_SUPPORTED);
  EXPECT_EQ(driver("cuStreamEndCapture", stream_, &graph), 0);
  EXPECT_EQ(read(stream_).err, CU_FILE_SUCCESS);
  synchronize(stream_);
  EXPECT_EQ(bytes_, 5000);
}

TEST_F(CufileStreamTest, WithoutAContextTheDefaultStreamIsTheDriversError) {
  std::thread([&] {
    const CUfileError_t refused = read(nullptr);
    EXPECT_EQ(refused.err, CU_FILE_CUDA_DRIVER_ERROR);
    EXPECT_EQ(refused.cu_err, 201);
  }).join();
  EXPECT_EQ(read(nullptr).err, CU_FILE_SUCCESS);
  EXPECT_EQ(driver("cuCtxSynchronize"), 0);
  EXPECT_EQ(bytes_, 5000);
}

TEST_F(CufileStreamTest, AStreamThatArrivesAfterTheDriverWasClosedGoesOn) {
  struct Gate {
    std::atomic<bool> open{false};
  } gate;
  void (*const wait)(void*) = [](void* argument) { static_cast<Gate*>(argument)->open.wait(false); };
  ASSERT_EQ(driver("cuLaunchHostFunc", stream_, wait, static_cast<void*>(&gate)), 0);
  ASSERT_EQ(read(stream_).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
  EXPECT_EQ(bytes_, 12345);
  gate.open = true;
  gate.open.notify_all();
  synchronize(stream_);
  EXPECT_EQ(bytes_, -CU_FILE_DRIVER_CLOSING);
}

TEST_F(CufileStreamTest, RegisteredStreamsAreForgottenWhenTheDriverCloses) {
  ASSERT_EQ(cuFileStreamRegister(stream_, 7).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileStreamDeregister(stream_).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileStreamRegister(stream_, 7).err, CU_FILE_SUCCESS);
}

TEST_F(CufileStreamTest, RegisteringWithAClosedDriverLeavesItClosedAndHoldsForItsNextOpening) {
  ASSERT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);

  EXPECT_EQ(cuFileStreamRegister(stream_, 7).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileStreamRegister(stream_, 0).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileUseCount(), 0);

  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileStreamRegister(stream_, 0).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileStreamDeregister(stream_).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileStreamDeregister(stream_).err, CU_FILE_INVALID_VALUE);
}

TEST_F(CufileStreamTest, WhatAStreamPromisedWhileTheDriverWasClosedCounts) {
  std::atomic<bool> open{false};
  void (*const wait)(void*) = [](void* gate) { static_cast<std::atomic<bool>*>(gate)->wait(false); };
  ASSERT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileStreamRegister(stream_, 7).err, CU_FILE_SUCCESS);  // Its parameters are fixed.
  CUfileDescr_t descr{};
  descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  descr.handle.fd = fd_;
  ASSERT_EQ(cuFileHandleRegister(&handle_, &descr).err, CU_FILE_SUCCESS);
  ASSERT_EQ(driver("cuLaunchHostFunc", stream_, wait, static_cast<void*>(&open)), 0);

  ASSERT_EQ(read(stream_).err, CU_FILE_SUCCESS);
  size_ = 10;
  open = true;
  open.notify_all();
  synchronize(stream_);

  EXPECT_EQ(bytes_, 5000);
}

TEST_F(CufileStreamTest, ARequestOfNoBytesIsOverAtTheCall) {
  std::atomic<bool> open{false};
  void (*const wait)(void*) = [](void* gate) { static_cast<std::atomic<bool>*>(gate)->wait(false); };
  ASSERT_EQ(driver("cuLaunchHostFunc", stream_, wait, static_cast<void*>(&open)), 0);
  size_ = 0;

  EXPECT_EQ(read(stream_).err, CU_FILE_SUCCESS);
  EXPECT_EQ(bytes_, 0);
  bytes_ = 12345;
  EXPECT_EQ(write(stream_).err, CU_FILE_SUCCESS);
  EXPECT_EQ(bytes_, 0);

  open = true;
  open.notify_all();
  synchronize(stream_);
}

TEST_F(CufileStreamTest, StreamsAreRefusedWhereParallelRequestsAreSwitchedOff) {
  ASSERT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileSetParameterBool(CUFILE_PARAM_EXECUTION_PARALLEL_IO, false).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileStreamRegister(stream_, 0).err, CU_FILE_ASYNC_NOT_SUPPORTED);
  ASSERT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileSetParameterBool(CUFILE_PARAM_EXECUTION_PARALLEL_IO, true).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileStreamRegister(stream_, 0).err, CU_FILE_SUCCESS);
}

TEST_F(CufileStreamTest, BypassingWordsGivesTheSameBytes) {
  ASSERT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileSetParameterBool(CUFILE_PARAM_STREAM_MEMOPS_BYPASS, true).err, CU_FILE_SUCCESS);
  CUfileDescr_t descr{};
  descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  descr.handle.fd = fd_;
  ASSERT_EQ(cuFileHandleRegister(&handle_, &descr).err, CU_FILE_SUCCESS);
  size_ = 6 << 20;
  ASSERT_EQ(read(stream_).err, CU_FILE_SUCCESS);
  synchronize(stream_);
  EXPECT_EQ(bytes_, 6 << 20);
  EXPECT_TRUE(downloaded(0, size_) == content_.substr(0, size_));
  ASSERT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileSetParameterBool(CUFILE_PARAM_STREAM_MEMOPS_BYPASS, false).err, CU_FILE_SUCCESS);
}

TEST_F(CufileStreamTest, TheStatisticsCountWhatStreamsMove) {
  ASSERT_EQ(cuFileSetStatsLevel(1).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileStatsStart().err, CU_FILE_SUCCESS);
  CUfileStatsLevel1_t stats{};
  size_ = 5 << 20;
  ASSERT_EQ(read(stream_).err, CU_FILE_SUCCESS);
  synchronize(stream_);
  ASSERT_EQ(cuFileGetStatsL1(&stats).err, CU_FILE_SUCCESS);
  EXPECT_EQ(stats.read_ops.ok, 1u);
  EXPECT_EQ(stats.read_bytes, static_cast<std::uint64_t>(5 << 20));
  ASSERT_EQ(cuFileSetStatsLevel(0).err, CU_FILE_SUCCESS);
}

}  // namespace

// Loads the driver without a GPU first, so that everybody finds it as libcuda.so.1.
int main(int argc, char** argv) {
  ::setenv("PENSTOCK_DEVICE", "cuda", 1);
  ::unsetenv("CUFILE_ENV_PATH_JSON");
  if (::dlopen(PENSTOCK_FAKE_CUDA, RTLD_NOW | RTLD_GLOBAL) == nullptr) return 1;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
