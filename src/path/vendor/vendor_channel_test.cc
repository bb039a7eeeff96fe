// SPDX-License-Identifier: Apache-2.0

// Transfers by the vendor path's channels, and the lifetime of files and library.
#include "path/vendor/vendor_channel.h"

#include <sys/wait.h>
#include <unistd.h>

#include "fakes/vendor_fixture.h"
#include "fakes/waiting.h"

namespace penstock::core {
namespace {

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
    EXPECT_EQ(io_modes_, std::set<IoMode>{IoMode::o_direct});
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
    EXPECT_EQ(move(op, 100, 200'000), (Bytes{{pipeline_reason::refused_late, 200'000}}));
    if (op == Op::write) content_.replace(100, 200'000, 200'000, 'x');
    else EXPECT_EQ(std::memcmp(memory_, content_.data() + 100, 200'000), 0);
    EXPECT_TRUE(file_content() == content_);
    // A read's EIO may come from a buffered write.
    const bool is_refusal = op == Op::write || GetParam().second != EIO;
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
  for (const auto& [script, error] : {std::pair("full", ENOSPC), {"quota", EDQUOT}, {"large", EFBIG}}) {
    behave(script);
    const Completion completion = run(Op::write, 0, 4096);
    EXPECT_TRUE(completion.status.is_errno(error)) << script;
    EXPECT_EQ(completion.bounced, Reason::none);
    EXPECT_TRUE(judge(Op::write).usable);
  }
}

// A call that hangs in a self-test, or while its driver opens. When it returns, it may touch only memory that is no
// longer in use.
class VendorHangTest : public VendorPathTest, public testing::WithParamInterface<const char*> {};

TEST_P(VendorHangTest, IsGivenUpAndNothingOfTheUsersIsEverTouched) {
  patience_ = std::chrono::milliseconds(300);
  make_path();
  behave(GetParam());
  // This stand-in has only one block of memory: this is behind the part that a self-test uses.
  char* const memory = static_cast<char*>(*device_->memory().allocate(2 << 20)) + (1 << 20);
  std::memset(memory, 'm', kFileBytes);
  for (const Op op : {Op::write, Op::read}) {
    EXPECT_EQ(judge(op).reason, vendor_reason::refused);
    EXPECT_EQ(judge(op).detail, ETIMEDOUT);
    EXPECT_EQ(leftovers(), "");
  }
  path_->forget_file(*file_);
  close_path();
  behave("direct");
  give_time_to_go_wrong(std::chrono::milliseconds(100));
  EXPECT_TRUE(file_content() == content_);
  EXPECT_TRUE(std::string(memory, kFileBytes) == std::string(kFileBytes, 'm'));
}

INSTANTIATE_TEST_SUITE_P(Calls, VendorHangTest,
                         testing::Values("hang_open", "hang_register", "hang_read", "hang_write"),
                         [](const auto& call) { return std::string(call.param); });

TEST_F(VendorPathTest, ARequestThatIsHeldUpIsWaitedForSinceItsBytesMayStillArrive) {
  patience_ = std::chrono::seconds(2);  // Longer than a self-test takes on a busy machine.
  make_path();
  ASSERT_TRUE(judge().usable);
  behave("hang_read");
  std::thread release([] {
    be_slow(std::chrono::milliseconds(2200));  // Longer than the patience of all tests.
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
    const std::unique_ptr<File> first_file = std::move(file_);
    file_ = std::move(*File::open(storage_, fd_.get()));
    make_path();
    ASSERT_TRUE(judge().usable);
    ASSERT_TRUE(run(Op::read, 0, 4096).status.ok());
    EXPECT_EQ(counts->opens, 1);
    close_path();
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
    close_path();
    const bool is_untouched = counts->opens + counts->closes == calls;
    ::_exit(verdict.reason == vendor_reason::refused && verdict.detail == ECHILD && is_untouched ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace penstock::core
