// SPDX-License-Identifier: Apache-2.0

#include "path/vendor/vendor_path.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "fakes/fake_peer.h"
#include "fakes/fake_vendor/fake_vendor.h"
#include "fakes/obeying_modes.h"
#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

constexpr const char* kAddress = "0000:03:00.0";
constexpr std::uint64_t kFileBytes = 300'000, kChunk = 64u << 10;

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

std::string stats_text(int reads, int writes) {
  return "Reads\t\t\t\t: n=" + std::to_string(reads) + " ok=" + std::to_string(reads) +
         " err=0 readMiB=0\nWrites\t\t\t\t: n=" + std::to_string(writes) + " ok=" + std::to_string(writes) + " err=0\n";
}

// A machine with nvidia-fs, a copy of NVIDIA's library of its own, a file of a known content, and a device.
class VendorPathTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/penstock_vendor_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    install(PENSTOCK_FAKE_VENDOR);
    write_text(root() / "proc/driver/nvidia-fs/version", "version: 2.28\n");
    write_text(root() / "proc/driver/nvidia-fs/modules", "nvme: 1.0\n");
    write_text(stats_file(), stats_text(0, 0));
    ::setenv("FAKE_VENDOR_STATS", stats_file().c_str(), 1);
    behave("direct");
    content_.resize(kFileBytes);
    for (std::size_t i = 0; i < kFileBytes; ++i) content_[i] = static_cast<char>(i * 31 + i / 257);
    std::ofstream(folder_ / "file") << content_;
    fd_.reset(::open((folder_ / "file").c_str(), O_RDWR | O_CLOEXEC));
    file_ = std::move(*File::open(storage_, fd_.get()));
    if (file_->direct_offset_align() == 1) GTEST_SKIP() << "no O_DIRECT in " << folder_;
    peers_.add(kAddress, 4 << 20);
    devices_ = std::move(*peers_.open());
    device_ = *devices_->device(0);
    memory_ = static_cast<char*>(*device_->allocate(1 << 20));
    make_path();
  }
  void TearDown() override {
    path_.reset();
    file_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::filesystem::path root() const { return folder_ / "root"; }
  std::filesystem::path stats_file() const { return root() / "proc/driver/nvidia-fs/stats"; }
  std::string library_file() const { return (folder_ / "libcufile.so.0").string(); }
  void install(const char* library) const {
    std::filesystem::copy_file(library, library_file(), std::filesystem::copy_options::overwrite_existing);
  }
  static void behave(const char* script) { ::setenv("FAKE_VENDOR", script, 1); }

  void make_path(VendorUse use = VendorUse::automatic, bool strict = false) {
    path_.reset();
    path_ = std::make_unique<VendorPath>(
        storage_,
        VendorRules{
            .use = use, .strict = strict, .library = library_file(), .patience = patience_, .root = root().string()});
  }
  Verdict judge(Op op = Op::read) { return judge(*file_, op); }
  Verdict judge(File& file, Op op) { return path_->judge(file, devices_->describe(memory_), op); }
  // It, both ways, and no other file.
  void expect_refused_alone(File& file, int number) {
    for (const Op op : {Op::read, Op::write}) {
      EXPECT_EQ(judge(file, op).reason, Reason::vendor_refused);
      EXPECT_EQ(judge(file, op).detail, number);
      EXPECT_TRUE(judge(op).usable);
    }
    path_->forget_file(file);
  }
  // What self-tests have left in the file's folder.
  std::string leftovers() const {
    std::string names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      const std::string name = entry.path().filename();
      if (name.starts_with(".")) names += name + " ";
    }
    return names;
  }

  // Null where nothing has loaded it.
  FakeVendorSeen* seen() const {
    void* library = ::dlopen(library_file().c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return nullptr;
    auto* found = static_cast<FakeVendorSeen*>(::dlsym(library, "fake_vendor_seen"));
    ::dlclose(library);
    return found;
  }

  std::unique_ptr<Channel> channel(unsigned depth = 1) {
    return std::move(*path_->open_channel({.device = device_, .depth = depth, .chunk_max = kChunk}));
  }
  Plan plan(Op op, std::uint64_t offset, std::uint64_t size) {
    const Request request{
        .op = op, .file_offset = offset, .buffer_address = reinterpret_cast<std::uintptr_t>(memory_), .size = size};
    return {request, path_->limits(*file_, op, Way::direct, kChunk)};
  }
  Task task(Op op, const Chunk& chunk) {
    return {.op = op,
            .file = file_.get(),
            .memory = reinterpret_cast<std::byte*>(memory_) + chunk.buffer_offset,
            .chunk = chunk};
  }
  // All chunks of a request through one channel, four at a time; bytes by why they were bounced.
  std::map<Reason, std::uint64_t> move(Op op, std::uint64_t offset, std::uint64_t size) {
    const std::unique_ptr<Channel> channel = this->channel(4);
    const Plan plan = this->plan(op, offset, size);
    std::map<Reason, std::uint64_t> bytes;
    std::uint64_t next = 0;
    Completion completions[4];
    while (next < plan.chunk_count() || !channel->is_idle()) {
      while (next < plan.chunk_count() && channel->has_room()) channel->submit(task(op, plan.chunk(next++)));
      const unsigned count = channel->poll(completions, true);
      for (unsigned i = 0; i < count; ++i) {
        EXPECT_TRUE(completions[i].status.ok()) << describe(completions[i].status);
        bytes[completions[i].bounced] += completions[i].bytes;
        ways_.insert(completions[i].way);
      }
    }
    return bytes;
  }
  Completion run(Op op, std::uint64_t offset, std::uint64_t size) {
    return channel()->run(task(op, plan(op, offset, size).chunk(0)));
  }
  std::string file_content() const {
    std::string bytes(kFileBytes + 4096, '\0');
    bytes.resize(static_cast<std::size_t>(::pread(fd_.get(), bytes.data(), bytes.size(), 0)));
    return bytes;
  }

  using Bytes = std::map<Reason, std::uint64_t>;
  std::filesystem::path folder_;
  PosixStorage storage_{true};
  std::string content_;
  UniqueFd fd_;
  FakePeers peers_;
  std::unique_ptr<DeviceSet> devices_;
  Device* device_ = nullptr;
  char* memory_ = nullptr;
  std::unique_ptr<VendorPath> path_;
  std::unique_ptr<File> file_;
  std::set<Way> ways_;
  std::chrono::milliseconds patience_{20'000};
};

// ---- Verdicts ------------------------------------------------------------------------------------------------------

TEST_F(VendorPathTest, IsUsableWhereNvidiaFsCountsTheRequestsOfItsSelfTest) {
  EXPECT_TRUE(judge(Op::read).usable);
  EXPECT_TRUE(judge(Op::write).usable);
  EXPECT_EQ(judge().reason, Reason::none);
  EXPECT_TRUE(file_content() == content_);
}

TEST_F(VendorPathTest, APairIsTestedOnce) {
  ASSERT_TRUE(judge(Op::read).usable);
  const int moves = seen()->reads + seen()->writes;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(judge(Op::write).usable);
  EXPECT_EQ(seen()->reads + seen()->writes, moves);
  EXPECT_EQ(seen()->files, 1) << "the user's file alone, not the self-test's own";
}

TEST_F(VendorPathTest, CompatibilityModeIsRefusedSinceItHidesASlowerCopy) {
  behave("compat");
  EXPECT_FALSE(judge(Op::read).usable);
  EXPECT_EQ(judge(Op::read).reason, Reason::vendor_not_direct);
  EXPECT_EQ(judge(Op::write).reason, Reason::vendor_not_direct);
}

TEST_F(VendorPathTest, OthersRequestsDoNotPassForItsOwn) {
  behave("compat");
  std::atomic<bool> stop{false};
  std::thread others([&] {
    for (int count = 0; !stop; count += 3) {
      write_text(stats_file().string() + ".other", stats_text(count, count));
      std::filesystem::rename(stats_file().string() + ".other", stats_file());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  const Verdict verdict = judge();
  stop = true;
  others.join();
  EXPECT_EQ(verdict.reason, Reason::vendor_not_direct);
}

TEST_F(VendorPathTest, WithoutCountersThereIsNoProof) {
  write_text(stats_file(), "Reads\t\t\t\t: err=0 io_state_err=0\n");
  ::unsetenv("FAKE_VENDOR_STATS");
  EXPECT_EQ(judge().reason, Reason::vendor_not_direct);
}

TEST_F(VendorPathTest, WrongBytesAreFoundOut) {
  behave("wrong");
  EXPECT_EQ(judge(Op::read).reason, Reason::self_test_wrong);
  EXPECT_EQ(judge(Op::write).reason, Reason::self_test_wrong);
}

TEST_F(VendorPathTest, ItsOwnErrorsAreToldByTheirNumbers) {
  const std::pair<const char*, int> cases[] = {
      {"closed", 5001}, {"refusing", 5027}, {"negative", 5011}, {"errno", EIO}};
  for (const auto& [script, number] : cases) {
    behave(script);
    make_path();
    EXPECT_EQ(judge().reason, Reason::vendor_refused) << script;
    EXPECT_EQ(judge().detail, number) << script;
  }
}

TEST_F(VendorPathTest, NothingIsLoadedWhereItIsOffOrMissingOrOfNoUse) {
  make_path(VendorUse::off);
  EXPECT_EQ(judge().reason, Reason::vendor_off);
  std::filesystem::remove(root() / "proc/driver/nvidia-fs/modules");
  make_path();
  EXPECT_EQ(judge().reason, Reason::nvidia_fs_missing);
  char host[64];
  EXPECT_EQ(path_->judge(*file_, devices_->describe(host), Op::read).reason, Reason::host_memory);
  EXPECT_EQ(seen(), nullptr);
  std::filesystem::remove(library_file());
  make_path();
  EXPECT_EQ(judge().reason, Reason::vendor_library_missing);
}

TEST_F(VendorPathTest, ALibraryThatLacksACallOrIsNoneIsIncomplete) {
  install(PENSTOCK_FAKE_VENDOR_INCOMPLETE);
  make_path();
  EXPECT_EQ(judge().reason, Reason::vendor_incomplete);
  std::filesystem::remove(library_file());  // Not in place: what was loaded may still be mapped.
  write_text(library_file(), "no library");
  make_path();
  EXPECT_EQ(judge().reason, Reason::vendor_incomplete);
}

// ---- Names ---------------------------------------------------------------------------------------------------------

TEST_F(VendorPathTest, ItsScratchHasANameForTheLibraryAndLosesItHoweverTheSelfTestEnds) {
  for (const char* script : {"direct", "compat", "short", "wrong", "refusing", "errno", "negative", "torn", "full"}) {
    behave(script);
    make_path();
    const Verdict verdict = judge();
    EXPECT_NE(verdict.detail, 5031) << script;
    EXPECT_EQ(leftovers(), "") << script;
    EXPECT_EQ(seen()->closed_first, 0) << script;
    EXPECT_TRUE(file_content() == content_) << script;
  }
}

TEST_F(VendorPathTest, WhereTheFolderTakesNoScratchWritesAreRefusedAndReadsTriedOnTheFileItself) {
  std::filesystem::permissions(folder_, std::filesystem::perms(0555));
  const ObeyingModes obeying;
  EXPECT_EQ(judge(Op::write).reason, Reason::no_scratch);
  EXPECT_TRUE(judge(Op::read).usable);
  std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  EXPECT_EQ(leftovers(), "");
  EXPECT_TRUE(file_content() == content_);
}

// The library opens files by their names.
TEST_F(VendorPathTest, AFileWithoutANameIsRefusedAloneWithTheLibrarysNumber) {
  for (const int flags : {0, O_DIRECT}) {
    const UniqueFd fd(::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600));
    ASSERT_TRUE(fd.valid());
    const std::unique_ptr<File> nameless = std::move(*File::open(storage_, fd.get()));
    expect_refused_alone(*nameless, 5031);
  }
}

// One that is not O_DIRECT is opened a second time by us, without the flag.
TEST_F(VendorPathTest, ADescriptorWithOpenFlagsThatTheLibraryTakesNotIsRefusedAlone) {
  for (const int flag : {O_NOFOLLOW, O_NONBLOCK, O_NOATIME}) {
    SCOPED_TRACE(flag);
    const UniqueFd direct(::open((folder_ / "file").c_str(), O_RDWR | O_CLOEXEC | O_DIRECT | flag));
    ASSERT_TRUE(direct.valid());
    expect_refused_alone(**File::open(storage_, direct.get()), 5019);
  }
  const UniqueFd buffered(::open((folder_ / "file").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  const std::unique_ptr<File> file = std::move(*File::open(storage_, buffered.get()));
  EXPECT_TRUE(judge(*file, Op::read).usable);
  path_->forget_file(*file);
}

// ---- Forced --------------------------------------------------------------------------------------------------------

TEST_F(VendorPathTest, ForcedItIsUsedAlthoughItIsNotDirectAndSaysSo) {
  std::filesystem::remove_all(root() / "proc");
  behave("compat");
  make_path(VendorUse::force);
  EXPECT_TRUE(judge().usable);
  EXPECT_EQ(judge().reason, Reason::vendor_not_direct);
  EXPECT_EQ(move(Op::read, 0, kFileBytes), (Bytes{{Reason::none, kFileBytes}}));
  EXPECT_EQ(std::memcmp(memory_, content_.data(), kFileBytes), 0);
  EXPECT_EQ(ways_, std::set<Way>{Way::buffered});
}

TEST_F(VendorPathTest, RequiredItHasToBeDirectAllTheSame) {
  behave("compat");
  make_path(VendorUse::force, true);
  EXPECT_FALSE(judge().usable);
  EXPECT_EQ(judge().reason, Reason::vendor_not_direct);
}

TEST_F(VendorPathTest, ForceMakesNoWrongBytesRight) {
  behave("wrong");
  make_path(VendorUse::force);
  EXPECT_EQ(judge().reason, Reason::self_test_wrong);
}

// ---- Bytes ---------------------------------------------------------------------------------------------------------

TEST_F(VendorPathTest, MovesBytesBothWaysWhateverTheirAlignment) {
  for (const char* script : {"direct", "short"}) {
    behave("direct");
    make_path();
    ASSERT_TRUE(judge(Op::write).usable);
    behave(script);
    EXPECT_EQ(move(Op::read, 4096, 200'704), (Bytes{{Reason::none, 200'704}}));
    EXPECT_EQ(std::memcmp(memory_, content_.data() + 4096, 200'704), 0);
    EXPECT_EQ(move(Op::read, 123, 200'001), (Bytes{{Reason::none, 200'001}}));
    EXPECT_EQ(std::memcmp(memory_, content_.data() + 123, 200'001), 0);
    for (std::size_t i = 0; i < kFileBytes; ++i) memory_[i] = static_cast<char>(i * 7);
    EXPECT_EQ(move(Op::write, 777, 150'000), (Bytes{{Reason::none, 150'000}}));
    content_.replace(777, 150'000, memory_, 150'000);
    EXPECT_TRUE(file_content() == content_);
    EXPECT_EQ(ways_, std::set<Way>{Way::direct});
  }
}

TEST_F(VendorPathTest, AReadEndsWithTheFile) {
  ASSERT_TRUE(judge().usable);
  const Completion completion = run(Op::read, kFileBytes - 100, 5000);
  EXPECT_TRUE(completion.status.ok());
  EXPECT_EQ(completion.bytes, 100u);
  EXPECT_EQ(std::memcmp(memory_, content_.data() + kFileBytes - 100, 100), 0);
  EXPECT_EQ(run(Op::read, kFileBytes + 8192, 5000).bytes, 0u);
}

class VendorFailureTest : public VendorPathTest, public testing::WithParamInterface<std::pair<const char*, int>> {};

TEST_P(VendorFailureTest, IsBouncedOnceCountedAndRemembered) {
  for (const Op op : {Op::read, Op::write}) {
    behave("direct");
    make_path();
    ASSERT_TRUE(judge(op).usable);
    behave(GetParam().first);
    std::memset(memory_, 'x', kFileBytes);
    EXPECT_EQ(move(op, 100, 200'000), (Bytes{{Reason::refused_late, 200'000}}));
    if (op == Op::write) content_.replace(100, 200'000, 200'000, 'x');
    else EXPECT_EQ(std::memcmp(memory_, content_.data() + 100, 200'000), 0);
    EXPECT_TRUE(file_content() == content_);
    const bool is_refusal = op == Op::write || GetParam().second != EIO;  // A read may have met a buffered write.
    EXPECT_EQ(judge(op).detail, is_refusal ? GetParam().second : 0);
    EXPECT_TRUE(judge(op == Op::read ? Op::write : Op::read).usable);
  }
}

TEST_P(VendorFailureTest, IsAnErrorWhereNothingMayBeBounced) {
  make_path(VendorUse::automatic, true);
  ASSERT_TRUE(judge().usable);
  behave(GetParam().first);
  EXPECT_TRUE(run(Op::read, 0, 4096).status.is(Code::path_refused));
}

INSTANTIATE_TEST_SUITE_P(Failures, VendorFailureTest,
                         testing::Values(std::pair("errno", EIO), std::pair("negative", 5011), std::pair("torn", EIO),
                                         std::pair("huge", EPROTO)),
                         [](const auto& failure) { return failure.param.first; });

TEST_F(VendorPathTest, AFullDiskIsNoRefusal) {
  ASSERT_TRUE(judge(Op::write).usable);
  behave("full");
  const Completion completion = run(Op::write, 0, 4096);
  EXPECT_TRUE(completion.status.is_errno(ENOSPC));
  EXPECT_EQ(completion.bounced, Reason::none);
  EXPECT_TRUE(judge(Op::write).usable);
}

// A hang in a self-test, or as its driver opens. What it does when it comes back, it does to what nobody uses.
class VendorHangTest : public VendorPathTest, public testing::WithParamInterface<const char*> {};

TEST_P(VendorHangTest, IsGivenUpAndNothingOfTheUsersIsEverTouched) {
  patience_ = std::chrono::milliseconds(300);
  make_path();
  behave(GetParam());
  // All memory of this stand-in for a device is the same: behind what a self-test takes.
  char* const memory = static_cast<char*>(*device_->allocate(2 << 20)) + (1 << 20);
  std::memset(memory, 'm', kFileBytes);
  for (const Op op : {Op::write, Op::read}) {
    EXPECT_EQ(judge(op).reason, Reason::vendor_refused);
    EXPECT_EQ(judge(op).detail, ETIMEDOUT);
    EXPECT_EQ(leftovers(), "");
  }
  path_->forget_file(*file_);
  path_.reset();
  behave("direct");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(file_content() == content_);
  EXPECT_TRUE(std::string(memory, kFileBytes) == std::string(kFileBytes, 'm'));
}

INSTANTIATE_TEST_SUITE_P(Calls, VendorHangTest,
                         testing::Values("hang_open", "hang_register", "hang_read", "hang_write"),
                         [](const auto& call) { return std::string(call.param); });

TEST_F(VendorPathTest, ARequestThatIsHeldUpIsWaitedForSinceItsBytesMayStillArrive) {
  patience_ = std::chrono::milliseconds(300);
  make_path();
  ASSERT_TRUE(judge().usable);
  behave("hang_read");
  std::thread release([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    behave("direct");
  });
  const Completion completion = run(Op::read, 4096, 8192);
  release.join();
  EXPECT_TRUE(completion.status.ok());
  EXPECT_EQ(completion.bytes, 8192u);
  EXPECT_EQ(std::memcmp(memory_, content_.data() + 4096, 8192), 0);
}

// ---- Lives ---------------------------------------------------------------------------------------------------------

TEST_F(VendorPathTest, AFileIsRegisteredOnceAndForgotten) {
  ASSERT_TRUE(judge().usable);
  const int before = seen()->registrations;
  path_->forget_file(*file_);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(judge().usable);
    ASSERT_TRUE(run(Op::read, 0, 4096).status.ok());
  }
  EXPECT_EQ(seen()->registrations, before + 1);
  EXPECT_EQ(seen()->files, 1);
  path_->forget_file(*file_);
  EXPECT_EQ(seen()->files, 0);
}

TEST_F(VendorPathTest, TheDriverIsOpenedOnceForAllAndClosedWithTheLast) {
  ASSERT_TRUE(judge().usable);
  FakeVendorSeen* const counts = seen();
  {
    const std::unique_ptr<VendorPath> first = std::move(path_);
    make_path();
    ASSERT_TRUE(judge().usable);
    ASSERT_TRUE(run(Op::read, 0, 4096).status.ok());
    EXPECT_EQ(counts->opens, 1);
    path_.reset();
    EXPECT_EQ(counts->files, 1);
    EXPECT_EQ(counts->closes, 0);
  }
  EXPECT_EQ(counts->files, 0);
  EXPECT_EQ(counts->closes, 1);
  make_path();
  ASSERT_TRUE(judge().usable);
  EXPECT_EQ(counts->opens, 2);
}

TEST_F(VendorPathTest, AForkedChildDoesNotTouchIt) {
  ASSERT_TRUE(judge().usable);
  FakeVendorSeen* const counts = seen();
  const pid_t child = ::fork();
  if (child == 0) {
    const int calls = counts->opens + counts->closes;
    VendorPath own(storage_, {.library = library_file(), .root = root().string()});
    const Verdict verdict = own.judge(*file_, devices_->describe(memory_), Op::read);
    path_.reset();
    const bool is_untouched = counts->opens + counts->closes == calls;
    ::_exit(verdict.reason == Reason::vendor_refused && verdict.detail == ECHILD && is_untouched ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace penstock::core
