// SPDX-License-Identifier: Apache-2.0

#include "stats/cufile_counters.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace penstock::core {
namespace {

class CufileCountersTest : public testing::Test {
 protected:
  CufileTotals totals() const { return counters_.total(); }
  const CufileCount& count(CufileOperation operation) {
    last_ = totals();
    return last_.operations(operation);
  }

  std::unique_ptr<CufileSection> section_ = std::make_unique<CufileSection>();
  CufileCounters counters_{*section_};
  CufileTotals last_;
};

TEST_F(CufileCountersTest, CountsNothingBeforeItIsStarted) {
  counters_.choose_level(3);
  counters_.add_transfer({.bytes = 4096});

  EXPECT_EQ(counters_.level(), 0u);
  EXPECT_EQ(count(CufileOperation::read).ok, 0u);
  EXPECT_EQ(totals().elapsed_ns, 0u);
}

TEST_F(CufileCountersTest, CountsNothingAtLevelZero) {
  counters_.start();
  counters_.add_transfer({.bytes = 4096});

  EXPECT_EQ(count(CufileOperation::read).ok, 0u);
}

TEST_F(CufileCountersTest, EachLevelCountsWhatTheLowerOnesDoAndMore) {
  counters_.start();
  for (unsigned level = 1; level <= 3; ++level) {
    counters_.choose_level(level);
    counters_.add_transfer({.bytes = 8192, .gpu = 2});
  }

  EXPECT_EQ(count(CufileOperation::read).ok, 3u);
  EXPECT_EQ(totals().sums.bytes[0], 3 * 8192u);
  EXPECT_EQ(totals().sums.sizes[0][2], 2u);
  EXPECT_EQ(totals().sums.gpus[2].transfers[0].total, 1u);
}

TEST_F(CufileCountersTest, StoppingKeepsWhatWasCountedAndResettingForgetsIt) {
  counters_.choose_level(1);
  counters_.start();
  counters_.add_transfer({.op = Op::write, .bytes = 10});
  counters_.stop();
  counters_.add_transfer({.op = Op::write, .bytes = 10});
  const std::uint64_t elapsed = totals().elapsed_ns;

  EXPECT_EQ(count(CufileOperation::write).ok, 1u);
  EXPECT_GT(elapsed, 0u);
  EXPECT_EQ(totals().elapsed_ns, elapsed) << "time goes on though it was stopped";

  counters_.reset();
  EXPECT_EQ(count(CufileOperation::write).ok, 0u);
  EXPECT_EQ(totals().sums.bytes[1], 0u);
  EXPECT_EQ(totals().elapsed_ns, 0u);
}

TEST_F(CufileCountersTest, AFailureIsCountedWithoutBytesOrTime) {
  counters_.choose_level(3);
  counters_.start();
  counters_.add_transfer({.ok = false, .bytes = 100, .nanoseconds = 100, .gpu = 0});

  EXPECT_EQ(count(CufileOperation::read).err, 1u);
  EXPECT_EQ(totals().sums.bytes[0], 0u);
  EXPECT_EQ(totals().sums.nanoseconds[0], 0u);
  EXPECT_EQ(totals().sums.gpus[0].transfers[0].failed, 1u);
}

TEST_F(CufileCountersTest, ABatchIsCountedFromSubmitToItsLastEntry) {
  counters_.choose_level(1);
  counters_.start();
  counters_.add_batch_submit(3, true, true, 5000);
  counters_.add_batch_entry({.op = Op::read, .bytes = 10});
  counters_.add_batch_entry({.op = Op::write, .bytes = 20, .way = CufileWay::p2p});
  counters_.add_batch_entry({.op = Op::write, .ok = false});
  counters_.add_batch_complete(10, 20, true, 9000);
  counters_.add_batch_submit(2, false, false, 1);

  EXPECT_EQ(count(CufileOperation::batch_submit).ok, 1u);
  EXPECT_EQ(count(CufileOperation::batch_submit).err, 1u);
  EXPECT_EQ(count(CufileOperation::batch_mixed_submit).ok, 3u);
  EXPECT_EQ(count(CufileOperation::batch_total_submit).ok, 3u);
  EXPECT_EQ(count(CufileOperation::batch_enqueued).ok, 1u);
  EXPECT_EQ(count(CufileOperation::batch_processed).ok, 1u);
  EXPECT_EQ(count(CufileOperation::batch_posix_enqueued).ok, 2u);
  EXPECT_EQ(count(CufileOperation::batch_posix_processed).ok, 1u);
  EXPECT_EQ(count(CufileOperation::batch_posix_processed).err, 1u);
  EXPECT_EQ(count(CufileOperation::batch_p2p_submit).ok, 1u);
  EXPECT_EQ(count(CufileOperation::batch_complete).ok, 1u);
  EXPECT_EQ(count(CufileOperation::read).ok, 0u);
  EXPECT_EQ(totals().sums.batch_bytes[1], 20u);
  EXPECT_EQ(totals().sums.submit_nanoseconds, 5000u);
  EXPECT_EQ(totals().sums.completion_nanoseconds, 9000u);
  EXPECT_EQ(totals().last_batch_bytes[0], 10u);
}

TEST_F(CufileCountersTest, SizesFallIntoRowsOfPowersOfTwo) {
  EXPECT_EQ(cufile_size_bucket(0), 0u);
  EXPECT_EQ(cufile_size_bucket(4095), 0u);
  EXPECT_EQ(cufile_size_bucket(4096), 1u);
  EXPECT_EQ(cufile_size_bucket(1 << 20), 9u);
  EXPECT_EQ(cufile_size_bucket(64 << 20), 15u);
  EXPECT_EQ(cufile_size_bucket(UINT64_MAX), kCufileSizeBuckets - 1);
}

TEST_F(CufileCountersTest, AGpuThatThereIsNoRoomForIsLeftOut) {
  counters_.choose_level(3);
  counters_.start();
  for (const int gpu : {-1, 16, 1'000'000}) {
    counters_.add_transfer({.bytes = 1, .gpu = gpu});
    counters_.add_registration(gpu, 1, true);
    counters_.add_deregistration(gpu, 1);
    counters_.name_gpu(gpu, {1});
  }

  EXPECT_EQ(count(CufileOperation::read).ok, 3u);
  for (const CufileGpu& gpu : totals().sums.gpus) EXPECT_EQ(gpu.transfers[0].total, 0u);
}

TEST_F(CufileCountersTest, ManyThreadsLoseNothing) {
  counters_.choose_level(3);
  counters_.start();
  std::vector<std::thread> threads;
  for (int i = 0; i < 20; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 500; ++j) counters_.add_transfer({.bytes = 2, .nanoseconds = 3, .gpu = 1});
    });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(count(CufileOperation::read).ok, 10'000u);
  EXPECT_EQ(totals().sums.bytes[0], 20'000u);
  EXPECT_EQ(totals().sums.nanoseconds[0], 30'000u);
  EXPECT_EQ(totals().sums.gpus[1].transfers[0].bytes, 20'000u);
}

TEST_F(CufileCountersTest, NonsenseInTheSectionIsBounded) {
  section_->chosen_level = 77;
  section_->gpu_count = 1u << 31;
  section_->started_ns = UINT64_MAX;

  EXPECT_EQ(totals().level, kCufileLevelMax);
  EXPECT_EQ(totals().gpu_count, kCufileGpus);
  EXPECT_EQ(totals().elapsed_ns, 0u);
}

}  // namespace
}  // namespace penstock::core
