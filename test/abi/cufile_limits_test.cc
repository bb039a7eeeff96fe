// SPDX-License-Identifier: Apache-2.0

// cuFile's calls under pressure: canceled threads, threads with small stacks, processes that run out of memory.
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <functional>

#include "cufile_fixture.h"

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // Sanitizers change stacks and memory.
#else
constexpr bool kSanitized = false;
#endif

constexpr unsigned kPatienceSeconds = 120;  // After so long SIGALRM ends a test that hangs.

using Work = std::function<void()>;

CUfileHandle_t registered(int fd) {
  CUfileDescr_t descr{};
  descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  descr.handle.fd = fd;
  CUfileHandle_t handle = nullptr;
  (void)cuFileHandleRegister(&handle, &descr);
  return handle;
}

// Makes eight reads of a page, and waits for them if possible.
bool run_batch(CUfileHandle_t handle, char* memory) {
  constexpr unsigned kEntries = 8;
  static std::array<CUfileIOParams_t, kEntries> params;
  static std::array<CUfileIOEvents_t, kEntries> events;
  params = {};
  for (unsigned i = 0; i < kEntries; ++i) {
    params[i].mode = CUFILE_BATCH;
    params[i].fh = handle;
    params[i].opcode = CUFILE_READ;
    params[i].u.batch = {.devPtr_base = memory, .file_offset = 0, .devPtr_offset = 4096 * i, .size = 4096};
  }
  CUfileBatchHandle_t batch = nullptr;
  unsigned count = kEntries;
  const bool done = cuFileBatchIOSetUp(&batch, kEntries).err == CU_FILE_SUCCESS &&
                    cuFileBatchIOSubmit(batch, kEntries, params.data(), 0).err == CU_FILE_SUCCESS &&
                    cuFileBatchIOGetStatus(batch, kEntries, &count, events.data(), nullptr).err == CU_FILE_SUCCESS;
  cuFileBatchIODestroy(batch);
  return done && count == kEntries;
}

// ---- Canceled threads ----------------------------------------------------------------------------------------------

class CanceledThreadTest : public CufileFixture {
 protected:
  static constexpr unsigned kThreads = 20;

  void SetUp() override {
    CufileFixture::SetUp();
    ::alarm(kPatienceSeconds);
  }
  void TearDown() override {
    ::alarm(0);
    CufileFixture::TearDown();
  }

  // Runs threads that repeat the work, and cancels each of them halfway.
  static void cancel_threads_in(const Work& work) {
    struct Loop {
      const Work& work;
      std::atomic<unsigned> turns{0};
    };
    for (unsigned i = 0; i < kThreads; ++i) {
      Loop loop{work};
      const auto body = [](void* argument) -> void* {
        auto& [todo, turns] = *static_cast<Loop*>(argument);
        for (;; ++turns, ::pthread_testcancel()) todo();
      };
      pthread_t thread;
      ASSERT_EQ(::pthread_create(&thread, nullptr, body, &loop), 0);
      while (loop.turns < 2) ::sched_yield();
      ASSERT_EQ(::pthread_cancel(thread), 0);
      void* result = nullptr;
      ASSERT_EQ(::pthread_join(thread, &result), 0);
      EXPECT_EQ(result, PTHREAD_CANCELED);
    }
  }

  void expect_nothing_was_lost() {
    std::vector<char> host(kFileBytes);
    ASSERT_EQ(cuFileRead(handle_, host.data(), host.size(), 0, 0), static_cast<ssize_t>(host.size()));
    EXPECT_TRUE(std::string(host.begin(), host.end()) == bytes_at(0, host.size()));
    cuFileHandleDeregister(handle_);
    EXPECT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
  }

  void cancel_reads_of(std::size_t size) {
    char* const device = device_memory(size);
    cancel_threads_in([&] { (void)cuFileRead(handle_, device, size, 0, 0); });
    expect_nothing_was_lost();
  }
};

TEST_F(CanceledThreadTest, CanceledInSmallReadsItLosesNothing) { cancel_reads_of(4096); }
TEST_F(CanceledThreadTest, CanceledInReadsOfAMebibyteItLosesNothing) { cancel_reads_of(1 << 20); }
TEST_F(CanceledThreadTest, CanceledInReadsOfManyHandsItLosesNothing) { cancel_reads_of(4 << 20); }

TEST_F(CanceledThreadTest, CanceledInBatchesItLosesNothing) {
  std::vector<char> host(1 << 20);
  cancel_threads_in([&] { (void)run_batch(handle_, host.data()); });
  expect_nothing_was_lost();
}

TEST_F(CanceledThreadTest, CanceledWhileItOpensAndClosesItLosesNothing) {
  cancel_threads_in([] {
    (void)cuFileDriverOpen();
    (void)cuFileDriverClose();
  });
  EXPECT_EQ(cuFileUseCount(), 1);
  expect_nothing_was_lost();
}

TEST_F(CanceledThreadTest, CanceledInPenstocksOwnCallsItLosesNothing) {
  std::vector<char> host(1 << 20);
  penstock_session* const session = penstock::cufile_session();
  penstock_file* file = nullptr;
  const int fd = ::open(name_.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(penstock_file_register(session, fd, &file).code, 0);
  penstock_queue* queue = nullptr;
  penstock::QueueOptions options;
  options.mode = PENSTOCK_QUEUE_POLLED;
  options.depth = 4;
  options.request_bytes_max = 1 << 20;
  ASSERT_EQ(penstock_queue_open(session, &options, &queue).code, 0);

  cancel_threads_in([&] {
    (void)penstock_read(file, host.data(), host.size(), 0, 0, nullptr);
    penstock::Request request;
    request.file = file;
    request.base = host.data();
    request.size = host.size();
    penstock::Completion completion;
    std::uint32_t count = 0;
    if (penstock_queue_submit(queue, &request, 1, nullptr).code != 0) return;
    (void)penstock_queue_reap(queue, &completion, 1, 1, -1, &count);
  });

  penstock_queue_close(queue);
  penstock_file_close(file);
  expect_nothing_was_lost();
  ::close(fd);
}

// ---- Children ------------------------------------------------------------------------------------------------------

// The exit status of a child that runs the work (this process has not opened the driver), or 256 plus a signal.
int end_of_child(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kPatienceSeconds);
    [&work]() noexcept { work(); }();  // An exception ends the child, and must not reach the test framework.
    ::_exit(0);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

class LittleRoomTest : public testing::Test {
 protected:
  static constexpr std::size_t kFileBytes = 8 << 20;

  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a sanitizer needs more";
    ::setenv("PENSTOCK_DEVICE", "host", 1);
    std::string name = testing::TempDir() + "penstock_limits_XXXXXX";
    fd_ = ::mkstemp(name.data());
    ASSERT_GE(fd_, 0);
    ::unlink(name.c_str());
    ASSERT_EQ(::ftruncate(fd_, kFileBytes), 0);
  }
  void TearDown() override {
    if (fd_ >= 0) ::close(fd_);
  }

  static char* memory() {
    alignas(4096) static char bytes[kFileBytes];
    return bytes;
  }
  int fd_ = -1;
};

// ---- Small stacks --------------------------------------------------------------------------------------------------

// Runs the work on a thread with only this much stack, or the system's minimum.
void run_on_small_stack(std::size_t bytes, const Work& work) {
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  const auto least = static_cast<std::size_t>(::sysconf(_SC_THREAD_STACK_MIN));
  if (::pthread_attr_setstacksize(&attributes, std::max(bytes, least)) != 0) ::_exit(3);
  const auto body = [](void* todo) -> void* {
    (*static_cast<const Work*>(todo))();
    return nullptr;
  };
  pthread_t thread;
  if (::pthread_create(&thread, &attributes, body, const_cast<Work*>(&work)) != 0) ::_exit(4);
  ::pthread_join(thread, nullptr);
}

TEST_F(LittleRoomTest, EveryCallWorksOnAThreadWithASmallStack) {
  const auto must = [](bool done) {
    if (!done) ::_exit(1);
  };
  struct Call {
    const char* name;
    Work work;
  };
  const int fd = fd_;
  const Call calls[] = {
      {"open", [&] { must(cuFileDriverOpen().err == CU_FILE_SUCCESS); }},
      {"register", [&] { must(registered(fd) != nullptr); }},
      {"read a page", [&] { must(cuFileRead(registered(fd), memory(), 4096, 0, 0) == 4096); }},
      {"read all", [&] { must(cuFileRead(registered(fd), memory(), kFileBytes, 0, 0) == kFileBytes); }},
      {"write unaligned", [&] { must(cuFileWrite(registered(fd), memory() + 1, 1 << 20, 3, 0) == 1 << 20); }},
      {"batch", [&] { must(run_batch(registered(fd), memory())); }},
  };
  for (const std::size_t kib : {16, 32, 64}) {
    for (const Call& call : calls) {
      EXPECT_EQ(end_of_child([&] { run_on_small_stack(kib << 10, call.work); }), 0) << kib << " KiB: " << call.name;
    }
  }
}

// ---- No memory -----------------------------------------------------------------------------------------------------

// From now on the address space grows by no more than this.
void limit_address_space(std::size_t bytes) {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  unsigned long pages = 0;
  if (file == nullptr || std::fscanf(file, "%lu", &pages) != 1) ::_exit(3);
  std::fclose(file);
  const rlim_t most = pages * static_cast<unsigned long>(::sysconf(_SC_PAGESIZE)) + bytes;
  const rlimit limit{most, most};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(3);
}

// Each call may fail; a call that reports all bytes must have moved them.
void use_everything(int fd, char* memory) {
  const CUfileHandle_t handle = registered(fd);
  constexpr ssize_t kAll = 8 << 20;
  (void)cuFileBufRegister(memory, kAll, 0);
  if (cuFileRead(handle, memory, 4096, 0, 0) > 4096 || cuFileRead(handle, memory, kAll, 0, 0) > kAll) ::_exit(1);
  if (cuFileWrite(handle, memory + 1, kAll - 1, 0, 0) > kAll) ::_exit(1);
  (void)run_batch(handle, memory);
  (void)cuFileExportPCIeTopology("");
  cuFileHandleDeregister(handle);
  (void)cuFileDriverClose();
}

constexpr std::size_t kMib = 1 << 20;

TEST_F(LittleRoomTest, OpeningWithoutMemoryIsAnErrorAndNoAbort) {
  for (std::size_t kib = 0; kib <= 24 * 1024; kib += kib < 4096 ? 128 : 1024) {
    const Work work = [&] {
      limit_address_space(kib << 10);
      use_everything(fd_, memory());
    };
    EXPECT_EQ(end_of_child(work), 0) << kib << " KiB";
  }
  for (std::size_t mib = 32; mib <= 192; mib += 16) {
    const Work work = [&] {
      limit_address_space(mib * kMib);
      use_everything(fd_, memory());
    };
    EXPECT_EQ(end_of_child(work), 0) << mib << " MiB";
  }
}

TEST_F(LittleRoomTest, MemoryThatRunsOutWhileOpenIsAnErrorAndNoAbort) {
  for (std::size_t kib = 0; kib <= 160 * 1024; kib += kib < 2048 ? 128 : 8192) {
    const Work work = [&] {
      if (cuFileDriverOpen().err != CU_FILE_SUCCESS) ::_exit(2);
      limit_address_space(kib << 10);
      use_everything(fd_, memory());
    };
    EXPECT_EQ(end_of_child(work), 0) << kib << " KiB";
  }
}

}  // namespace
