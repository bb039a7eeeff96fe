// SPDX-License-Identifier: Apache-2.0

#include "model/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/checkpoint_report.h"
#include "model/input.h"

namespace penstock::model {
namespace {

constexpr PathModel kThroughHost[] = {PathModel::kBounce, PathModel::kSerial, PathModel::kPoor};

Fleet one_gpu_one_drive() { return {.ranks = 1, .drives = 1, .drive_bytes_per_s = 7e9}; }

Training some_run() {
  Training run;
  run.failure_s = 20 * 3600;
  run.recovery_s = 300;
  run.save_s = run.stall_s = 60;
  run.gpu_hour_price = 4;
  return run;
}

// The best period by search, to 1 part in a million.
double best_by_trying(const Training& run) {
  double low = run.stall_s, high = 1e6;
  while (high - low > 1e-7 * high) {
    const double a = low + (high - low) / 3, b = high - (high - low) / 3;
    (goodput(run, a) < goodput(run, b) ? low : high) = goodput(run, a) < goodput(run, b) ? a : b;
  }
  return low;
}

TEST(Checkpoint, TheBestPeriodIsTheMaximumOfGoodput) {
  EXPECT_NEAR(best_period_s(some_run()) / best_by_trying(some_run()), 1, 1e-3);
  Training overlapped = some_run();
  overlapped.stall_s = 2;
  EXPECT_NEAR(best_period_s(overlapped) / best_by_trying(overlapped), 1, 1e-3);
}

TEST(Checkpoint, ForRareFailuresTheBestPeriodIsYoungs) {
  Training run = some_run();
  run.failure_s = 1e9;
  EXPECT_NEAR(best_period_s(run) / young_daly_s(run.save_s, run.failure_s), 1, 1e-3);
  EXPECT_DOUBLE_EQ(young_daly_s(50, 10000), 1000);
}

TEST(Checkpoint, ASaveEndsBeforeTheNextBegins) {
  Training run = some_run();
  run.stall_s = 0.001;
  run.save_s = 5000;
  EXPECT_EQ(best_period_s(run), 5000);
}

TEST(Checkpoint, HoursLostAndKeptAddUpToTheRun) {
  const Training run = some_run();
  const Losses lost = losses(run);
  EXPECT_NEAR(lost.hours() + lost.goodput * run.hours, run.hours, 1e-9);
  EXPECT_NEAR(lost.money, lost.hours() * 8 * 4, 1e-9);
}

TEST(Checkpoint, TrainingThatGoesOnLosesLessThanTrainingThatWaits) {
  Training run = some_run();
  const double waiting = losses(run).hours();
  run.stall_s = 2;
  EXPECT_LT(losses(run).hours(), waiting);
}

TEST(Checkpoint, SavesLongerThanTheIntervalLoseEverythingAndNoMore) {
  Training run = some_run();
  run.save_s = run.stall_s = 700;
  run.period_s = 600;
  EXPECT_EQ(losses(run).goodput, 0);
  EXPECT_NEAR(losses(run).hours(), run.hours, 1e-9);
}

TEST(Checkpoint, TheSlowestStageSetsTheTimeOfAPipelineAndTheSumOfAllThatOfASerialOne) {
  const Constants constants;
  const Job job{.bytes = 42e9, .is_sharded = false};
  const Duration direct = duration(PathModel::kDirect, job, one_gpu_one_drive(), constants);
  EXPECT_DOUBLE_EQ(direct.seconds, 10);
  EXPECT_EQ(direct.binds, "drives");
  EXPECT_NEAR(duration(PathModel::kSerial, job, one_gpu_one_drive(), constants).seconds, 42 / 4.2 + 42 / 8.5 + 42 / 4.4,
              1e-9);
}

TEST(Checkpoint, ManyDrivesMakeTheLinksOrTheCpusCopyBind) {
  const Constants constants;
  const Fleet fleet{.ranks = 8, .drives = 64, .drive_bytes_per_s = 14e9};
  const Job job{.bytes = 1e12};
  EXPECT_EQ(duration(PathModel::kDirect, job, fleet, constants).binds, "GPU links");
  EXPECT_EQ(duration(PathModel::kBounce, job, fleet, constants).binds, "host copy");
}

TEST(Checkpoint, NoPathThroughTheHostBeatsDirectAndTheGoodOneTiesWhereDrivesBind) {
  const Constants constants;
  const Job job{.bytes = 140e9, .is_sharded = false};
  const double direct = duration(PathModel::kDirect, job, one_gpu_one_drive(), constants).seconds;
  for (const PathModel path : kThroughHost) {
    EXPECT_GE(duration(path, job, one_gpu_one_drive(), constants).seconds, direct);
  }
  EXPECT_DOUBLE_EQ(duration(PathModel::kBounce, job, one_gpu_one_drive(), constants).seconds, direct);
}

// Eight ranks that each need the whole file read it eight times directly, but once through the page cache.
TEST(Checkpoint, AReplicatedLoadReadsTheDrivesOnceThroughTheHost) {
  const Constants constants;
  const Fleet fleet{.ranks = 8, .drives = 1, .drive_bytes_per_s = 7e9};
  const Job job{.is_load = true, .bytes = 42e9, .is_replicated = true};
  EXPECT_NEAR(duration(PathModel::kDirect, job, fleet, constants).seconds, 80, 1e-9);
  EXPECT_NEAR(duration(PathModel::kBounce, job, fleet, constants).seconds, 10, 1e-9);
}

TEST(Checkpoint, NodesShareAFabricAndHaveDrivesOfTheirOwn) {
  const Constants constants;
  Fleet fleet{.ranks = 64, .nodes = 8, .drives = 1, .drive_bytes_per_s = 10e9};
  const Job job{.bytes = 480e9};
  EXPECT_NEAR(duration(PathModel::kDirect, job, fleet, constants).seconds, 10, 1e-9);
  fleet.fabric_bytes_per_s = 24e9;
  const Duration shared = duration(PathModel::kDirect, job, fleet, constants);
  EXPECT_NEAR(shared.seconds, 20, 1e-9);
  EXPECT_EQ(shared.binds, "fabric");
}

// The explanations of figures that are not reproduced, in docs and published.cc.
TEST(Checkpoint, TheExplanationsOfPublishedFiguresHold) {
  const Constants constants;
  Fleet cached = one_gpu_one_drive();
  cached.drive_cache_bytes = 8.75e9;
  const auto saved_in = [&](double gigabytes, const Fleet& fleet, PathModel path = PathModel::kDirect) {
    return duration(path, {.bytes = gigabytes * 1e9, .is_sharded = false}, fleet, constants).seconds;
  };
  EXPECT_NEAR(saved_in(14, cached), 2.5, 0.01);
  EXPECT_NEAR(saved_in(140, cached), 32.5, 0.01);
  const Fleet four_drives{.ranks = 8, .drives = 4, .drive_bytes_per_s = 14e9};
  EXPECT_NEAR(saved_in(140, four_drives, PathModel::kSerial), 52, 1);
  EXPECT_NEAR(saved_in(140, four_drives, PathModel::kPoor), 241, 1);
  EXPECT_NEAR(duration(PathModel::kPoor, {.bytes = 140e9}, four_drives, constants).seconds, 30, 1);
  const Job files{.is_load = true, .bytes = 100e9, .is_sharded = false, .files = 812000};
  EXPECT_NEAR(duration(PathModel::kDirect, files, one_gpu_one_drive(), constants).seconds, 105, 0.1);
}

TEST(Checkpoint, AWindowSaysWhatFitsAndHowManyDrivesItTakes) {
  const Constants constants;
  const Job job{.bytes = 140e9, .is_sharded = false};
  const Fleet one = one_gpu_one_drive();
  EXPECT_NEAR(bytes_within(PathModel::kDirect, job, one, constants, 30), 126e9, 1e3);
  EXPECT_EQ(drives_within(PathModel::kDirect, job, one, constants, 30), 2);
  EXPECT_EQ(drives_within(PathModel::kDirect, job, one, constants, 34), 1);
  EXPECT_EQ(drives_within(PathModel::kDirect, job, one, constants, 1), 0);  // One GPU's link takes 2.5 s.
  EXPECT_EQ(drives_within(PathModel::kPoor, job, one, constants, 30), 0);
  EXPECT_NEAR(bytes_within(PathModel::kPoor, job, one, constants, 30), 30 * 0.58e9, 1e3);
}

TEST(Checkpoint, SavesGoAtWhatDrivesAreSaidToWriteAndNoShareOfIt) {
  const Constants constants;
  Fleet fleet = one_gpu_one_drive();
  EXPECT_NEAR(duration(PathModel::kDirect, {.bytes = 42e9}, fleet, constants).seconds, 10, 1e-9);
  fleet.drive_write_bytes_per_s = 6e9;
  EXPECT_NEAR(duration(PathModel::kDirect, {.bytes = 42e9}, fleet, constants).seconds, 7, 1e-9);
  fleet.drive_write_bytes_per_s = 2e9;
  EXPECT_NEAR(duration(PathModel::kDirect, {.bytes = 42e9}, fleet, constants).seconds, 21, 1e-9);
  EXPECT_NEAR(duration(PathModel::kDirect, {.is_load = true, .bytes = 42e9}, fleet, constants).seconds, 10, 1e-9);
}

TEST(Checkpoint, MoreSavesThanTheRunHasRoomForAreRefusedAndSlowPathsToldSo) {
  CheckpointInput input;
  input.job.bytes = 80e9;
  input.run_hours = 1;
  input.checkpoints = 100000;
  try {
    (void)checkpoint_report(input, Constants(), false);
    ADD_FAILURE() << "not refused";
  } catch (const InvalidInput& refused) {
    EXPECT_STREQ(
        refused.what(),
        "100000 checkpoints in 1 h are one every 36.0 ms, and one takes 2.38 s at least: no more than 1512 fit "
        "into the run");
  }
  input.checkpoints = 600;
  const auto is_told = [&] {
    const std::vector<std::string> notes = checkpoint_report(input, Constants(), false).notes;
    return std::find(notes.begin(), notes.end(),
                     "'poor host' has no room for 600 checkpoints: it saves without a pause, 208 times.") !=
           notes.end();
  };
  EXPECT_TRUE(is_told());
  input.checkpoints = 100;
  EXPECT_FALSE(is_told());
}

TEST(Checkpoint, BadInputsAreRefused) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {0.0, -1.0, nan, infinity, 1e30}) {
    CheckpointInput input;
    input.job.bytes = bad;
    EXPECT_THROW(checkpoint_report(input, Constants(), false), InvalidInput) << bad;
    input.job.bytes = 1e9;
    input.fleet.ranks = bad;
    EXPECT_THROW(checkpoint_report(input, Constants(), false), InvalidInput) << bad;
    input.fleet = {};
    input.fleet.drive_bytes_per_s = bad;
    EXPECT_THROW(load_report(input, Constants(), false), InvalidInput) << bad;
    input.fleet = {};
    input.run_hours = bad;
    EXPECT_THROW(checkpoint_report(input, Constants(), false), InvalidInput) << bad;
  }
  EXPECT_THROW(check(Fleet{.ranks = 1, .nodes = 2}), InvalidInput);
}

TEST(CheckpointReport, EveryExampleGivesFiniteNumbers) {
  const Constants constants;
  for (const Example& example : checkpoint_examples(constants)) {
    const Report report = checkpoint_report(example.input, constants, false);
    for (const auto& row : report.sheets[1].rows) {
      for (const Json& cell : row) EXPECT_FALSE(cell.is_null()) << example.name;
    }
  }
  for (const Example& example : load_examples(constants)) {
    EXPECT_EQ(load_report(example.input, constants, false).sheets[0].rows.size(), 4u) << example.name;
  }
  EXPECT_THROW(example_named(load_examples(constants), "nothing"), InvalidInput);
}

TEST(CheckpointReport, TorchSaveIsOneRankWhateverTheOthersCouldWrite) {
  const Constants constants;
  CheckpointInput input;
  input.job.bytes = 80e9;
  const Report save = checkpoint_report(input, constants, false), load = load_report(input, constants, false);
  const auto& row = save.sheets[0].rows.back();
  EXPECT_EQ(row[0], "torch.save");
  EXPECT_NEAR(row[1].get<double>(), 80, 1e-6);
  EXPECT_EQ(row[3], "torch.save") << "what binds is no drive";
  const auto says_it = [](const std::string& note) {
    return note.find("torch.save(state, path) say penstock.checkpoint.save(state, folder)") != std::string::npos;
  };
  EXPECT_TRUE(std::any_of(save.notes.begin(), save.notes.end(), says_it));
  EXPECT_NE(load.sheets[0].rows.back()[0], "torch.save");
}

TEST(CheckpointReport, TheWeekLosesThePublishedHoursAndDollars) {
  const Constants constants;
  const Report report = checkpoint_report(example_named(checkpoint_examples(constants), "week"), constants, true);
  const auto& rows = report.sheets[1].rows;
  EXPECT_EQ(rows[0][0], "direct");
  EXPECT_NEAR(rows[0][11].get<double>(), 9.4, 0.94);
  EXPECT_NEAR(rows[0][12].get<double>(), 305, 30.5);
  EXPECT_EQ(rows[6][0], "poor host");
  EXPECT_NEAR(rows[6][11].get<double>(), 67, 6.7);
  EXPECT_NEAR(rows[6][12].get<double>(), 2176, 217.6);
}

}  // namespace
}  // namespace penstock::model
