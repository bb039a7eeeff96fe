// SPDX-License-Identifier: Apache-2.0

// Refuses one allocation after the other: cuFile's calls must return an error or succeed without it, and leak nothing.
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "cufile_fixture.h"

namespace {

std::atomic<long> allocations{0};
std::atomic<long> refused{-1};  // The number of the allocation to refuse.

bool is_refused() { return allocations.fetch_add(1) == refused.load(); }

void* allocate(std::size_t size) { return is_refused() ? nullptr : std::malloc(std::max<std::size_t>(size, 1)); }

void* allocate_or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// These replace the operators of the whole process, also for the library.
void* operator new(std::size_t size) { return allocate_or_throw(allocate(size)); }
void* operator new[](std::size_t size) { return allocate_or_throw(allocate(size)); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void* operator new(std::size_t size, std::align_val_t align) {
  const auto alignment = static_cast<std::size_t>(align);
  if (is_refused()) throw std::bad_alloc();
  return allocate_or_throw(std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace {

constexpr unsigned kPatienceSeconds = 60;  // Then SIGALRM ends what hangs.
constexpr std::size_t kAll = 8 << 20;

class ShortageTest : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizer's own allocation functions are in use";
#endif
    ::setenv("PENSTOCK_DEVICE", "host", 1);
    ::setenv("PENSTOCK_REPORT", report_.c_str(), 1);  // The report allocates memory, too.
    std::string name = testing::TempDir() + "penstock_shortage_XXXXXX";
    fd_ = ::mkstemp(name.data());
    ASSERT_GE(fd_, 0);
    ::unlink(name.c_str());
    ASSERT_EQ(::ftruncate(fd_, kAll), 0);
  }
  void TearDown() override {
    ::unlink(report_.c_str());
    if (fd_ >= 0) ::close(fd_);
  }

  // Makes every kind of call. Returns true if all succeeded.
  static bool use_everything(int fd) {
    alignas(4096) static char host[kAll];
    bool good = cuFileSetParameterString(CUFILE_PARAM_LOGGING_LEVEL, "ERROR").err == CU_FILE_SUCCESS;
    good &= cuFileDriverOpen().err == CU_FILE_SUCCESS;
    CUfileDescr_t descr{};
    descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    descr.handle.fd = fd;
    CUfileHandle_t handle = nullptr;
    good &= cuFileHandleRegister(&handle, &descr).err == CU_FILE_SUCCESS;
    good &= cuFileBufRegister(host, kAll, 0).err == CU_FILE_SUCCESS;
    good &= cuFileRead(handle, host, 4096, 0, 0) == 4096;
    good &= cuFileWrite(handle, host, kAll, 0, 0) == kAll;
    good &= cuFileRead(handle, host, kAll, 0, 0) == kAll;
    good &= use_a_batch(handle, host);
    good &= cuFileBufDeregister(host).err == CU_FILE_SUCCESS;
    cuFileHandleDeregister(handle);
    while (cuFileUseCount() > 0) good &= cuFileDriverClose().err == CU_FILE_SUCCESS;
    return good;
  }

  static bool use_a_batch(CUfileHandle_t handle, char* memory) {
    CUfileIOParams_t params[8]{};
    CUfileIOEvents_t events[8]{};
    for (unsigned i = 0; i < 8; ++i) {
      params[i].mode = CUFILE_BATCH;
      params[i].fh = handle;
      params[i].opcode = CUFILE_READ;
      params[i].u.batch = {.devPtr_base = memory, .file_offset = 0, .devPtr_offset = 4096 * i, .size = 4096};
    }
    CUfileBatchHandle_t batch = nullptr;
    unsigned count = 8;
    bool good = cuFileBatchIOSetUp(&batch, 8).err == CU_FILE_SUCCESS;
    good = good && cuFileBatchIOSubmit(batch, 8, params, 0).err == CU_FILE_SUCCESS;
    good = good && cuFileBatchIOGetStatus(batch, 8, &count, events, nullptr).err == CU_FILE_SUCCESS && count == 8;
    for (const CUfileIOEvents_t& event : events) good = good && event.ret == 4096;
    cuFileBatchIODestroy(batch);
    return good;
  }

  const std::string report_ = testing::TempDir() + "penstock-shortage.json";
  int fd_ = -1;
};

TEST_F(ShortageTest, AnAllocationThatFailsIsAnErrorAtMostAndAllWorksAfterwards) {
  enum : int { kGood = 0, kLost = 1, kThrough = 2 };
  bool through = false;
  for (long number = 0; !through && number < 100'000; ++number) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(kPatienceSeconds);
      [this, number]() noexcept {
        allocations = 0;
        refused = number;
        (void)use_everything(fd_);
        const bool is_through = allocations.load() <= number;
        refused = -1;
        ::_exit(!use_everything(fd_) ? kLost : is_through ? kThrough : kGood);
      }();
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "allocation " << number << ": signal " << WTERMSIG(status);
    EXPECT_NE(WEXITSTATUS(status), kLost) << "allocation " << number;
    through = WEXITSTATUS(status) == kThrough;
  }
  EXPECT_TRUE(through);
}

}  // namespace
