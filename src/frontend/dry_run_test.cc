// SPDX-License-Identifier: Apache-2.0

// A dry run tells how a request would be moved, or why it would not be, and moves nothing.
#include "frontend/dry_run.h"

#include <gtest/gtest.h>

#include <string>

#include "device/host/host_device.h"
#include "fakes/fake_storage.h"
#include "fakes/test_config.h"
#include "fakes/waiting.h"
#include "frontend/transfer.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kLarge = 16u << 20;

class NoFile final : public UserspaceFile {
 public:
  Result<std::size_t> move(Op, std::byte*, std::size_t size, std::uint64_t) override { return size; }
};

class DryRunTest : public testing::Test {
 protected:
  void open(const Config& config) {
    session_.reset();
    auto storage = std::make_unique<FakeStorage>();
    storage_ = storage.get();
    storage->content.resize(kLarge);
    session_ = std::make_unique<Session>(config, std::move(storage), std::make_unique<HostDeviceSet>());
    file_ = session_->register_file(FakeStorage::kUserFd).value();
    memory_ = session_->devices().device(0).value()->memory().allocate(kLarge).value();
  }
  RawRequest request(Op op, std::uint64_t size) const { return {op, file_, memory_, size, 0, 0}; }
  PointerFacts facts() { return session_->devices().describe(memory_); }
  std::string plan(Op op, std::uint64_t size, unsigned lines = 100) {
    const Result<std::string> text = plan_text(*session_, request(op, size), facts(), lines);
    EXPECT_TRUE(text.ok()) << describe(text.status());
    return text.ok() ? *text : "";
  }
  static bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

  FakeStorage* storage_ = nullptr;
  std::unique_ptr<Session> session_;
  std::uint64_t file_ = 0;
  void* memory_ = nullptr;
};

TEST_F(DryRunTest, APlanSaysByWhomAndInWhichChunks) {
  open(test_config({{"workers", "2"}, {"placement", "cpus:0"}}));
  const std::string small = plan(Op::read, 4096);
  EXPECT_TRUE(has(small, "by the caller's own thread")) << small;
  EXPECT_TRUE(has(small, "placement cpus:0")) << small;
  EXPECT_FALSE(has(small, " more\n")) << small;
  const std::string large = plan(Op::read, kLarge, 1);
  EXPECT_TRUE(has(large, "threads to begin with, to be tuned")) << large;
  EXPECT_TRUE(has(large, " more\n")) << large;
  const std::string write = plan(Op::write, kLarge);
  EXPECT_TRUE(has(write, "by up to 2 threads;")) << "writers of one file wait for one another: " << write;
  open(test_config({{"paths", "null"}}));
  const std::string pretended = plan(Op::read, 4096);
  EXPECT_FALSE(has(pretended, "by ")) << pretended;
  EXPECT_FALSE(has(pretended, "placement")) << pretended;
  EXPECT_TRUE(storage_->accesses.empty());
}

TEST_F(DryRunTest, AChoiceSaysWhatDecidedIt) {
  open(test_config({{"workers", "2"}}));
  EXPECT_EQ(choice(*session_, request(Op::read, 4096), facts())->by, Choice::By::size);
  const Choice large = choice(*session_, request(Op::read, kLarge), facts()).value();
  EXPECT_EQ(large.by, Choice::By::first_guess);
  const std::uint64_t userspace = session_->register_file(std::make_unique<NoFile>()).value();
  RawRequest read = request(Op::read, kLarge);
  read.file = userspace;
  const Choice blocking = choice(*session_, read, facts()).value();
  EXPECT_EQ(blocking.path, PathId::userspace);
  EXPECT_LT(blocking.depth, large.depth) << "each thread waits for its chunk";
  EXPECT_TRUE(storage_->accesses.empty());
}

TEST_F(DryRunTest, AChoiceThatWasMeasuredSaysSo) {
  open(test_config({{"workers", "2"}}));
  const RawRequest read = request(Op::read, kLarge);

  EXPECT_TRUE(wait_until([&] {
    EXPECT_TRUE(transfer(*session_, read).status.ok());
    return choice(*session_, read, facts())->by == Choice::By::measurement;
  }));

  const std::string text = plan(Op::read, kLarge);
  EXPECT_TRUE(has(text, "threads, as measured;")) << text;
}

// Several threads copy them out of the page cache, each in smaller parts.
TEST_F(DryRunTest, BytesInThePageCacheAreReadInSmallerParts) {
  constexpr std::uint64_t kSize = 2u << 20;
  open(test_config({{"workers", "2"}}));
  const Choice from_storage = choice(*session_, request(Op::read, kSize), facts()).value();
  storage_->resident = true;

  const Choice cached = choice(*session_, request(Op::read, kSize), facts()).value();

  EXPECT_GT(cached.threads, 1u);
  EXPECT_LT(cached.chunk, from_storage.chunk);
  EXPECT_LT(cached.depth, from_storage.depth);
  EXPECT_TRUE(has(plan(Op::read, kSize), "threads to begin with, to be tuned; each"));
}

TEST_F(DryRunTest, WhatWouldBeRefusedIsToldWithItsReason) {
  open(test_config({{"paths", "host"}}));
  RawRequest nobodys = request(Op::read, 4096);
  nobodys.file += 1000;
  EXPECT_TRUE(plan_text(*session_, nobodys, facts(), 1).status().is(Code::not_registered));
  EXPECT_TRUE(choice(*session_, nobodys, facts()).status().is(Code::not_registered));
  EXPECT_TRUE(plan_text(*session_, request(Op::read, 4096), facts(), 1).status().is(Code::path_refused));
  EXPECT_TRUE(choice(*session_, request(Op::read, 4096), facts()).status().is(Code::path_refused));
  Verdict verdicts[kPathCount];
  EXPECT_TRUE(explain(*session_, nobodys.file, facts(), Op::read, verdicts).status().is(Code::not_registered));
  EXPECT_GT(explain(*session_, file_, facts(), Op::read, verdicts).value(), 1u);
  EXPECT_EQ(verdicts[0].path, PathId::host);
  EXPECT_FALSE(verdicts[0].usable) << "it serves host memory";
}

TEST_F(DryRunTest, TheOutlookOfAPathNeedsNoFile) {
  open(test_config({{"paths", "p2pdma,host"}}));
  EXPECT_NE(outlook(*session_, PathId::host).reason, Reason::not_listed);
  EXPECT_NE(outlook(*session_, PathId::userspace).reason, Reason::not_listed) << "no list of paths names it";
  EXPECT_EQ(outlook(*session_, PathId::bounce).reason, Reason::not_listed);
  for (const PathRow& row : kPaths) {
    const Verdict verdict = outlook(*session_, row.id);
    EXPECT_EQ(verdict.path, row.id);
    EXPECT_EQ(verdict.usable, verdict.reason == Reason::none) << row.name;
  }
}

// It allocates no blocks either.
TEST_F(DryRunTest, ThePathThatPretendsMovesNothing) {
  open(test_config({{"workers", "2"}, {"paths", "null"}}));
  for (const Op op : {Op::read, Op::write}) {
    for (const std::uint64_t size : {std::uint64_t{4096}, kLarge}) {
      const Outcome outcome = transfer(*session_, request(op, size));
      EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
      EXPECT_EQ(outcome.report.path, PathId::null);
      EXPECT_EQ(outcome.report.bytes, size);
    }
  }
  std::byte staging[4096] = {};
  const PointerFacts known = facts();
  RawRequest staged = request(Op::read, sizeof staging);
  staged.staging = staging;
  staged.memory = &known;
  EXPECT_EQ(transfer(*session_, staged).report.bytes, sizeof staging);
  EXPECT_TRUE(storage_->accesses.empty());
}

}  // namespace
}  // namespace penstock::core
