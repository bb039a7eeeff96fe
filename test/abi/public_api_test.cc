// SPDX-License-Identifier: Apache-2.0

// libpenstock.so.0 from outside: a program that knows penstock.hpp alone.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <string>

#include "penstock/penstock.hpp"

namespace {

using penstock::Options;
using penstock::Outcome;
using penstock::Session;

Options host_options() {
  Options options;
  options.device = "host";
  return options;
}

class PublicApiTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "penstock_api_XXXXXX";
    fd_ = ::mkstemp(name.data());
    ASSERT_GE(fd_, 0);
    ::unlink(name.c_str());
  }
  void TearDown() override { ::close(fd_); }
  int fd_ = -1;
};

TEST_F(PublicApiTest, ATransferTellsItsPathAndWhyNoBetterOne) {
  auto session = Session::open(host_options());
  ASSERT_TRUE(session) << session.error().message();
  auto file = session->file(fd_);
  auto memory = session->allocate(0, 1 << 20);
  ASSERT_TRUE(file && memory);

  const Outcome outcome = session->write(*file, memory->data(), 1 << 20, 0);

  ASSERT_TRUE(outcome) << outcome.status.message();
  EXPECT_EQ(outcome.report.bytes, 1u << 20);
  EXPECT_EQ(outcome.report.bytes_by_path[PENSTOCK_PATH_BOUNCE], 1u << 20);
  EXPECT_EQ(outcome.report.direct_bytes + outcome.report.cached_bytes, 1u << 20);
  EXPECT_STREQ(outcome.report.path_name(), "bounce");
  EXPECT_STREQ(outcome.report.reason_name(), "stand_in");
  EXPECT_EQ(outcome.report.refused_path, PENSTOCK_PATH_P2PDMA);
  ASSERT_EQ(session->counters().size(), 1u);
  EXPECT_EQ(session->counters()[0].write_bytes, 1u << 20);
}

TEST_F(PublicApiTest, ExplainingNamesEveryPathInOrder) {
  auto session = Session::open(host_options());
  auto file = session->file(fd_);

  auto verdicts = session->explain(*file, 0);

  ASSERT_TRUE(verdicts) << verdicts.error().message();
  ASSERT_EQ(verdicts->size(), 5u);
  const char* names[] = {"p2pdma", "pagecache", "vendor", "bounce", "host"};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_STREQ((*verdicts)[i].path_name(), names[i]);
    EXPECT_EQ((*verdicts)[i].usable, i == 3 ? 1 : 0);
    EXPECT_GT(std::strlen((*verdicts)[i].sentence()), 0u);
  }
  EXPECT_TRUE(session->explain(*file, 99).error().is(PENSTOCK_NO_DEVICE));
}

TEST_F(PublicApiTest, APlanIsTextALineAChunkAndMovesNothing) {
  ASSERT_EQ(::ftruncate(fd_, 1 << 20), 0);
  auto session = Session::open(host_options());
  auto file = session->file(fd_);

  auto plan = session->plan(*file, 0, true, 5000, 100);

  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(*plan, "write buffered file 100+5000 buffer +0\nby the caller's own thread\n");
  EXPECT_TRUE(session->counters().empty());
  EXPECT_NE(session->plan(*file, 0, false, std::size_t{1} << 40, 0)->find("... and "), std::string::npos);
  EXPECT_TRUE(session->plan(*file, 0, false, 1, -1).error().is(PENSTOCK_NEGATIVE_OFFSET));
  EXPECT_TRUE(session->plan(*file, 7, false, 1, 0).error().is(PENSTOCK_NO_DEVICE));
}

TEST_F(PublicApiTest, ARequiredPathThatCannotServeIsAnErrorAndNotAFallback) {
  Options options = host_options();
  options.require = "p2pdma";
  auto session = Session::open(options);
  auto file = session->file(fd_);
  auto memory = session->allocate(0, 4096);

  const Outcome outcome = session->write(*file, memory->data(), 4096, 0);

  EXPECT_TRUE(outcome.status.is(PENSTOCK_PATH_REFUSED)) << outcome.status.message();
  EXPECT_EQ(outcome.report.bytes, 0u);
  EXPECT_STREQ(outcome.report.reason_name(), "stand_in");
  EXPECT_EQ(::lseek(fd_, 0, SEEK_END), 0);
}

TEST_F(PublicApiTest, ARequiredPathIsTakenThoughABetterOneIsListed) {
  Options options = host_options();
  options.paths = "bounce,null";
  options.require = "null";
  auto session = Session::open(options);
  auto file = session->file(fd_);
  auto memory = session->allocate(0, 4096);

  const Outcome outcome = session->write(*file, memory->data(), 4096, 0);

  EXPECT_TRUE(outcome) << outcome.status.message();
  EXPECT_STREQ(outcome.report.path_name(), "null");
}

TEST_F(PublicApiTest, PathsAreTakenInTheOrderGiven) {
  Options options = host_options();
  options.paths = "null,bounce";
  auto session = Session::open(options);
  auto file = session->file(fd_);
  auto memory = session->allocate(0, 4096);

  const Outcome outcome = session->write(*file, memory->data(), 4096, 0);

  EXPECT_STREQ(outcome.report.path_name(), "null");
  EXPECT_EQ(::lseek(fd_, 0, SEEK_END), 0);
}

TEST_F(PublicApiTest, OptionsOfAnOlderCallerAndBadOnes) {
  Options options = host_options();
  options.size = offsetof(penstock_options, device);  // As if the rest did not exist yet.
  options.require = "nonsense";
  EXPECT_TRUE(Session::open(options));
  options.size = 0;
  EXPECT_TRUE(Session::open(options).error().is(PENSTOCK_INVALID_ARGUMENT));

  Options bad = host_options();
  bad.paths = "bounce,fastest";
  const auto refused = Session::open(bad);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().is(PENSTOCK_BAD_SETTING));
  EXPECT_NE(refused.error().message().find("paths=bounce,fastest: expected auto, or some of p2pdma"), std::string::npos)
      << refused.error().message();
}

TEST_F(PublicApiTest, OptionsOfANewerCallerAreTakenWhereTheySayNothingMore) {
  struct Newer {
    penstock_options known;
    std::uint64_t more;
  } newer{};
  newer.known.size = sizeof newer;
  newer.known.device = "host";
  penstock_session* session = nullptr;
  ASSERT_EQ(penstock_session_open(&newer.known, &session).code, 0);
  penstock_session_close(session);

  newer.more = 1;

  EXPECT_EQ(penstock_session_open(&newer.known, &session).code, PENSTOCK_UNSUPPORTED);
}

TEST_F(PublicApiTest, ARequestThatSaysWhatMeansNothingYetIsRefused) {
  auto session = Session::open(host_options());
  auto file = session->file(fd_);
  auto memory = session->allocate(0, 4096);
  auto queue = session->queue(1, 4096);
  const auto outcome_of = [&](int is_write, std::uint64_t reserved) {
    return queue->submit(
        {.is_write = is_write, .file = file->id(), .base = memory->data(), .size = 4096, .reserved = {0, reserved}});
  };

  for (const int odd : {2, 77, -1}) {
    EXPECT_TRUE(outcome_of(odd, 0).is(PENSTOCK_INVALID_ARGUMENT)) << odd;
    penstock_status status;
    penstock_choice choice;
    EXPECT_EQ(penstock_explain(session->raw(), file->id(), nullptr, 0, odd, nullptr, 0, &status), 0u);
    EXPECT_EQ(status.code, PENSTOCK_INVALID_ARGUMENT);
    EXPECT_EQ(penstock_plan(session->raw(), file->id(), nullptr, 0, odd, 4096, 0, nullptr, 0, &status), 0u);
    EXPECT_EQ(status.code, PENSTOCK_INVALID_ARGUMENT);
    EXPECT_EQ(penstock_choose(session->raw(), file->id(), nullptr, 0, odd, 4096, 0, &choice).code,
              PENSTOCK_INVALID_ARGUMENT);
  }
  EXPECT_TRUE(outcome_of(1, 1).is(PENSTOCK_INVALID_ARGUMENT));
  EXPECT_EQ(::lseek(fd_, 0, SEEK_END), 0);
  EXPECT_TRUE(outcome_of(1, 0));
}

TEST_F(PublicApiTest, NullArgumentsAreErrors) {
  EXPECT_EQ(penstock_session_open(nullptr, nullptr).code, PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_read(nullptr, 1, nullptr, 1, 0, 0, nullptr).code, PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_file_register(nullptr, 0, nullptr).code, PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_queue_open(nullptr, 1, 1, nullptr).code, PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_counters(nullptr, nullptr, 0), 0u);
  EXPECT_EQ(penstock_device_count(nullptr), 0u);
  penstock_session_close(nullptr);
  EXPECT_EQ(penstock_queue_reap(nullptr, nullptr, 0, 0), 0u);
  EXPECT_STREQ(penstock_path_name(99), "unknown");
  EXPECT_STREQ(penstock_reason_name(-1), "unknown");
  EXPECT_EQ(penstock_path_by_name("p2pdma"), PENSTOCK_PATH_P2PDMA);
  EXPECT_EQ(penstock_path_by_name(nullptr), -1);
  char tiny[8];
  const penstock_status status{.domain = PENSTOCK_DOMAIN_OS, .driver = 0, .code = EIO, .step = "read"};
  EXPECT_EQ(penstock_status_message(status, tiny, sizeof tiny), 7u);
  EXPECT_EQ(tiny[7], '\0');
}

TEST_F(PublicApiTest, KindsOfDevicesAreToldUntilTheLast) {
  std::string kinds;
  for (unsigned i = 0; penstock_device_kind_name(i) != nullptr; ++i) {
    kinds += std::string(penstock_device_kind_name(i)) + ": " + penstock_device_kind_sentence(i) + "\n";
  }
  EXPECT_TRUE(kinds.starts_with("cuda: NVIDIA GPUs\nhost: host memory standing in for a GPU\n")) << kinds;
  EXPECT_EQ(penstock_device_kind_sentence(99), nullptr);
}

TEST_F(PublicApiTest, ADeviceTellsItsKind) {
  auto session = Session::open(host_options());
  ASSERT_TRUE(session) << session.error().message();
  penstock_device_info info{};
  ASSERT_EQ(penstock_device_get(session->raw(), 1, &info).code, PENSTOCK_OK);
  EXPECT_STREQ(info.kind, "host");
  EXPECT_EQ(session->device_kind(), "host");
}

TEST_F(PublicApiTest, AnUnknownKindOfDeviceIsASettingThatIsToldWithAllThereAre) {
  Options options = host_options();
  options.device = "cuda,gpu";
  const auto session = Session::open(options);
  ASSERT_FALSE(session);
  EXPECT_TRUE(session.error().is(PENSTOCK_BAD_SETTING));
  EXPECT_NE(session.error().message().find("device=cuda,gpu: expected auto, or some of cuda, host"), std::string::npos)
      << session.error().message();
}

TEST_F(PublicApiTest, ADriversOwnNumberComesWithTheDriversName) {
  const penstock::Status lost(penstock_status{
      .domain = PENSTOCK_DOMAIN_DRIVER, .driver = 0, .code = 719, .step = "page-lock host memory for the GPU"});
  EXPECT_STREQ(lost.driver(), "cuda");
  EXPECT_EQ(lost.message(), "could not page-lock host memory for the GPU: error 719 of the cuda driver");
  const penstock::Status missing(
      penstock_status{.domain = PENSTOCK_DOMAIN_OS, .driver = 0, .code = ENOENT, .step = "open the file"});
  EXPECT_STREQ(missing.driver(), "");
  const penstock::Status unknown(
      penstock_status{.domain = PENSTOCK_DOMAIN_DRIVER, .driver = 200, .code = 3, .step = "start"});
  EXPECT_STREQ(unknown.driver(), "");
  EXPECT_EQ(unknown.message(), "could not start: error 3 of the device driver");
}

TEST_F(PublicApiTest, AQueueMovesWhatItIsGiven) {
  auto session = Session::open(host_options());
  auto file = session->file(fd_);
  auto memory = session->allocate(0, 1 << 20);
  auto queue = session->queue(200, 4096);
  ASSERT_TRUE(queue) << queue.error().message();
  for (std::uint64_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(queue->submit({.is_write = 1,
                               .file = file->id(),
                               .base = memory->data(),
                               .size = 4096,
                               .file_offset = static_cast<std::int64_t>(i * 4096),
                               .buffer_offset = 0,
                               .cookie = i}));
  }

  penstock_completion completions[200];
  EXPECT_EQ(queue->reap(completions, 200), 200u);

  EXPECT_EQ(::lseek(fd_, 0, SEEK_END), 200 * 4096);
}

std::uint64_t resident_anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word == "RssAnon:") {
      std::uint64_t kib = 0;
      status >> kib;
      return kib << 10;
    }
  }
  return 0;
}

// The stand-in's own memory is shared, so what counts as anonymous is the library.
TEST_F(PublicApiTest, FourGibibytesTakeNoMoreMemoryThanTheRing) {
  constexpr std::uint64_t kSize = std::uint64_t{4} << 30;
  ASSERT_EQ(::ftruncate(fd_, static_cast<off_t>(kSize + 12345)), 0);
  Options options = host_options();
  options.direct_io = "never";
  auto session = Session::open(options);
  auto file = session->file(fd_);
  auto memory = session->allocate(0, std::size_t{512} << 20);
  const std::uint64_t before = resident_anonymous_bytes();
  ASSERT_GT(before, 0u);

  std::uint64_t moved = 0;
  while (moved < kSize) {
    const Outcome outcome = session->read(*file, memory->data(), memory->size(), static_cast<std::int64_t>(moved));
    ASSERT_TRUE(outcome) << outcome.status.message();
    ASSERT_EQ(outcome.report.bytes, memory->size());
    moved += outcome.report.bytes;
  }

  const std::uint64_t used = resident_anonymous_bytes() - before;
  EXPECT_LE(session->ring_bytes(), std::uint64_t{256} << 20);
  EXPECT_LE(used, session->ring_bytes() + (std::uint64_t{64} << 20));
}

TEST_F(PublicApiTest, OneRequestFarAboveTwoGibibytes) {
  constexpr std::uint64_t kSize = (std::uint64_t{5} << 29) + 4097;  // 2.5 GiB and a bit, of holes and two islands.
  ASSERT_EQ(::ftruncate(fd_, static_cast<off_t>(kSize + 1)), 0);
  ASSERT_EQ(::pwrite(fd_, "first", 5, 3), 5);
  ASSERT_EQ(::pwrite(fd_, "last", 4, static_cast<off_t>(kSize - 3)), 4);
  auto session = Session::open(host_options());
  auto file = session->file(fd_);
  auto memory = session->allocate(0, kSize);
  ASSERT_TRUE(memory) << memory.error().message();

  const Outcome outcome = session->read(*file, memory->data(), kSize, 1);

  ASSERT_TRUE(outcome) << outcome.status.message();
  EXPECT_EQ(outcome.report.bytes, kSize);
  EXPECT_EQ(std::memcmp(memory->data() + 2, "first", 5), 0);
  EXPECT_EQ(std::memcmp(memory->data() + kSize - 4, "last", 4), 0);
}

// Forbids io_uring the way container runtimes do.
bool forbid_io_uring() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof filter / sizeof filter[0], filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int move_without_io_uring(int fd) {
  if (!forbid_io_uring()) return 77;
  auto session = Session::open(host_options());
  auto file = session->file(fd);
  auto memory = session->allocate(0, 32 << 20);
  std::memset(memory->data(), 'u', memory->size());
  const Outcome outcome = session->write(*file, memory->data(), memory->size(), 0);
  if (!outcome || outcome.report.bytes != memory->size()) return 1;
  const auto verdicts = session->explain(*file, 0);
  const penstock::Verdict& bounce = (*verdicts)[3];
  if (bounce.usable != 1 || bounce.reason != PENSTOCK_REASON_IO_URING_FORBIDDEN || bounce.detail != EPERM) return 2;
  auto queue = session->queue(4, 4096);
  if (!queue->submit({0, file->id(), memory->data(), 4096, 0, 0, 1})) return 3;
  penstock_completion completion;
  return queue->reap({&completion, 1}, 1) == 1 && completion.status.code == 0 ? 0 : 4;
}

TEST_F(PublicApiTest, WhereIoUringIsForbiddenItWorksWithoutAndSaysSo) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(move_without_io_uring(fd_));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "seccomp filters are refused here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(::lseek(fd_, 0, SEEK_END), 32 << 20);
}

}  // namespace
