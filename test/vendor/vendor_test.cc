// SPDX-License-Identifier: Apache-2.0

// Whole requests by NVIDIA's library, forced since there is no nvidia-fs here, in a process that holds ours as well.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "fakes/fake_environment.h"
#include "fakes/fake_peer.h"
#include "fakes/fake_vendor/fake_vendor.h"
#include "fakes/test_config.h"
#include "frontend/dry_run.h"
#include "frontend/transfer.h"
#include "path/pipeline/pipeline_reasons.h"
#include "path/vendor/vendor_reasons.h"
#include "session/session.h"
#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

constexpr std::size_t kBytes = 10'000'001;
constexpr std::size_t kMemoryBytes = 16 << 20;
constexpr int kFakeVersion = 1990;

class VendorTest : public testing::Test {
 protected:
  void SetUp() override {
    behave("compat");
    std::string folder = testing::TempDir() + "/penstock_vendor_XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    library_ = (folder_ / "libcufile.so.0").string();
    std::filesystem::copy_file(PENSTOCK_FAKE_VENDOR, library_);
    fd_.reset(::open((folder_ / "file").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    content_.resize(kBytes);
    for (std::size_t i = 0; i < kBytes; ++i) content_[i] = static_cast<char>(i * 31 + i / 257);
    ASSERT_EQ(::pwrite(fd_.get(), content_.data(), kBytes, 0), static_cast<ssize_t>(kBytes));
    if (!takes_direct_io()) GTEST_SKIP() << "no O_DIRECT in " << testing::TempDir();
    peers_.add("0000:03:00.0", 2 * kMemoryBytes);
    variables = {{"PENSTOCK_VENDOR", "force"},
                 {"PENSTOCK_VENDOR_LIBRARY", library_},
                 {"PENSTOCK_PATHS", "vendor,bounce"},
                 {"PENSTOCK_WORKERS", "4"}};
  }
  void TearDown() override {
    session_.reset();
    std::filesystem::remove_all(folder_);
  }

  static void behave(const char* script) { ::setenv("FAKE_VENDOR", script, 1); }
  bool takes_direct_io() const {
    PosixStorage storage(true);
    return File::open(storage, fd_.get()).value()->direct_offset_align() != 1;
  }

  // As the variables say. They are read here, and nowhere later.
  void open_session() {
    ++sessions_opened;
    session_ = std::make_unique<Session>(test_config({}, test_environment), std::make_unique<PosixStorage>(true),
                                         std::move(*peers_.open()));
    Device* device = *session_->devices().device(0);
    memory_ = static_cast<char*>(*device->memory().allocate(kMemoryBytes));
    file_ = *session_->register_file(fd_.get());
  }
  Outcome move(Op op, std::uint64_t size, std::int64_t offset) {
    return transfer(
        *session_, {.op = op, .file = file_, .base = memory_, .size = size, .file_offset = offset, .buffer_offset = 0});
  }
  Verdict verdict(PathId path = PathId::vendor) {
    Verdict verdicts[kPathCount];
    EXPECT_TRUE(explain(*session_, file_, session_->devices().describe(memory_), Op::read, verdicts).ok());
    for (const Verdict& one : verdicts) {
      if (one.path == path) return one;
    }
    return {};
  }
  bool has_read(std::size_t size, std::size_t offset) const {
    return std::memcmp(memory_, content_.data() + offset, size) == 0;
  }
  std::string file_content() const {
    std::string now(kBytes + 1, '\0');
    now.resize(static_cast<std::size_t>(::pread(fd_.get(), now.data(), now.size(), 0)));
    return now;
  }
  FakeVendorSeen* seen() const {
    void* library = ::dlopen(library_.c_str(), RTLD_NOW | RTLD_NOLOAD);
    return library == nullptr ? nullptr : static_cast<FakeVendorSeen*>(::dlsym(library, "fake_vendor_seen"));
  }

  std::filesystem::path folder_;
  std::string library_;
  std::string content_;
  UniqueFd fd_;
  FakePeers peers_;
  std::unique_ptr<Session> session_;
  char* memory_ = nullptr;
  std::uint64_t file_ = 0;
  static inline unsigned sessions_opened = 0;
};

TEST_F(VendorTest, RequestsOfAnySizeGoByItAndAreCountedAsWhatTheyAre) {
  open_session();
  for (const std::uint64_t size : {std::uint64_t{777}, std::uint64_t{kBytes}}) {
    const Outcome outcome = move(Op::read, size, 0);
    ASSERT_TRUE(outcome.status.ok()) << describe(outcome.status);
    EXPECT_EQ(outcome.report.bytes, size);
    EXPECT_EQ(outcome.report.direct_bytes, 0u) << "what the CPU copies is not direct";
    EXPECT_EQ(outcome.report.path, PathId::vendor);
    EXPECT_EQ(outcome.report.path_reason, vendor_reason::not_direct);
    EXPECT_TRUE(has_read(size, 0));
  }
  EXPECT_EQ(session_->counters().total(PathId::vendor, vendor_reason::not_direct, Op::read).bytes, 777u + kBytes);

  std::memset(memory_, 'w', kBytes);
  const Outcome outcome = move(Op::write, 9'000'001, 333);
  ASSERT_TRUE(outcome.status.ok()) << describe(outcome.status);
  content_.replace(333, 9'000'001, 9'000'001, 'w');
  EXPECT_TRUE(file_content() == content_);
}

// ---- Settings ------------------------------------------------------------------------------------------------------

TEST_F(VendorTest, ItsUseIsForcedLeftToItsSelfTestOrOff) {
  struct Case {
    const char* use;
    PathId path;
    Reason reason;  // Of its verdict.
  };
  // Nothing in this process's /proc says that nvidia-fs is there.
  const Case cases[] = {{"force", PathId::vendor, vendor_reason::not_direct},
                        {"auto", PathId::bounce, vendor_reason::nvidia_fs_missing},
                        {"off", PathId::bounce, vendor_reason::off}};
  if (std::filesystem::exists("/proc/driver/nvidia-fs")) GTEST_SKIP() << "this machine has nvidia-fs";
  for (const Case& one : cases) {
    variables["PENSTOCK_VENDOR"] = one.use;
    open_session();
    EXPECT_EQ(move(Op::read, 4096, 0).report.path, one.path) << one.use;
    EXPECT_EQ(verdict().reason, one.reason) << one.use;
    EXPECT_TRUE(has_read(4096, 0));
  }
}

TEST_F(VendorTest, ItTakesItsPlaceAmongThePathsAndForceDoesNotMoveItUp) {
  const std::pair<const char*, PathId> cases[] = {{"vendor,bounce", PathId::vendor},
                                                  {"p2pdma,vendor,bounce", PathId::vendor},
                                                  {"bounce,vendor", PathId::bounce},
                                                  {"bounce", PathId::bounce}};
  for (const auto& [paths, path] : cases) {
    variables["PENSTOCK_PATHS"] = paths;
    open_session();
    if (verdict(PathId::p2pdma).usable) GTEST_SKIP() << "p2pdma takes what stands in for a device here";
    EXPECT_EQ(move(Op::read, 4096, 0).report.path, path) << paths;
  }
  EXPECT_EQ(verdict().reason, Reason::not_listed);
}

TEST_F(VendorTest, RequiredItIsRefusedSinceItIsNotDirectEvenIfForced) {
  variables["PENSTOCK_REQUIRE"] = "vendor";
  open_session();
  EXPECT_FALSE(verdict().usable);
  // Behind its self-test: all memory of this stand-in for a device is the same.
  std::memset(memory_, 'm', 4096);
  for (const Op op : {Op::read, Op::write}) {
    const Outcome outcome = move(op, 4096, 0);
    EXPECT_TRUE(outcome.status.is(Code::path_refused));
    EXPECT_EQ(outcome.report.bytes, 0u);
    EXPECT_EQ(outcome.report.reason, vendor_reason::not_direct);
  }
  EXPECT_TRUE(std::string(memory_, 4096) == std::string(4096, 'm'));
  EXPECT_TRUE(file_content() == content_);
}

// ---- Which library it is -------------------------------------------------------------------------------------------

TEST_F(VendorTest, OursIsRefusedWithASentenceWhereverItLiesAndWhateverItIsCalled) {
  const std::string copy = (folder_ / "copy.so").string();
  std::filesystem::copy_file(PENSTOCK_LIBCUFILE, copy);
  const std::string link = (folder_ / "link.so").string();
  std::filesystem::create_symlink(PENSTOCK_LIBCUFILE, link);
  for (const std::string& ours : {std::string(PENSTOCK_LIBCUFILE), copy, link}) {
    variables["PENSTOCK_VENDOR_LIBRARY"] = ours;
    open_session();
    EXPECT_EQ(verdict().reason, vendor_reason::is_ourselves) << ours;
    EXPECT_EQ(move(Op::read, 4096, 0).report.path, PathId::bounce) << ours;
    EXPECT_TRUE(has_read(4096, 0));
  }
  EXPECT_NE(std::string(reason_sentence(verdict().reason)).find("Penstock's own"), std::string::npos);
  EXPECT_NE(std::string(reason_remedy(verdict().reason)).find("PENSTOCK_VENDOR_LIBRARY"), std::string::npos);
}

// As in a program that is linked with ours.
TEST_F(VendorTest, ItsOwnCallsDoNotEndUpInOursAlthoughTheNamesAreTheSame) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers do not allow RTLD_DEEPBIND";
#endif
  void* ours = ::dlopen(PENSTOCK_LIBCUFILE, RTLD_NOW | RTLD_GLOBAL);
  ASSERT_NE(ours, nullptr) << ::dlerror();
  void* const in_scope = ::dlsym(RTLD_DEFAULT, "cuFileGetVersion");
  ASSERT_EQ(in_scope, ::dlsym(ours, "cuFileGetVersion")) << "ours has to come first in the process";
  open_session();
  ASSERT_TRUE(move(Op::read, 4096, 0).status.ok());
  EXPECT_EQ(seen()->version, kFakeVersion);
  EXPECT_GT(seen()->reads, 0);
}

// ---- Failures ------------------------------------------------------------------------------------------------------

TEST_F(VendorTest, WhatItFailsAtIsBouncedToTheLastByteAndCountedAsThat) {
  for (const char* script : {"errno", "negative", "torn", "huge"}) {
    for (const Op op : {Op::read, Op::write}) {
      behave("compat");
      open_session();
      ASSERT_TRUE(verdict().usable);
      behave(script);
      std::memset(memory_, script[0], kBytes);
      const Outcome outcome = move(op, 9'000'001, 333);
      ASSERT_TRUE(outcome.status.ok()) << script << ": " << describe(outcome.status);
      EXPECT_EQ(outcome.report.bytes, 9'000'001u);
      EXPECT_EQ(outcome.report.path, PathId::bounce) << script;
      EXPECT_EQ(outcome.report.reason, pipeline_reason::refused_late) << script;
      EXPECT_EQ(session_->counters().total(PathId::vendor, Reason::none, op).bytes, 0u);
      if (op == Op::write) content_.replace(333, 9'000'001, 9'000'001, script[0]);
      else EXPECT_TRUE(has_read(9'000'001, 333)) << script;
      EXPECT_TRUE(file_content() == content_) << script;
    }
  }
}

TEST_F(VendorTest, WithoutBounceItsFailuresAreErrorsAndNoByteIsCounted) {
  variables["PENSTOCK_PATHS"] = "vendor";
  for (const char* script : {"closed", "refusing", "wrong", "errno"}) {
    behave(script);
    open_session();
    const Outcome outcome = move(Op::write, kBytes, 0);
    EXPECT_TRUE(outcome.status.is(Code::path_refused)) << script << ": " << describe(outcome.status);
    EXPECT_EQ(outcome.report.bytes, 0u);
    EXPECT_TRUE(file_content() == content_);
  }
}

TEST_F(VendorTest, AFileWithoutANameGoesByBounceAndTheOthersStay) {
  open_session();
  const UniqueFd nameless(::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_EQ(::pwrite(nameless.get(), content_.data(), kBytes, 0), static_cast<ssize_t>(kBytes));
  const std::uint64_t named = std::exchange(file_, *session_->register_file(nameless.get()));
  for (const Op op : {Op::read, Op::write}) {
    const Outcome outcome = move(op, kBytes, 0);
    ASSERT_TRUE(outcome.status.ok()) << describe(outcome.status);
    EXPECT_EQ(outcome.report.path, PathId::bounce);
    EXPECT_EQ(outcome.report.reason, vendor_reason::refused);
    EXPECT_TRUE(has_read(kBytes, 0));
  }
  EXPECT_EQ(verdict().detail, 5031);
  file_ = named;
  EXPECT_EQ(move(Op::read, kBytes, 0).report.path, PathId::vendor);
}

TEST_F(VendorTest, AFileWhoseNameIsAnothersByNowGoesByBounceAndTheOtherIsNeverTouched) {
  const std::string others(kBytes, 'o');
  const auto make = [&](const char* name, const std::string& bytes) {
    const UniqueFd fd(::open((folder_ / name).c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600));
    ASSERT_EQ(::pwrite(fd.get(), bytes.data(), kBytes, 0), static_cast<ssize_t>(kBytes));
  };
  struct Deed {
    const char* what;
    const char* left;  // Where the other is then.
    std::function<void()> deed;
  };
  const Deed deeds[] = {
      {"renamed over", "mine", [&] { std::filesystem::rename(folder_ / "other", folder_ / "mine"); }},
      {"removed, and made anew", "mine", [&] { std::filesystem::remove(folder_ / "mine"), make("mine", others); }},
      {"removed, and made anew as the kernel calls what was removed", "mine (deleted)",
       [&] { std::filesystem::remove(folder_ / "mine"), make("mine (deleted)", others); }}};
  open_session();
  // Self-tests come with it, which use the same memory.
  for (const Op op : {Op::read, Op::write}) ASSERT_EQ(move(op, kBytes, 0).report.path, PathId::vendor);
  for (const Deed& one : deeds) {
    SCOPED_TRACE(one.what);
    std::filesystem::remove(folder_ / "mine");
    make("other", others);
    make("mine", content_);
    fd_.reset(::open((folder_ / "mine").c_str(), O_RDWR | O_CLOEXEC));
    file_ = *session_->register_file(fd_.get());
    one.deed();
    const int registrations = seen()->registrations;
    for (const Op op : {Op::read, Op::write}) {
      const Outcome outcome = move(op, kBytes, 0);
      ASSERT_TRUE(outcome.status.ok()) << describe(outcome.status);
      EXPECT_EQ(outcome.report.path, PathId::bounce);
      EXPECT_EQ(outcome.report.reason, vendor_reason::refused);
      EXPECT_EQ(verdict().detail, 5031);
      EXPECT_TRUE(op == Op::write || has_read(kBytes, 0));
      std::memset(memory_, 'w', kBytes);
    }
    EXPECT_TRUE(file_content() == std::string(kBytes, 'w'));
    fd_.reset(::open((folder_ / one.left).c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_TRUE(file_content() == others);
    EXPECT_EQ(seen()->registrations, registrations);
  }
}

// ---- Lives ---------------------------------------------------------------------------------------------------------

TEST_F(VendorTest, AFileLeavesItWhenItIsDeregistered) {
  open_session();
  ASSERT_TRUE(move(Op::read, 4096, 0).status.ok());
  FakeVendorSeen* const counts = seen();
  ASSERT_NE(counts, nullptr);
  EXPECT_EQ(counts->files, 1);
  ASSERT_TRUE(session_->deregister_file(file_).ok());
  EXPECT_EQ(counts->files, 0);
  session_.reset();
  EXPECT_EQ(counts->closes, counts->opens);
}

// Exits with the number of the first thing that is not so.
int failures_in_child(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = -1;
  if (::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

TEST_F(VendorTest, AForkedChildMovesItsOwnRequestsByBounceAndLeavesTheParentsAlone) {
  open_session();
  ASSERT_TRUE(move(Op::read, 4096, 0).status.ok());
  const FakeVendorSeen before = *seen();
  const int failed = failures_in_child([&] {
    if (!move(Op::read, 4096, 0).status.is(Code::closed)) return 1;
    (void)session_.release();
    open_session();
    const Outcome outcome = move(Op::read, kBytes, 0);
    if (!outcome.status.ok() || !has_read(kBytes, 0)) return 2;
    if (outcome.report.path != PathId::bounce || outcome.report.reason != vendor_reason::refused) return 3;
    if (verdict().detail != ECHILD) return 4;
    session_.reset();
    const FakeVendorSeen& now = *seen();
    return now.reads + now.writes == before.reads + before.writes && now.closes == before.closes ? 0 : 5;
  });
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(move(Op::read, 4096, 0).report.path, PathId::vendor);
}

TEST_F(VendorTest, AChildOfAProcessThatNeverLoadedItLoadsItsOwn) {
  if (sessions_opened > 0) GTEST_SKIP() << "an earlier test of this process loaded it: run this one alone";
  const int failed = failures_in_child([&] {
    open_session();
    const Outcome outcome = move(Op::read, kBytes, 0);
    return outcome.status.ok() && outcome.report.path == PathId::vendor && has_read(kBytes, 0) ? 0 : 1;
  });
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace penstock::core
