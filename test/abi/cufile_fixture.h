// SPDX-License-Identifier: Apache-2.0

// The fixture of tests of cuFile's calls: a scratch file of known bytes, its handle, and memory of the stand-in device.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cufile.h"
#include "fakes/cufile_session.h"

// A number that is no enumerator, as a C program may pass it.
template <typename Enum>
Enum number_as(int number) {
  Enum value;
  std::memcpy(&value, &number, sizeof value);
  return value;
}

class CufileFixture : public testing::Test {
 protected:
  static constexpr std::size_t kFileBytes = 4 << 20;

  static char byte_at(std::size_t offset) { return static_cast<char>(offset * 2654435761u >> 13); }
  static std::string bytes_at(std::size_t offset, std::size_t size) {
    std::string bytes(size, '\0');
    for (std::size_t i = 0; i < size; ++i) bytes[i] = byte_at(offset + i);
    return bytes;
  }

  void SetUp() override {
    ::setenv("PENSTOCK_DEVICE", "host", 1);
    name_ = testing::TempDir() + "penstock_cufile_XXXXXX";
    fd_ = ::mkstemp(name_.data());
    ASSERT_GE(fd_, 0);
    const std::string content = bytes_at(0, kFileBytes);
    ASSERT_EQ(::pwrite(fd_, content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
    handle_ = register_fd(fd_);
    ASSERT_NE(handle_, nullptr);
  }
  void TearDown() override {
    while (cuFileUseCount() > 0) (void)cuFileDriverClose();
    ::close(fd_);
    ::unlink(name_.c_str());
  }

  CUfileHandle_t register_fd(int fd) {
    CUfileDescr_t descr{};
    descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    descr.handle.fd = fd;
    CUfileHandle_t handle = nullptr;
    EXPECT_EQ(cuFileHandleRegister(&handle, &descr).err, CU_FILE_SUCCESS);
    return handle;
  }
  char* device_memory(std::size_t size) {
    void* memory = nullptr;
    EXPECT_EQ(penstock_device_alloc(penstock::cufile_session(), 0, size, &memory).code, 0);
    return static_cast<char*>(memory);
  }
  std::string file_bytes(std::size_t offset, std::size_t size) const {
    std::string bytes(size, '\0');
    EXPECT_EQ(::pread(fd_, bytes.data(), size, static_cast<off_t>(offset)), static_cast<ssize_t>(size));
    return bytes;
  }
  static void expect_fails(ssize_t result, int error_number) {
    const int got = errno;
    EXPECT_EQ(result, -1);
    EXPECT_EQ(got, error_number);
  }

  std::string name_;
  int fd_ = -1;
  CUfileHandle_t handle_ = nullptr;
};
