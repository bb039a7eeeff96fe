// SPDX-License-Identifier: Apache-2.0

// The vendor path where a setting, the device's driver or the library refuses what it is asked for.
#include "fakes/failing_gpu.h"
#include "fakes/vendor_fixture.h"
#include "fakes/waiting.h"
#include "path/paths.h"

namespace penstock::core {
namespace {

class VendorRefusalTest : public VendorPathTest {
 protected:
  std::unique_ptr<DeviceSet> open_devices() override {
    auto gpu = std::make_unique<FailingGpu>();
    gpu_ = gpu.get();
    return gpu;
  }
  void TearDown() override {
    if (gpu_ != nullptr) gpu_->fail_at(0);
    VendorPathTest::TearDown();
  }

  FailingGpu* gpu_ = nullptr;
};

TEST_F(VendorRefusalTest, EachCallOfTheDriverMayFailInTheSelfTestAndIsToldByAReason) {
  behave("direct");
  unsigned refusals = 0;
  for (unsigned n = 1; n == 1 || gpu_->has_failed(); ++n) {
    make_path();
    gpu_->fail_at(n);
    const Verdict read = judge(Op::read), write = judge(Op::write);
    refusals += read.usable && write.usable ? 0 : 1;
    EXPECT_EQ(read.usable, read.reason == Reason::none) << n;
    EXPECT_EQ(write.usable, write.reason == Reason::none) << n;
    EXPECT_EQ(gpu_->allocation_count(), 1u) << "the user's; " << n;
  }
  EXPECT_GT(refusals, 10u);
  EXPECT_EQ(leftovers(), "");
  EXPECT_EQ(file_content(), content_);
}

TEST_F(VendorRefusalTest, EachCallOfTheDriverMayFailInARequestAndNoWrongByteIsTold) {
  behave("direct");
  ASSERT_TRUE(judge().usable);
  unsigned errors = 0;
  for (unsigned n = 1; n == 1 || gpu_->has_failed(); ++n) {
    gpu_->fail_at(n);
    const Completion completion = run(Op::read, 0, 8192);
    errors += completion.status.ok() ? 0 : 1;
    EXPECT_EQ(completion.bytes, completion.status.ok() ? 8192u : 0u) << n;
    EXPECT_EQ(std::memcmp(memory_, content_.data(), completion.bytes), 0) << n;
  }
  EXPECT_EQ(errors, 1u) << "the one that makes the device's context current";
}

TEST_F(VendorRefusalTest, WhatIsKnownBeforehandOpensNoLibrary) {
  behave("direct");
  direct_io_ = false;
  make_path();
  EXPECT_EQ(judge().reason, Reason::direct_io_off);
  direct_io_ = true;
  const_cast<DeviceFacts&>(gpu_->facts()).is_pinned_for_modules = false;
  make_path();
  EXPECT_EQ(judge().reason, vendor_reason::gpu);
  EXPECT_EQ(seen(), nullptr);
  make_path(VendorUse::force);
  EXPECT_TRUE(judge().usable) << "it may copy";
}

TEST_F(VendorRefusalTest, AFileWithoutDirectIoIsRefused) {
  behave("direct");
  file_->give_up_o_direct();
  EXPECT_EQ(judge().reason, reason_of(Obstacle::no_direct_io));
}

TEST_F(VendorRefusalTest, WithoutTheLibraryNoChannelOpens) {
  make_path(VendorUse::off);
  EXPECT_EQ(judge().reason, vendor_reason::off);
  EXPECT_TRUE(
      path_->open_channel({.device = device_, .depth = 1, .chunk_max = kChunk}).status().is(Code::path_refused));
}

TEST_F(VendorRefusalTest, AChannelPinsOnlyWhatItMayBounceWith) {
  const ChannelOptions options{.device = device_, .depth = 4, .chunk_max = kChunk};
  EXPECT_EQ(path_->channel_bytes(options), kChunk);
  make_path(VendorUse::automatic, true);
  EXPECT_EQ(path_->channel_bytes(options), 0u);
}

TEST_F(VendorRefusalTest, ADriverThatOthersOpenedIsLeftOpen) {
  behave("already");
  make_path();
  EXPECT_EQ(judge().reason, vendor_reason::not_direct) << "it counts nothing";
  FakeVendorSeen* const seen = this->seen();
  ASSERT_NE(seen, nullptr);
  const int closes = seen->closes;
  close_path();
  EXPECT_EQ(seen->closes, closes);
}

TEST_F(VendorRefusalTest, AFileThatTheLibraryRefusesIsNotGivenBackToIt) {
  behave("direct");
  ASSERT_TRUE(judge().usable);
  behave("refusing");
  const std::unique_ptr<File> other = std::move(*File::open(storage_, fd_.get()));
  EXPECT_EQ(judge(*other, Op::read).reason, vendor_reason::refused);
  EXPECT_EQ(judge(*other, Op::read).detail, 5027);
  const int files = seen()->files;
  close_path();
  EXPECT_EQ(seen()->files, files - 1) << "of the first file alone";
}

TEST_F(VendorRefusalTest, ALibraryThatMovesNothingEndsAReadAndFailsAWrite) {
  behave("direct");
  ASSERT_TRUE(judge(Op::read).usable);
  ASSERT_TRUE(judge(Op::write).usable);
  behave("idle");
  EXPECT_EQ(run(Op::read, 0, 8192).bytes, 0u);
  const Completion written = run(Op::write, 0, 8192);
  EXPECT_EQ(written.bytes, 8192u);
  EXPECT_EQ(written.bounced, pipeline_reason::refused_late);
}

// The library opens files by their names, and what the kernel calls this one is another's name.
TEST_F(VendorRefusalTest, AFileWhoseNameIsAnothersIsRefusedAlone) {
  behave("direct");
  write_text(folder_ / "moved", content_);
  const UniqueFd fd(::open((folder_ / "moved").c_str(), O_RDWR | O_CLOEXEC));
  const std::unique_ptr<File> moved = std::move(*File::open(storage_, fd.get()));
  std::filesystem::remove(folder_ / "moved");
  write_text(folder_ / "moved (deleted)", content_);
  expect_refused_alone(*moved, 5031);
}

TEST_F(VendorRefusalTest, CountersThatWereResetMeanwhileProveNothing) {
  behave("direct");
  write_text(stats_file(), stats_text(1'000'000, 1'000'000));
  make_path();
  EXPECT_EQ(judge(Op::write).reason, vendor_reason::not_direct);
}

TEST_F(VendorRefusalTest, AStatisticThatIsGoneMeanwhileProvesNothing) {
  behave("direct");
  ::setenv("FAKE_VENDOR_STATS", (root() / "no/such/file").c_str(), 1);
  make_path();
  EXPECT_EQ(judge(Op::write).reason, vendor_reason::not_direct);
}

TEST_F(VendorRefusalTest, ALibraryWhoseDriverDidNotOpenInTimeIsNotAskedAgain) {
  patience_ = std::chrono::milliseconds(50);
  behave("hang_open");
  make_path();
  EXPECT_EQ(judge().detail, ETIMEDOUT);
  behave("direct");
  FakeVendorSeen* const seen = this->seen();
  ASSERT_NE(seen, nullptr);
  ASSERT_TRUE(wait_until([&] { return seen->opens == 1; })) << "it comes back, and nobody waits for it";
  patience_ = std::chrono::hours(1);
  make_path();
  EXPECT_EQ(judge().reason, vendor_reason::refused);
  EXPECT_EQ(judge().detail, ETIMEDOUT);
  EXPECT_EQ(seen->opens, 1);
}

TEST_F(VendorRefusalTest, ForcedItServesWhereThereIsNoSystemToCountIn) {
  behave("direct");
  std::filesystem::remove_all(root());
  make_path();
  EXPECT_EQ(judge().reason, vendor_reason::nvidia_fs_missing);
  make_path(VendorUse::force);
  EXPECT_TRUE(judge().usable);
  EXPECT_EQ(judge().reason, vendor_reason::not_direct);
}

TEST_F(VendorRefusalTest, TheOutlookTellsTheFirstThatIsMissing) {
  VendorRules rules{.use = VendorUse::automatic, .root = root().string()};
  EXPECT_EQ(vendor_outlook(rules), vendor_reason::library_missing) << "none in its usual places";
  rules.library = library_file();
  EXPECT_EQ(vendor_outlook(rules), Reason::none);
  write_text(root() / "proc/sys/kernel/osrelease", "7.2.1\n");
  EXPECT_EQ(vendor_outlook(rules), pipeline_reason::nvidia_fs_task_switch) << "it would stop the machine";
  rules.root = "/no/such/root";
  EXPECT_EQ(vendor_outlook(rules), vendor_reason::nvidia_fs_missing);
}

}  // namespace
}  // namespace penstock::core
