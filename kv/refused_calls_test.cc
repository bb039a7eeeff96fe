// SPDX-License-Identifier: Apache-2.0

// Each call that a store makes of the system is refused once, and each call of the session's. Afterwards the store has
// what was committed before, no descriptor is held, and a failure has a reason.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <filesystem>

#include "kv/session_volume.h"
#include "kv/store.h"
#include "kv/test_chunks.h"

// The call of this thread that is refused: after so many others. 0: none is.
static thread_local unsigned calls_left = 0;
static thread_local int refusal = 0;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PENSTOCK_CALLS_ARE_REFUSED 1
static bool is_refused() {
  if (calls_left == 0 || --calls_left > 0) return false;
  errno = refusal;
  return true;
}
// These stand in place of the C library's. A sanitizer has its own.
extern "C" {
int mkdir(const char* path, mode_t mode) noexcept {
  return is_refused() ? -1 : static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
int fsync(int fd) { return is_refused() ? -1 : static_cast<int>(::syscall(SYS_fsync, fd)); }
int fdatasync(int fd) { return is_refused() ? -1 : static_cast<int>(::syscall(SYS_fdatasync, fd)); }
int ftruncate(int fd, off_t size) noexcept {
  return is_refused() ? -1 : static_cast<int>(::syscall(SYS_ftruncate, fd, size));
}
int posix_fallocate(int fd, off_t offset, off_t bytes) {
  if (is_refused()) return refusal;
  return ::syscall(SYS_fallocate, fd, 0, offset, bytes) == 0 ? 0 : errno;
}
int flock(int fd, int operation) noexcept {
  return is_refused() ? -1 : static_cast<int>(::syscall(SYS_flock, fd, operation));
}
int memfd_create(const char* name, unsigned flags) noexcept {
  return is_refused() ? -1 : static_cast<int>(::syscall(SYS_memfd_create, name, flags));
}
ssize_t pread(int fd, void* memory, size_t size, off_t offset) {
  return is_refused() ? -1 : ::syscall(SYS_pread64, fd, memory, size, offset);
}
ssize_t pwrite(int fd, const void* memory, size_t size, off_t offset) {
  return is_refused() ? -1 : ::syscall(SYS_pwrite64, fd, memory, size, offset);
}
int openat(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return is_refused() ? -1 : static_cast<int>(::syscall(SYS_openat, folder, path, flags, mode));
}
}
#endif

namespace penstock::kv {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSlab = 8 << 20, kExtent = 1 << 20;
constexpr std::size_t kChunk = 100'000;
constexpr Library kSound = {penstock_file_register, penstock_file_close,  penstock_file_sync,    penstock_transfer,
                            penstock_queue_open,    penstock_queue_close, penstock_queue_submit, penstock_queue_reap,
                            penstock_crc32c_vector, penstock_path_count,  penstock_report_bytes, penstock_file_advise};

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

class RefusedCalls : public testing::Test {
 protected:
  RefusedCalls() {
    std::string name = (fs::temp_directory_path() / "penstock-kv-XXXXXX").string();
    base_ = mkdtemp(name.data());
    penstock_config* config = nullptr;
    EXPECT_EQ(penstock_config_create(&config).code, 0);
    EXPECT_EQ(penstock_config_set(config, "device", "host").code, 0);
    EXPECT_EQ(penstock_session_open(config, &session_).code, 0);
    penstock_config_close(config);
  }
  ~RefusedCalls() override {
    penstock_session_close(session_);
    fs::remove_all(base_);
  }
  using Role = SessionVolume::Role;
  core::Result<std::unique_ptr<SessionVolume>> volume(Role role, const Library& library = kSound, bool direct = true) {
    return SessionVolume::open(library, session_, base_ + "/store", role, kSlab, direct);
  }
  // Puts the chunk, commits and closes. The first failure.
  core::Status put_all(std::uint64_t key, const Library& library = kSound) {
    const auto opened = volume(Role::writer, library);
    if (!opened.ok()) return opened.status();
    const auto store = Store::open(**opened, {name_of(0), kSlab, kExtent});
    if (!store.ok()) return store.status();
    std::vector<std::byte> content = content_of(key, 0, kChunk);
    const iovec piece{content.data(), content.size()};
    Request request{.key = name_of(key), .pieces = {&piece, 1}};
    (*store)->put(each_of({&request, 1}));
    if (request.outcome == Outcome::failed) return request.status;
    if (const core::Status status = (*store)->commit(); !status.ok()) return status;
    return (*store)->close();
  }
  Outcome look(std::uint64_t key) {
    const auto opened = volume(Role::writer);
    const auto store = Store::open(**opened, {name_of(0), kSlab, kExtent});
    std::vector<std::byte> bytes(kChunk);
    const Outcome outcome = get(**store, key, bytes);
    if (outcome == Outcome::done) {
      EXPECT_EQ(bytes, content_of(key, 0, kChunk));
    }
    return outcome;
  }

  std::string base_;
  penstock_session* session_ = nullptr;
};

class RefusedCallsOfTheSystem : public RefusedCalls, public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(With, RefusedCallsOfTheSystem, testing::Values(EIO, EINVAL, ENOSPC));

TEST_P(RefusedCallsOfTheSystem, AStoreLosesNothingThatWasCommittedAndNoDescriptor) {
#ifndef PENSTOCK_CALLS_ARE_REFUSED
  GTEST_SKIP() << "a sanitizer answers for these calls itself";
#endif
  for (const bool is_new : {true, false}) {
    unsigned refused = 0;
    for (unsigned n = 1;; ++n) {
      fs::remove_all(base_ + "/store");
      if (!is_new) {
        ASSERT_TRUE(put_all(1).ok());
      }
      const std::size_t before = open_descriptors();
      calls_left = n, refusal = GetParam();
      const core::Status status = put_all(2);
      const bool was_refused = std::exchange(calls_left, 0) == 0;
      EXPECT_EQ(open_descriptors(), before) << "call " << n;
      if (!was_refused) break;
      ++refused;
      if (!status.ok()) {
        EXPECT_TRUE(status.is_errno(GetParam())) << "call " << n << ": " << core::describe(status);
        EXPECT_GT(core::describe(status).size(), 20u);
      } else {
        EXPECT_EQ(look(2), Outcome::done) << "call " << n << ": it was said to be committed";
      }
      if (!is_new) {
        EXPECT_EQ(look(1), Outcome::done) << "call " << n << ": " << core::describe(status);
      }
      ASSERT_TRUE(put_all(3).ok()) << "call " << n << ": the store cannot be used any more";
    }
    EXPECT_GT(refused, 10u);
  }
}

TEST_P(RefusedCallsOfTheSystem, ATierOfHostMemoryIsThereOrIsSaidNotToBe) {
#ifndef PENSTOCK_CALLS_ARE_REFUSED
  GTEST_SKIP() << "a sanitizer answers for these calls itself";
#endif
  for (unsigned n = 1;; ++n) {
    const std::size_t before = open_descriptors();
    calls_left = n, refusal = GetParam();
    core::Status status = SessionVolume::open(kSound, session_, "", Role::memory, kSlab).status();
    const bool was_refused = std::exchange(calls_left, 0) == 0;
    EXPECT_EQ(open_descriptors(), before) << "call " << n;
    if (!was_refused) break;
    EXPECT_TRUE(status.ok() || status.is_errno(GetParam())) << core::describe(status);
    if (n <= 2) {
      EXPECT_FALSE(status.ok()) << "call " << n;
    }
  }
  EXPECT_TRUE(SessionVolume::open(kSound, session_, "", Role::memory, 0).status().is_errno(EINVAL)) << "no bytes";
}

TEST_F(RefusedCalls, AFolderThatCannotBeMadeIsNamedAsTheReason) {
  fs::remove_all(base_);
  EXPECT_TRUE(volume(Role::writer).status().is_errno(ENOENT));
}

TEST_F(RefusedCalls, ASlabWithoutDirectIoServesAsWell) {
  ASSERT_TRUE(put_all(1).ok());
  const auto opened = volume(Role::reader, kSound, false);
  ASSERT_TRUE(opened.ok()) << core::describe(opened.status());
  EXPECT_TRUE(volume(Role::writer, kSound, false).ok());
}

TEST_F(RefusedCalls, ASlabLargerThanFilesMayBeIsRefusedBeforeTheDriveIsFilled) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit few{kSlab / 2, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &few), 0);
  const core::Status status = volume(Role::writer).status();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(status.is_errno(EFBIG)) << core::describe(status);
  EXPECT_TRUE(volume(Role::writer).ok());
}

// ---- Calls of the session

penstock_status refused() { return {PENSTOCK_DOMAIN_OS, 0, ENOSPC, "do it, as scripted"}; }

TEST_F(RefusedCalls, ASessionThatRefusesACallFailsWhatNeedsIt) {
  struct Row {
    const char* name;
    void (*refuse)(Library&);
  };
  const Row rows[] = {{"register", [](Library& one) { one.file_register = [](auto...) { return refused(); }; }},
                      {"advise", [](Library& one) { one.file_advise = [](auto...) { return refused(); }; }},
                      {"sync", [](Library& one) { one.file_sync = [](auto...) { return refused(); }; }},
                      {"transfer", [](Library& one) { one.transfer = [](auto...) { return refused(); }; }},
                      {"open a queue", [](Library& one) { one.queue_open = [](auto...) { return refused(); }; }},
                      {"submit", [](Library& one) { one.queue_submit = [](auto...) { return refused(); }; }},
                      {"make checksums", [](Library& one) { one.crc32c_vector = [](auto...) { return refused(); }; }}};
  for (const Row& row : rows) {
    fs::remove_all(base_ + "/store");
    ASSERT_TRUE(put_all(1).ok());
    Library library = kSound;
    row.refuse(library);
    const std::size_t before = open_descriptors();
    EXPECT_TRUE(put_all(2, library).is_errno(ENOSPC)) << row.name;
    EXPECT_EQ(open_descriptors(), before) << row.name;
    EXPECT_EQ(look(1), Outcome::done) << row.name;
    EXPECT_EQ(look(2), Outcome::miss) << row.name;
  }
}

// A queue of which others have taken nearly all of the room.
TEST_F(RefusedCalls, AQueueWithLittleRoomMovesAllInItsTime) {
  static unsigned asked = 0;
  asked = 0;
  Library library = kSound;
  library.queue_submit = [](penstock_queue* queue, const penstock_request* all, std::uint32_t,
                            std::uint32_t* taken) -> penstock_status {
    if (asked++ % 2 == 1) return *taken = 0, penstock_status{};
    return penstock_queue_submit(queue, all, 1, taken);
  };
  const auto opened = std::move(volume(Role::writer, library).value());
  const auto store = std::move(Store::open(*opened, {name_of(0), kSlab, kExtent}).value());
  std::vector<std::vector<std::byte>> contents;
  std::vector<iovec> pieces;
  for (std::uint64_t key = 0; key < 8; ++key) contents.push_back(content_of(key, 0, kChunk));
  for (std::vector<std::byte>& content : contents) pieces.push_back({content.data(), kChunk});
  std::vector<Request> requests;
  for (std::uint64_t key = 0; key < 8; ++key) requests.push_back({.key = name_of(key), .pieces = {&pieces[key], 1}});
  store->put(each_of(requests));
  for (const Request& one : requests) EXPECT_EQ(one.outcome, Outcome::done) << core::describe(one.status);
  std::vector<std::byte> memory(kChunk);
  for (std::uint64_t key = 0; key < 8; ++key) {
    EXPECT_EQ(get(*store, key, memory), Outcome::done);
    EXPECT_EQ(memory, content_of(key, 0, kChunk));
  }
}

TEST_F(RefusedCalls, AReasonWithoutBytesCountsNone) {
  MovedBytes moved(kSound);
  penstock_report report{};
  report.struct_size = sizeof report;
  report.path = PENSTOCK_PATH_BOUNCE;
  report.reason = PENSTOCK_REASON_NOT_LISTED;
  moved.count(kSound, report);
  EXPECT_TRUE(moved.by_reason.empty());
  report.bytes = 100;
  moved.count(kSound, report);
  EXPECT_EQ(moved.by_reason[PENSTOCK_REASON_NOT_LISTED], 100u);
}

}  // namespace
}  // namespace penstock::kv
