// SPDX-License-Identifier: Apache-2.0

#include "model/registration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/input.h"
#include "model/registration_report.h"

namespace penstock::model {
namespace {

Cost cost(Scheme scheme, const RegistrationInput& input = {}) { return cost_of(scheme, input, Constants()); }

TEST(Registration, HostMemoryCostsByThePageAndGpuMemoryHardly) {
  const Constants constants;
  EXPECT_DOUBLE_EQ(host_register_s(constants, 1), 11e-6);
  EXPECT_DOUBLE_EQ(host_register_s(constants, 4096), 11e-6);
  EXPECT_DOUBLE_EQ(host_register_s(constants, 4097), 12e-6);
  EXPECT_NEAR(gpu_register_s(constants, 1), 50e-6, 1e-8);
  EXPECT_NEAR(gpu_register_s(constants, 1 << 30), 50e-6 + 16384 * 9e-9, 1e-12);  // Pages of 64 KiB.
}

TEST(Registration, TheCudaDriverMapsIntoEachContextAndPagesThatAreAbsentCostMost) {
  const Constants constants;
  EXPECT_NEAR(cuda_register_s(constants, 4096e3, 1, true), 0.13e-3, 1e-12);
  EXPECT_NEAR(cuda_register_s(constants, 4096e3, 8, true), 1.04e-3, 1e-12);
  EXPECT_NEAR(cuda_register_s(constants, 4096e3, 1, false), 2.33e-3, 1e-12);
}

TEST(Registration, EfficiencyOfWhatIsPaidOnceGrowsTowardsOne) {
  const Cost once = cost(Scheme::kGpuOnce), each = cost(Scheme::kHostEachIo);
  EXPECT_LT(once.efficiency(1), once.efficiency(2));
  EXPECT_GT(once.efficiency(1e6), 0.9999);
  EXPECT_DOUBLE_EQ(each.efficiency(1), each.efficiency(1e6));
}

TEST(Registration, AtTheCrossoverBothSidesTakeTheSameTime) {
  RegistrationInput input;
  input.setup_s = 0.1;
  const Cost host = cost(Scheme::kHostEachIo, input), gpu = cost(Scheme::kGpuOnce, input);
  const double ios = crossover_ios(host, gpu, 0);
  EXPECT_NEAR(host.total_s(ios), gpu.total_s(ios), 1e-12);
  const double gaining = crossover_ios(host, gpu, 0.25);
  EXPECT_NEAR(0.75 * host.total_s(gaining), gpu.total_s(gaining), 1e-12);
  EXPECT_GT(gaining, ios);
}

// The published frontier has a bandwidth axis; without a required gain nothing changes along it.
TEST(Registration, WithoutAGainTheCrossoverDoesNotHangOnTheLink) {
  RegistrationInput slow, fast;
  slow.setup_s = fast.setup_s = 0.01;
  slow.link_bytes_per_s = 1e9;
  fast.link_bytes_per_s = 1e11;
  const auto at = [](const RegistrationInput& input, double gain) {
    return crossover_ios(cost(Scheme::kHostEachIo, input), cost(Scheme::kGpuOnce, input), gain);
  };
  EXPECT_NEAR(at(slow, 0), at(fast, 0), 1e-6);
  EXPECT_GT(at(slow, 0.1), 1.2 * at(fast, 0.1));
}

TEST(Registration, AGainThatTheTransferEatsUpNeverComes) {
  RegistrationInput input;
  input.link_bytes_per_s = 1e6;
  const double ios = crossover_ios(cost(Scheme::kHostEachIo, input), cost(Scheme::kGpuOnce, input), 0.5);
  EXPECT_EQ(ios, std::numeric_limits<double>::infinity());
}

TEST(Registration, OneThatIsDearerOnceAndForEachNeverPays) {
  EXPECT_EQ(crossover_ios({0, 1, 1}, {1, 1, 1}, 0), std::numeric_limits<double>::infinity());
  EXPECT_EQ(first_io(crossover_ios({1, 1, 1}, {0, 1, 1}, 0)), 1);
}

TEST(Registration, TheSetUpCostThatGivesThreeLiesBetweenABufferRegisteredAndADriverOpened) {
  const Constants constants;
  const double setup_s = setup_for_average(constants, 3);
  EXPECT_EQ(average_first_io(constants, setup_s), 3);
  EXPECT_LT(average_first_io(constants, 0.99 * setup_s), 3);
  EXPECT_GT(setup_s, constants[Constant::kCuFileBufferRegister]);
  EXPECT_LT(setup_s, constants[Constant::kCuFileDriverOpen]);
}

TEST(Registration, TheCacheHitsWhatItHolds) {
  const Constants constants;
  EXPECT_EQ(cache_hit_rate(constants, 64), 1);
  EXPECT_EQ(cache_hit_rate(constants, 128), 0.5);
}

// Memory registered for each I/O has a new translation on the NIC each time.
TEST(Registration, SixtyFourWorkersThrashACacheOfSixtyFour) {
  RegistrationInput input;
  input.workers = 64;
  EXPECT_EQ(cache_hit_rate(Constants(), input.translations()), 0.125);
  EXPECT_GT(cost(Scheme::kHostOnce, input).each_s, cost(Scheme::kHostOnce).each_s);
  EXPECT_EQ(cost(Scheme::kGpuOnce, input).each_s, 0);
}

TEST(Registration, BadInputsAreRefused) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {0.0, -1.0, nan, infinity, 1e30}) {
    RegistrationInput input;
    input.buffer_bytes = bad;
    EXPECT_THROW(check(input), InvalidInput) << bad;
    input = {};
    input.link_bytes_per_s = bad;
    EXPECT_THROW(check(input), InvalidInput) << bad;
    input = {};
    input.ios = bad;
    EXPECT_THROW(check(input), InvalidInput) << bad;
  }
  RegistrationInput input;
  input.gain = 1;
  EXPECT_THROW(registration_report(input, Constants(), false), InvalidInput);
}

TEST(RegistrationReport, TheFrontierIsAFullGridAndEverySurfaceNamesItsColumns) {
  const Report report = registration_report({}, Constants(), true);
  const Sheet& frontier = report.sheets.back();
  EXPECT_EQ(frontier.rows.size(), 19u * 8u);
  for (const Surface& surface : report.surfaces) {
    for (const std::string& name : {surface.x, surface.y, surface.z}) {
      const bool there = std::any_of(frontier.columns.begin(), frontier.columns.end(),
                                     [&](const Column& column) { return column.name == name; });
      EXPECT_TRUE(there) << name;
    }
  }
  for (const auto& row : frontier.rows) EXPECT_EQ(row.size(), frontier.columns.size());
}

TEST(Registration, TheReportSaysWhetherGpuMemoryIsWorthItForTheIosAskedAbout) {
  const auto first_note = [](const RegistrationInput& input) {
    return registration_report(input, Constants(), false).notes.front();
  };
  EXPECT_EQ(first_note({}), "4 I/Os of 1 MiB for one registration: GPU memory is worth it, 386 us against 1.4 ms.");
  // A driver's 108 ms compared with 266 us per I/O.
  RegistrationInput late;
  late.setup_s = 0.108;
  EXPECT_EQ(first_note(late),
            "4 I/Os of 1 MiB for one registration: GPU memory is not worth it, 108.4 ms against 1.4 ms; it is from "
            "I/O 407 on.");
}

}  // namespace
}  // namespace penstock::model
