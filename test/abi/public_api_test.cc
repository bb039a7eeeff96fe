// SPDX-License-Identifier: Apache-2.0

// libpenstock.so.0 from outside: a program that knows penstock.hpp alone.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "fakes/forbidden_calls.h"
#include "penstock/penstock.hpp"

namespace {

using penstock::Completion;
using penstock::Config;
using penstock::DeviceInfo;
using penstock::Outcome;
using penstock::Request;
using penstock::Session;

Config on_host() {
  Config config;
  config.set("device", "host");
  return config;
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
  auto session = Session::open(on_host());
  ASSERT_TRUE(session) << session.error().message();
  auto file = session->file(fd_);
  auto memory = session->allocate(0, 1 << 20);
  ASSERT_TRUE(file && memory);

  const Outcome outcome = file->write(memory->data(), 1 << 20, 0);

  ASSERT_TRUE(outcome.ok()) << outcome.status.message();
  EXPECT_EQ(outcome.report.bytes, 1u << 20);
  EXPECT_EQ(outcome.report.bytes_by(PENSTOCK_PATH_BOUNCE), 1u << 20);
  EXPECT_EQ(outcome.report.direct_bytes + outcome.report.cached_bytes, 1u << 20);
  EXPECT_STREQ(outcome.report.path_name(), "bounce");
  EXPECT_STREQ(outcome.report.reason_name(), "stand_in");
  EXPECT_EQ(outcome.report.refused_path, PENSTOCK_PATH_P2PDMA);
  const auto counters = session->counters();
  ASSERT_TRUE(counters) << counters.error().message();
  ASSERT_EQ(counters->size(), 1u);
  EXPECT_EQ((*counters)[0].write_bytes, 1u << 20);
}

TEST_F(PublicApiTest, ExplainingNamesEveryPathInOrder) {
  auto session = Session::open(on_host());
  auto file = session->file(fd_);

  auto verdicts = file->explain();

  ASSERT_TRUE(verdicts) << verdicts.error().message();
  auto verdict = verdicts->begin();
  for (const std::string path : {"p2pdma", "pagecache", "vendor", "bounce", "host"}) {
    verdict = std::find_if(verdict, verdicts->end(), [&](const auto& one) { return one.path_name() == path; });
    ASSERT_NE(verdict, verdicts->end()) << path;
    EXPECT_EQ(verdict->usable, path == "bounce" ? 1 : 0) << path;
    EXPECT_GT(std::strlen(verdict->sentence()), 0u);
  }
  EXPECT_TRUE(file->explain({PENSTOCK_READ, 99}).error().is(PENSTOCK_NO_DEVICE));
}

TEST_F(PublicApiTest, APlanIsTextALineAChunkAndMovesNothing) {
  ASSERT_EQ(::ftruncate(fd_, 1 << 20), 0);
  auto session = Session::open(on_host());
  auto file = session->file(fd_);

  auto plan = file->plan({PENSTOCK_WRITE}, 5000, 100);

  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(*plan, "write buffered file 100+5000 buffer +0\nby the caller's own thread\n");
  EXPECT_TRUE(session->counters()->empty());
  EXPECT_NE(file->plan({PENSTOCK_READ}, std::uint64_t{1} << 40, 0)->find("... and "), std::string::npos);
  EXPECT_TRUE(file->plan({PENSTOCK_READ}, 1, -1).error().is(PENSTOCK_NEGATIVE_OFFSET));
  EXPECT_TRUE(file->plan({PENSTOCK_READ, 7}, 1, 0).error().is(PENSTOCK_NO_DEVICE));
}

TEST_F(PublicApiTest, ARequiredPathThatCannotServeIsAnErrorAndNotAFallback) {
  auto session = Session::open(on_host().set("require", "p2pdma"));
  auto file = session->file(fd_);
  auto memory = session->allocate(0, 4096);

  const Outcome outcome = file->write(memory->data(), 4096, 0);

  EXPECT_TRUE(outcome.status.is(PENSTOCK_PATH_REFUSED)) << outcome.status.message();
  EXPECT_EQ(outcome.report.bytes, 0u);
  EXPECT_STREQ(outcome.report.reason_name(), "stand_in");
  EXPECT_EQ(::lseek(fd_, 0, SEEK_END), 0);
}

TEST_F(PublicApiTest, ARequiredPathIsTakenThoughABetterOneIsListed) {
  auto session = Session::open(on_host().set("paths", "bounce,null").set("require", "null"));
  auto file = session->file(fd_);
  auto memory = session->allocate(0, 4096);

  const Outcome outcome = file->write(memory->data(), 4096, 0);

  EXPECT_TRUE(outcome.ok()) << outcome.status.message();
  EXPECT_STREQ(outcome.report.path_name(), "null");
}

TEST_F(PublicApiTest, PathsAreTakenInTheOrderGiven) {
  auto session = Session::open(on_host().set("paths", "null,bounce"));
  auto file = session->file(fd_);
  auto memory = session->allocate(0, 4096);

  const Outcome outcome = file->write(memory->data(), 4096, 0);

  EXPECT_STREQ(outcome.report.path_name(), "null");
  EXPECT_EQ(::lseek(fd_, 0, SEEK_END), 0);
}

TEST_F(PublicApiTest, ABadSettingIsRefusedWithNameValueAndExpectation) {
  const Config unknown = Config().set("bounce", "1");
  const Config bad = on_host().set("bounce_mib", "many").set("workers", "2");

  const auto refused = Session::open(bad);

  EXPECT_TRUE(unknown.status().is(PENSTOCK_BAD_SETTING)) << unknown.status().message();
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().is(PENSTOCK_BAD_SETTING));
  EXPECT_NE(refused.error().message().find("bounce_mib=many"), std::string::npos) << refused.error().message();
}

TEST_F(PublicApiTest, AListOfPathsWithAnUnknownOneOpensNoSession) {
  const auto refused = Session::open(on_host().set("paths", "bounce,fastest"));

  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().is(PENSTOCK_BAD_SETTING));
  EXPECT_NE(refused.error().message().find("paths=bounce,fastest"), std::string::npos) << refused.error().message();
}

TEST_F(PublicApiTest, ASettingTellsItsValueAndWhoSaidSo) {
  auto session = Session::open(on_host().set("bounce_mib", "32"));
  ASSERT_TRUE(session) << session.error().message();
  const char* source = nullptr;

  EXPECT_EQ(*session->setting("bounce_mib", &source), "32");
  EXPECT_STREQ(source, "call");
  EXPECT_EQ(*session->setting("policy", &source), "balanced");
  EXPECT_STREQ(source, "default");
  EXPECT_TRUE(session->setting("nonsense").error().is(PENSTOCK_BAD_SETTING));
}

TEST_F(PublicApiTest, EverySettingHasANameAMeaningAndWhatItTakes) {
  ASSERT_GT(penstock_setting_count(), 10u);
  for (unsigned i = 0; i < penstock_setting_count(); ++i) {
    penstock::Setting setting;
    ASSERT_EQ(penstock_setting_get(i, &setting).code, 0);
    EXPECT_GT(std::strlen(setting.name), 0u);
    EXPECT_GT(std::strlen(setting.takes), 0u) << setting.name;
    EXPECT_GT(std::strlen(setting.meaning), 0u) << setting.name;
    EXPECT_TRUE(std::string(setting.variable).starts_with("PENSTOCK_")) << setting.name;
  }
  penstock::Setting none;
  EXPECT_EQ(penstock_setting_get(penstock_setting_count(), &none).code, PENSTOCK_INVALID_ARGUMENT);
}

TEST_F(PublicApiTest, AnOperationThatIsNoneIsRefusedEverywhere) {
  auto session = Session::open(on_host());
  auto file = session->file(fd_);
  auto queue = session->polled_queue(1, 4096);
  Request request = file->request(PENSTOCK_WRITE, nullptr, 4096, 0);
  for (const int odd : {2, 77, -1}) {
    request.op = odd;

    penstock::Choice choice;
    std::uint32_t count = 0;
    EXPECT_TRUE(queue->submit(request).is(PENSTOCK_INVALID_ARGUMENT)) << odd;
    EXPECT_EQ(penstock_explain(&request, nullptr, 0, &count).code, PENSTOCK_INVALID_ARGUMENT);
    EXPECT_EQ(penstock_plan(&request, nullptr, 0, nullptr).code, PENSTOCK_INVALID_ARGUMENT);
    EXPECT_EQ(penstock_choose(&request, &choice).code, PENSTOCK_INVALID_ARGUMENT);
  }
  EXPECT_EQ(::lseek(fd_, 0, SEEK_END), 0);
}

TEST_F(PublicApiTest, NullArgumentsAreErrors) {
  std::uint32_t count = 7;
  EXPECT_EQ(penstock_session_open(nullptr, nullptr).code, PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_session_get(nullptr, nullptr).code, PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_config_create(nullptr).code, PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_config_set(nullptr, "paths", "bounce").code, PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_read(nullptr, nullptr, 1, 0, 0, nullptr).code, PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_file_register(nullptr, 0, nullptr).code, PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_queue_open(nullptr, nullptr, nullptr).code, PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_queue_submit(nullptr, nullptr, 1, nullptr).code, PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_queue_reap(nullptr, nullptr, 0, 0, -1, &count).code, PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_counters(nullptr, nullptr, 0, &count).code, PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_count_save(nullptr, nullptr).code, PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(count, 0u);
  penstock_session_close(nullptr);
  penstock_file_close(nullptr);
  penstock_queue_close(nullptr);
  penstock_config_close(nullptr);
}

TEST_F(PublicApiTest, NamesOfWhatThereIsNotAreUnknown) {
  EXPECT_STREQ(penstock_path_name(99), "unknown");
  EXPECT_STREQ(penstock_reason_name(-1), "unknown");
  EXPECT_EQ(*penstock::path_by_name("p2pdma"), PENSTOCK_PATH_P2PDMA);
  EXPECT_TRUE(penstock::path_by_name("fastest").error().is(PENSTOCK_INVALID_ARGUMENT));
  EXPECT_EQ(penstock_path_by_name(nullptr, nullptr).code, PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_device_kind_name(penstock_device_kind_count()), nullptr);
}

TEST_F(PublicApiTest, AMessageIsCutToFit) {
  char tiny[8];
  const penstock_status status{.domain = PENSTOCK_DOMAIN_OS, .driver = 0, .code = EIO, .step = "read"};
  EXPECT_EQ(penstock_status_message(status, tiny, sizeof tiny), penstock::Status(status).message().size());
  EXPECT_EQ(std::strlen(tiny), 7u);
}

TEST_F(PublicApiTest, APathsOutlookIsKnownBeforeAnyFile) {
  auto session = Session::open(on_host().set("paths", "bounce,host"));

  const auto listed = session->outlook(PENSTOCK_PATH_BOUNCE), absent = session->outlook(PENSTOCK_PATH_P2PDMA);

  ASSERT_TRUE(listed && absent);
  EXPECT_EQ(listed->usable, 1);
  EXPECT_EQ(absent->usable, 0);
  EXPECT_STREQ(absent->reason_name(), "not_listed");
  EXPECT_TRUE(session->outlook(99).error().is(PENSTOCK_INVALID_ARGUMENT));
}

TEST_F(PublicApiTest, KindsOfDevicesAreToldUntilTheLast) {
  std::string kinds;
  for (unsigned i = 0; i < penstock_device_kind_count(); ++i) {
    kinds += std::string(penstock_device_kind_name(i)) + ": " + penstock_device_kind_sentence(i) + "\n";
  }
  EXPECT_TRUE(kinds.starts_with("cuda: NVIDIA GPUs\nhost: host memory standing in for a GPU\n")) << kinds;
  EXPECT_EQ(penstock_device_kind_sentence(99), nullptr);
}

TEST_F(PublicApiTest, ADeviceTellsItsKind) {
  auto session = Session::open(on_host());
  ASSERT_TRUE(session) << session.error().message();
  DeviceInfo info;
  ASSERT_EQ(penstock_device_get(session->raw(), 1, &info).code, PENSTOCK_OK);
  EXPECT_STREQ(info.kind, "host");
  EXPECT_STREQ(session->info()->device_kinds, "host");
}

TEST_F(PublicApiTest, AnUnknownKindOfDeviceIsASettingThatIsToldWithAllThereAre) {
  const auto session = Session::open(Config().set("device", "cuda,gpu"));
  ASSERT_FALSE(session);
  EXPECT_TRUE(session.error().is(PENSTOCK_BAD_SETTING));
  EXPECT_NE(session.error().message().find("auto, or some of cuda, host"), std::string::npos)
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
  auto session = Session::open(on_host());
  auto file = session->file(fd_);
  auto memory = session->allocate(0, 1 << 20);
  auto queue = session->polled_queue(200, 4096);
  ASSERT_TRUE(queue) << queue.error().message();
  for (std::uint64_t i = 0; i < 200; ++i) {
    Request request = file->request(PENSTOCK_WRITE, memory->data(), 4096, static_cast<std::int64_t>(i * 4096));
    request.cookie = i;
    ASSERT_TRUE(queue->submit(request).ok());
  }

  Completion completions[200];
  EXPECT_EQ(*queue->reap(completions, 200, 200), 200u);

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
TEST_F(PublicApiTest, FourGibibytesTakeNoMoreMemoryThanTheBounceBuffers) {
  constexpr std::uint64_t kSize = std::uint64_t{4} << 30;
  ASSERT_EQ(::ftruncate(fd_, static_cast<off_t>(kSize + 12345)), 0);
  auto session = Session::open(on_host().set("direct_io", "never"));
  auto file = session->file(fd_);
  auto memory = session->allocate(0, std::size_t{512} << 20);
  const std::uint64_t before = resident_anonymous_bytes();
  ASSERT_GT(before, 0u);

  std::uint64_t moved = 0;
  while (moved < kSize) {
    const Outcome outcome = file->read(memory->data(), memory->size(), static_cast<std::int64_t>(moved));
    ASSERT_TRUE(outcome.ok()) << outcome.status.message();
    ASSERT_EQ(outcome.report.bytes, memory->size());
    moved += outcome.report.bytes;
  }

  const std::uint64_t used = resident_anonymous_bytes() - before;
  const std::uint64_t pinned = session->info()->pinned_bytes;
  EXPECT_LE(pinned, std::uint64_t{256} << 20);
  EXPECT_LE(used, pinned + (std::uint64_t{64} << 20));
}

TEST_F(PublicApiTest, OneRequestFarAboveTwoGibibytes) {
  // A bit more than 2.5 GiB: holes with two pieces of data.
  constexpr std::uint64_t kSize = (std::uint64_t{5} << 29) + 4097;
  ASSERT_EQ(::ftruncate(fd_, static_cast<off_t>(kSize + 1)), 0);
  ASSERT_EQ(::pwrite(fd_, "first", 5, 3), 5);
  ASSERT_EQ(::pwrite(fd_, "last", 4, static_cast<off_t>(kSize - 3)), 4);
  auto session = Session::open(on_host());
  auto file = session->file(fd_);
  auto memory = session->allocate(0, kSize);
  ASSERT_TRUE(memory) << memory.error().message();

  const Outcome outcome = file->read(memory->data(), kSize, 1);

  ASSERT_TRUE(outcome.ok()) << outcome.status.message();
  EXPECT_EQ(outcome.report.bytes, kSize);
  EXPECT_EQ(std::memcmp(memory->data() + 2, "first", 5), 0);
  EXPECT_EQ(std::memcmp(memory->data() + kSize - 4, "last", 4), 0);
}

// Blocks io_uring as container runtimes do.
int move_without_io_uring(int fd) {
  if (!penstock::forbid_calls({SYS_io_uring_setup})) return penstock::kFiltersRefused;
  auto session = Session::open(on_host());
  auto file = session->file(fd);
  auto memory = session->allocate(0, 32 << 20);
  std::memset(memory->data(), 'u', memory->size());
  const Outcome outcome = file->write(memory->data(), memory->size(), 0);
  if (!outcome.ok() || outcome.report.bytes != memory->size()) return 1;
  const auto verdicts = file->explain();
  const auto is_bounce = [](const auto& verdict) { return verdict.path == PENSTOCK_PATH_BOUNCE; };
  const auto bounce = std::find_if(verdicts->begin(), verdicts->end(), is_bounce);
  if (bounce == verdicts->end() || bounce->usable != 1) return 2;
  if (bounce->reason != PENSTOCK_REASON_IO_URING_FORBIDDEN || bounce->detail != EPERM) return 2;
  auto queue = session->polled_queue(4, 4096);
  if (!queue->submit(file->request(PENSTOCK_READ, memory->data(), 4096, 0)).ok()) return 3;
  Completion completion;
  return *queue->reap(&completion, 1, 1) == 1 && completion.status.code == 0 ? 0 : 4;
}

TEST_F(PublicApiTest, WhereIoUringIsForbiddenItWorksWithoutAndSaysSo) {
  const int outcome = penstock::in_child([this] { return move_without_io_uring(fd_); });

  if (outcome == penstock::kFiltersRefused) GTEST_SKIP() << "seccomp filters are refused here";
  EXPECT_EQ(outcome, 0);
  EXPECT_EQ(::lseek(fd_, 0, SEEK_END), 32 << 20);
}

// The CPUs of each of the process's threads that has this name.
std::vector<std::string> cpus_of_threads(const std::string& name) {
  std::vector<std::string> found;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(thread.path() / "status");
    bool is_it = false;
    for (std::string line; std::getline(file, line);) {
      is_it = is_it || line == "Name:\t" + name;
      if (is_it && line.starts_with("Cpus_allowed_list:\t")) found.push_back(line.substr(line.find('\t') + 1));
    }
  }
  return found;
}

TEST_F(PublicApiTest, ThreadsRunOnTheCpusThatTheUserNamedAlsoForHostMemory) {
  const unsigned cpu = static_cast<unsigned>(::sched_getcpu());
  auto session =
      Session::open(Config().set("device", "host").set("workers", "2").set("placement", "cpus:" + std::to_string(cpu)));
  ASSERT_TRUE(session) << session.error().message();
  auto file = session->file(fd_);
  ASSERT_TRUE(file);
  std::vector<char> memory(64u << 20);
  ASSERT_EQ(::ftruncate(fd_, static_cast<off_t>(memory.size())), 0);
  std::vector<std::string> cpus;
  for (int i = 0; i < 1000 && (cpus.size() < 2 || cpus != std::vector<std::string>(2, std::to_string(cpu))); ++i) {
    ASSERT_TRUE(file->read(memory.data(), memory.size(), 0).ok());  // Repeats until both workers have helped.
    cpus = cpus_of_threads("penstock-work");
  }
  EXPECT_EQ(cpus, std::vector<std::string>(2, std::to_string(cpu)));
  EXPECT_EQ(*session->setting("placement"), "cpus:" + std::to_string(cpu));
}

TEST_F(PublicApiTest, APlacementThatThisMachineLacksIsRefusedWithASentence) {
  const auto node = Session::open(Config().set("placement", "node:1023"));
  ASSERT_FALSE(node);
  EXPECT_TRUE(node.error().is(PENSTOCK_BAD_SETTING));
  EXPECT_NE(node.error().message().find("use placement=node:1023: this machine has no NUMA node 1023"),
            std::string::npos)
      << node.error().message();
  const auto cpus = Session::open(Config().set("placement", "cpus:8191"));
  ASSERT_FALSE(cpus);
  EXPECT_NE(cpus.error().message().find("none of the CPUs 8191, but "), std::string::npos) << cpus.error().message();
  const auto nonsense = Session::open(Config().set("placement", "socket0"));
  ASSERT_FALSE(nonsense);
  EXPECT_NE(nonsense.error().message().find("expected auto, off, node:N or cpus:LIST"), std::string::npos)
      << nonsense.error().message();
}

}  // namespace
