// Whole requests by NVIDIA's library, forced since there is no nvidia-fs here, in a process that holds ours as well.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "fakes/fake_peer.h"
#include "fakes/fake_vendor/fake_vendor.h"
#include "session/session.h"
#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

constexpr std::size_t kBytes = 10'000'001;
constexpr int kFakeVersion = 1990;

class VendorTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("FAKE_VENDOR", "compat", 1);
    std::string folder = testing::TempDir() + "/penstock_vendor_XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    library_ = (folder_ / "libcufile.so.0").string();
    std::filesystem::copy_file(PENSTOCK_FAKE_VENDOR, library_);
    fd_.reset(::open((folder_ / "file").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    content_.resize(kBytes);
    for (std::size_t i = 0; i < kBytes; ++i) content_[i] = static_cast<char>(i * 31 + i / 257);
    ASSERT_EQ(::pwrite(fd_.get(), content_.data(), kBytes, 0), static_cast<ssize_t>(kBytes));
    peers_.add("0000:03:00.0", 32 << 20);
  }
  void TearDown() override {
    session_.reset();
    std::filesystem::remove_all(folder_);
  }

  void open_session(const std::string& library, std::optional<PathId> require = std::nullopt) {
    Config config =
        *make_config({.workers = 4, .paths = "vendor,bounce"}, [](const char*) -> const char* { return nullptr; });
    config.vendor = VendorUse::force;
    config.vendor_library = library;
    config.require = require;
    session_ = std::make_unique<Session>(config, std::make_unique<PosixStorage>(true), std::move(*peers_.open()));
    Device* device = *session_->devices().device(0);
    memory_ = static_cast<char*>(*device->allocate(16 << 20));
    file_ = *session_->register_file(fd_.get());
    if (File::open(session_->storage(), fd_.get()).value()->direct_offset_align() == 1) {
      GTEST_SKIP() << "no O_DIRECT in " << folder_;
    }
  }
  Outcome move(Op op, std::uint64_t size, std::int64_t offset) {
    return session_->transfer(
        {.op = op, .file = file_, .base = memory_, .size = size, .file_offset = offset, .buffer_offset = 0});
  }
  Verdict verdict() {
    Verdict verdicts[kPathCount];
    EXPECT_TRUE(session_->explain(file_, session_->devices().describe(memory_), Op::read, verdicts).ok());
    return verdicts[0];
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
};

TEST_F(VendorTest, RequestsOfAnySizeGoByItAndAreCountedAsWhatTheyAre) {
  open_session(library_);
  if (IsSkipped()) return;
  for (const std::uint64_t size : {std::uint64_t{777}, std::uint64_t{kBytes}}) {
    const Outcome outcome = move(Op::read, size, 0);
    ASSERT_TRUE(outcome.status.ok()) << describe(outcome.status);
    EXPECT_EQ(outcome.report.bytes, size);
    EXPECT_EQ(outcome.report.direct_bytes, 0u) << "what the CPU copies is not direct";
    EXPECT_EQ(outcome.report.path, PathId::vendor);
    EXPECT_EQ(outcome.report.path_reason, Reason::vendor_not_direct);
    EXPECT_EQ(std::memcmp(memory_, content_.data(), size), 0);
  }
  EXPECT_EQ(session_->counters().total(PathId::vendor, Reason::vendor_not_direct, Op::read).bytes, 777u + kBytes);

  std::memset(memory_, 'w', kBytes);
  const Outcome outcome = move(Op::write, 9'000'001, 333);
  ASSERT_TRUE(outcome.status.ok()) << describe(outcome.status);
  content_.replace(333, 9'000'001, 9'000'001, 'w');
  std::string now(kBytes, '\0');
  ASSERT_EQ(::pread(fd_.get(), now.data(), kBytes, 0), static_cast<ssize_t>(kBytes));
  EXPECT_TRUE(now == content_);
}

TEST_F(VendorTest, RequiredItIsRefusedSinceItIsNotDirect) {
  open_session(library_, PathId::vendor);
  if (IsSkipped()) return;
  EXPECT_TRUE(move(Op::read, 4096, 0).status.is(Code::path_refused));
  EXPECT_EQ(verdict().reason, Reason::vendor_not_direct);
}

TEST_F(VendorTest, AFileLeavesItWhenItIsDeregistered) {
  open_session(library_);
  if (IsSkipped()) return;
  ASSERT_TRUE(move(Op::read, 4096, 0).status.ok());
  FakeVendorSeen* const counts = seen();
  ASSERT_NE(counts, nullptr);
  EXPECT_EQ(counts->files, 1);
  ASSERT_TRUE(session_->deregister_file(file_).ok());
  EXPECT_EQ(counts->files, 0);
  session_.reset();
  EXPECT_EQ(counts->closes, counts->opens);
}

TEST_F(VendorTest, OursIsNotTakenForIt) {
  open_session(PENSTOCK_LIBCUFILE);
  if (IsSkipped()) return;
  EXPECT_EQ(verdict().reason, Reason::vendor_is_ourselves);
  EXPECT_EQ(move(Op::read, 4096, 0).report.path, PathId::bounce);
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
  open_session(library_);
  if (IsSkipped()) return;
  ASSERT_TRUE(move(Op::read, 4096, 0).status.ok());
  EXPECT_EQ(seen()->version, kFakeVersion);
  EXPECT_GT(seen()->reads, 0);
}

}  // namespace
}  // namespace penstock::core
