// SPDX-License-Identifier: Apache-2.0

// libcufile.so.0 from outside: a program that knows cufile.h alone. Memory of the stand-in device comes from
// penstock.h. Numbers and return forms are those measured on cuFile 1.15.1.
#include "cufile.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "fakes/cufile_session.h"
#include "fakes/waiting.h"

namespace {

class CufileTest : public testing::Test {
 protected:
  void SetUp() override {
    name_ = testing::TempDir() + "penstock_cufile_XXXXXX";
    fd_ = ::mkstemp(name_.data());
    ASSERT_GE(fd_, 0);
    ASSERT_EQ(::ftruncate(fd_, 1 << 20), 0);
  }
  void TearDown() override {
    while (cuFileUseCount() > 0) (void)cuFileDriverClose();
    ::close(fd_);
    ::unlink(name_.c_str());
  }
  CUfileError_t register_fd(int fd, CUfileHandle_t* handle) {
    CUfileDescr_t descr{};
    descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    descr.handle.fd = fd;
    return cuFileHandleRegister(handle, &descr);
  }
  CUfileHandle_t handle() {
    CUfileHandle_t registered = nullptr;
    EXPECT_EQ(register_fd(fd_, &registered).err, CU_FILE_SUCCESS);
    return registered;
  }
  void* device_memory(std::size_t size) {
    void* memory = nullptr;
    EXPECT_EQ(penstock_device_alloc(penstock::cufile_session(), 0, size, &memory).code, 0);
    return memory;
  }
  void expect_fails(ssize_t result, int error_number) {
    const int got = errno;
    EXPECT_EQ(result, -1);
    EXPECT_EQ(got, error_number);
  }

  std::string name_;
  int fd_ = -1;
};

TEST_F(CufileTest, TheDriverIsCounted) {
  EXPECT_EQ(cuFileUseCount(), 0);
  EXPECT_EQ(cuFileDriverClose().err, CU_FILE_DRIVER_NOT_INITIALIZED);
  EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileUseCount(), 2);
  EXPECT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileDriverClose().err, CU_FILE_DRIVER_NOT_INITIALIZED);
}

TEST_F(CufileTest, RegisteringOpensTheDriverForOneUser) {
  (void)handle();
  EXPECT_EQ(cuFileUseCount(), 1);
  EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileUseCount(), 2);
}

TEST_F(CufileTest, TheLastCloseDropsHandlesAndBuffers) {
  const CUfileHandle_t registered = handle();
  std::vector<char> memory(4096);
  ASSERT_EQ(cuFileBufRegister(memory.data(), memory.size(), 0).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);

  EXPECT_EQ(cuFileBufDeregister(memory.data()).err, CU_FILE_DRIVER_CLOSING);
  cuFileHandleDeregister(registered);
  EXPECT_EQ(cuFileUseCount(), 0);
  expect_fails(cuFileRead(registered, memory.data(), 10, 0, 0), CU_FILE_HANDLE_NOT_REGISTERED);
  EXPECT_EQ(register_fd(fd_, const_cast<CUfileHandle_t*>(&registered)).err, CU_FILE_SUCCESS);
}

TEST_F(CufileTest, DeviceMemoryRoundTrip) {
  const CUfileHandle_t registered = handle();
  auto* memory = static_cast<char*>(device_memory(1 << 20));
  penstock_session* session = penstock::cufile_session();
  const std::string data(300'000, 'w');
  ASSERT_EQ(penstock_device_upload(session, memory, data.data(), data.size()).code, 0);

  EXPECT_EQ(cuFileWrite(registered, memory, data.size(), 777, 0), static_cast<ssize_t>(data.size()));
  EXPECT_EQ(cuFileRead(registered, memory, data.size(), 777, 400'000), static_cast<ssize_t>(data.size()));

  std::string back(data.size(), '\0');
  ASSERT_EQ(penstock_device_download(session, back.data(), memory + 400'000, back.size()).code, 0);
  EXPECT_TRUE(back == data);
  penstock::Counter counters[8];
  std::uint32_t rows = 0;
  ASSERT_EQ(penstock_counters(session, counters, 8, &rows).code, 0);
  ASSERT_EQ(rows, 1u);
  EXPECT_EQ(counters[0].path, PENSTOCK_PATH_BOUNCE);
  EXPECT_EQ(counters[0].read_bytes, data.size());
  EXPECT_EQ(counters[0].write_bytes, data.size());
}

TEST_F(CufileTest, TransfersFailAsNvidiasLibraryDoes) {
  const CUfileHandle_t registered = handle();
  std::vector<char> memory(8192);
  char* base = memory.data();

  expect_fails(cuFileRead(nullptr, base, 10, 0, 0), EINVAL);
  expect_fails(cuFileRead(registered, nullptr, 10, 0, 0), EINVAL);
  EXPECT_EQ(cuFileRead(registered, base, 0, 0, -1), 0);
  expect_fails(cuFileRead(registered, base, 0, -1, 0), CU_FILE_INVALID_VALUE);
  expect_fails(cuFileRead(registered, base, 4096, LONG_MAX - 4095, 0), CU_FILE_INVALID_VALUE);
  expect_fails(cuFileRead(registered, base, SIZE_MAX, 0, 0), CU_FILE_INVALID_MAPPING_RANGE);
  expect_fails(cuFileRead(registered, base, SIZE_MAX, 0, 1), CU_FILE_INTERNAL_ERROR);
  expect_fails(cuFileRead(registered, base, 10, -1, 0), CU_FILE_INVALID_VALUE);
  expect_fails(cuFileRead(registered, base, 10, 0, -1), CU_FILE_INTERNAL_ERROR);
  ASSERT_EQ(cuFileBufRegister(base, 4096, 0).err, CU_FILE_SUCCESS);
  expect_fails(cuFileRead(registered, base, 4096, 0, 1), CU_FILE_INVALID_MAPPING_RANGE);
  expect_fails(cuFileRead(registered, device_memory(4096), 8192, 0, 0), EIO);
  cuFileHandleDeregister(registered);
  expect_fails(cuFileRead(registered, base, 10, 0, 0), CU_FILE_HANDLE_NOT_REGISTERED);
  expect_fails(cuFileRead(registered, base, 0, -1, -1), CU_FILE_HANDLE_NOT_REGISTERED);
  expect_fails(cuFileWrite(registered, base, 10, 0, 0), CU_FILE_HANDLE_NOT_REGISTERED);
}

TEST_F(CufileTest, AReadOnAWriteOnlyFileIsRefusedByNumber) {
  const int writing = ::open(name_.c_str(), O_WRONLY);
  CUfileHandle_t registered = nullptr;
  char memory[16] = {};
  ASSERT_EQ(register_fd(writing, &registered).err, CU_FILE_SUCCESS);

  expect_fails(cuFileRead(registered, memory, 10, 0, 0), CU_FILE_INVALID_FILE_OPEN_FLAG);
  EXPECT_EQ(cuFileWrite(registered, memory, 10, 0, 0), 10);
  ::close(writing);
}

TEST_F(CufileTest, TheEndOfTheFileIsAShortCountThenZero) {
  const CUfileHandle_t registered = handle();
  std::vector<char> memory(8192);

  EXPECT_EQ(cuFileRead(registered, memory.data(), 8192, (1 << 20) - 100, 0), 100);
  EXPECT_EQ(cuFileRead(registered, memory.data(), 8192, 1 << 20, 0), 0);
  EXPECT_EQ(cuFileRead(registered, memory.data(), 8192, 1 << 30, 0), 0);
}

TEST_F(CufileTest, HandlesThatCannotBeAreRefusedByNumber) {
  CUfileHandle_t registered = nullptr;
  CUfileDescr_t descr{};
  descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_WIN32;
  const int directory = ::open("/", O_RDONLY | O_DIRECTORY);
  const int appending = ::open(name_.c_str(), O_WRONLY | O_APPEND);

  EXPECT_EQ(cuFileHandleRegister(nullptr, &descr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileHandleRegister(&registered, nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileHandleRegister(&registered, &descr).err, CU_FILE_IO_NOT_SUPPORTED);
  EXPECT_EQ(register_fd(-1, &registered).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(register_fd(987654, &registered).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(register_fd(directory, &registered).err, CU_FILE_INVALID_FILE_TYPE);
  EXPECT_EQ(register_fd(appending, &registered).err, CU_FILE_INVALID_FILE_OPEN_FLAG);
  EXPECT_EQ(register_fd(fd_, &registered).err, CU_FILE_SUCCESS);
  EXPECT_EQ(register_fd(fd_, &registered).err, CU_FILE_HANDLE_ALREADY_REGISTERED);
  cuFileHandleDeregister(nullptr);
  cuFileHandleDeregister(reinterpret_cast<CUfileHandle_t>(0x7fff12345678));
  ::close(directory);
  ::close(appending);
}

TEST_F(CufileTest, BuffersAreKnownByTheirBase) {
  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  auto* memory = static_cast<char*>(device_memory(65536));

  EXPECT_EQ(cuFileBufRegister(nullptr, 10, 0).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileBufRegister(memory, 0, 0).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileBufRegister(memory, 65537, 0).err, CU_FILE_CUDA_POINTER_RANGE_ERROR);
  EXPECT_EQ(cuFileBufRegister(memory, 65536, 0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileBufRegister(memory, 65536, 0).err, CU_FILE_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(cuFileBufRegister(memory + 4096, 4096, 0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileBufDeregister(nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileBufDeregister(memory + 1).err, CU_FILE_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(cuFileBufDeregister(memory).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileBufDeregister(memory).err, CU_FILE_MEMORY_NOT_REGISTERED);
}

TEST_F(CufileTest, PropertiesTellTheDefaultsAndWhatWasSet) {
  CUfileDrvProps_t props{};
  EXPECT_EQ(cuFileDriverGetProperties(nullptr).err, CU_FILE_INVALID_VALUE);
  ASSERT_EQ(cuFileDriverGetProperties(&props).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileUseCount(), 0);
  EXPECT_EQ(props.nvfs.major_version, 0u);
  EXPECT_EQ(props.nvfs.poll_thresh_size, 4u);
  EXPECT_EQ(props.nvfs.dcontrolflags, 2u);
  EXPECT_EQ(props.max_device_cache_size, 131072u);
  EXPECT_EQ(props.max_device_pinned_mem_size, 33554432u);
  EXPECT_EQ(props.max_batch_io_size, 128u);

  EXPECT_EQ(cuFileDriverSetMaxDirectIOSize(63).err, CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
  EXPECT_EQ(cuFileDriverSetMaxDirectIOSize(16385).err, CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
  EXPECT_EQ(cuFileDriverSetMaxDirectIOSize(1024).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileDriverSetPollMode(true, 8).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileDriverSetMaxCacheSize(4096).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileDriverSetMaxPinnedMemSize(8192).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileDriverGetProperties(&props).err, CU_FILE_SUCCESS);
  EXPECT_EQ(props.nvfs.max_direct_io_size, 1024u);
  EXPECT_EQ(props.nvfs.poll_thresh_size, 8u);
  EXPECT_EQ(props.nvfs.dcontrolflags, 3u);
  EXPECT_EQ(props.max_device_cache_size, 4096u);
  EXPECT_EQ(props.max_device_pinned_mem_size, 8192u);
}

TEST_F(CufileTest, TheVersionIsTheContracts) {
  int version = 0;
  EXPECT_EQ(cuFileGetVersion(&version).err, CU_FILE_SUCCESS);
  EXPECT_EQ(version, 1150);
  EXPECT_EQ(cuFileGetVersion(nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_STREQ(cufileop_status_error(CU_FILE_DIO_NOT_SET), "fd direct IO not set");
  EXPECT_STREQ(cufileop_status_error(static_cast<CUfileOpError>(5021)), "unknown cufile error");
}

TEST_F(CufileTest, StandardInputStaysOpen) {
  const int before = ::fcntl(0, F_GETFD);
  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
  EXPECT_EQ(::fcntl(0, F_GETFD), before);
}

TEST_F(CufileTest, ClosingWhileOthersTransferNeitherCrashesNorHangs) {
  std::atomic<bool> stop{false};
  std::atomic<long> moved{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      std::vector<char> memory(65536);
      while (!stop) {
        CUfileHandle_t registered = nullptr;
        const int fd = ::open(name_.c_str(), O_RDWR | O_CLOEXEC);
        if (register_fd(fd, &registered).err == CU_FILE_SUCCESS) {
          for (int j = 0; j < 20; ++j) {
            if (cuFileRead(registered, memory.data(), memory.size(), j * 1000, 0) > 0) ++moved;
          }
          cuFileHandleDeregister(registered);
        }
        ::close(fd);
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    (void)cuFileDriverClose();
    std::this_thread::yield();
  }
  while (moved == 0) std::this_thread::yield();  // On a busy machine all closes may have ended before the first read.
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

int open_descriptors() {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

TEST_F(CufileTest, NoDescriptorIsLeft) {
  // A large request first, so that threads and the C library's caches exist from here on.
  for (int round = 0; round < 3; ++round) {
    const int before = open_descriptors();
    const CUfileHandle_t registered = handle();
    void* memory = device_memory(8 << 20);
    EXPECT_EQ(cuFileWrite(registered, memory, 8 << 20, 0, 0), 8 << 20);
    EXPECT_EQ(cuFileRead(registered, memory, 8 << 20, 0, 0), 8 << 20);
    ASSERT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
    EXPECT_EQ(open_descriptors(), before);
  }
}

// In a process of its own, since the library stays loaded: open it, use it, close it, many times.
TEST(CufileLifetimeTest, SurvivesDlcloseAndReopening) {
  void* library = nullptr;
  for (int i = 0; i < 20; ++i) {
    library = ::dlopen(PENSTOCK_LIBCUFILE, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << ::dlerror();
    const auto open = reinterpret_cast<CUfileError_t (*)()>(::dlsym(library, "cuFileDriverOpen"));
    const auto close = reinterpret_cast<CUfileError_t (*)()>(::dlsym(library, "cuFileDriverClose"));
    ASSERT_EQ(open().err, CU_FILE_SUCCESS);
    if (i % 2 == 0) {
      ASSERT_EQ(close().err, CU_FILE_SUCCESS);
    }
    ASSERT_EQ(::dlclose(library), 0);
  }
}

// A forked child sees nothing of its parent's open driver, and can open its own.
int use_after_fork(CUfileHandle_t inherited, int fd) {
  char memory[4096] = {};
  errno = 0;
  if (cuFileRead(inherited, memory, sizeof memory, 0, 0) != -1 || errno != CU_FILE_HANDLE_NOT_REGISTERED) return 2;
  CUfileDescr_t descr{};
  descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  descr.handle.fd = fd;
  CUfileHandle_t own = nullptr;
  if (cuFileHandleRegister(&own, &descr).err != CU_FILE_SUCCESS) return 3;
  void* device = nullptr;
  if (penstock_device_alloc(penstock::cufile_session(), 0, 8 << 20, &device).code != 0) return 4;
  if (cuFileWrite(own, device, 8 << 20, 0, 0) != 8 << 20) return 5;
  return cuFileDriverClose().err == CU_FILE_SUCCESS && cuFileUseCount() == 0 ? 0 : 6;
}

TEST_F(CufileTest, AForkedChildStartsAfreshAndTheParentGoesOn) {
  const CUfileHandle_t registered = handle();
  void* memory = device_memory(8 << 20);
  ASSERT_EQ(cuFileWrite(registered, memory, 8 << 20, 0, 0), 8 << 20);

  const pid_t child = ::fork();
  if (child == 0) ::_exit(use_after_fork(registered, fd_));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);

  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(cuFileWrite(registered, memory, 8 << 20, 0, 0), 8 << 20);
}

TEST_F(CufileTest, AskingForPropertiesWhileOthersCloseDoesNotHang) {
  std::atomic<bool> stop{false};
  std::atomic<unsigned> answers{0};
  std::thread asker([&] {
    CUfileDrvProps_t props{};
    while (!stop) (void)cuFileDriverGetProperties(&props), ++answers;
  });
  EXPECT_TRUE(penstock::wait_until([&] { return answers > 0; }));

  for (int i = 0; i < 300; ++i) (void)cuFileDriverClose();

  const unsigned before = answers;
  EXPECT_TRUE(penstock::wait_until([&] { return answers > before; }));
  stop = true;
  asker.join();
}

TEST(CufileLifetimeTest, AProcessMayEndInTheMiddleOfEverything) {
  for (const bool quick : {false, true}) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::string name = testing::TempDir() + "penstock_exit_XXXXXX";
      const int fd = ::mkstemp(name.data());
      ::unlink(name.c_str());
      CUfileDescr_t descr{};
      descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
      descr.handle.fd = fd;
      CUfileHandle_t registered = nullptr;
      if (cuFileHandleRegister(&registered, &descr).err != CU_FILE_SUCCESS) ::_exit(2);
      void* memory = nullptr;
      if (penstock_device_alloc(penstock::cufile_session(), 0, 64 << 20, &memory).code != 0) ::_exit(3);
      std::thread([=] {
        for (;;) (void)cuFileWrite(registered, memory, 64 << 20, 0, 0);
      }).detach();
      struct stat facts {};
      if (!penstock::wait_until([&] { return ::fstat(fd, &facts) == 0 && facts.st_size > 0; })) ::_exit(4);
      if (quick) ::_exit(0);
      std::exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

}  // namespace

int main(int argc, char** argv) {
  ::setenv("PENSTOCK_DEVICE", "host", 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
