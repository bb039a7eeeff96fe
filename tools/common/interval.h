// SPDX-License-Identifier: Apache-2.0

// How far a measured rate can be trusted, and whether two differ. Pure.
//
// Stretches of one measurement that follow each other are not independent: caches fill, neighbours come and go. So the
// interval is that of batches (batch means with Student's t), the widest of those of 20, 10 and 5 batches, since the
// longer ones have in them what the shorter ones do not see; and a trend widens it. It tells of the measured time:
// changes from minute to minute are in no measurement of seconds.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace penstock::tools {

constexpr std::size_t kBatchesLeast = 5;
constexpr std::size_t kBatchesMost = 20;

struct Sample {
  double seconds = 0;
  double amount = 0;  // Bytes, or whatever the rate is of.
};

struct Estimate {
  double rate = 0;           // By the second, over all samples together.
  double low = 0, high = 0;  // The 95 % interval; both are `rate` where there is none.
  double degrees = 0;        // The t's degrees of freedom; 0: too few samples for an interval.
  double drift = 0;          // By how much of the rate the second half differs from the first, where that is no chance.
  std::vector<double> batches;  // Rates of parts of about equal time, in order; for the spread.

  bool has_interval() const { return degrees > 0; }
  // Others had this part of what the measured had to share with them: the rate alone may be as much higher.
  void share(double with_others);
  double half_width() const { return (high - low) / 2; }
};

Estimate estimate(std::span<const Sample> samples);

// The value that |t| does not exceed with 95 % probability.
double student(double degrees);
double median(std::vector<double> values);

// The ratio of two rates, b / a, with its 95 % interval.
struct Ratio {
  double ratio = 1, low = 0, high = 0;
  std::string_view method;

  bool differs() const { return low > 1 || high < 1; }
};

// Compares as many of each, taken in turns, at least two.
Ratio paired_ratio(std::span<const double> a, std::span<const double> b);
// Compares measurements apart from each other; both have an interval.
Ratio welch_ratio(const Estimate& a, const Estimate& b);

}  // namespace penstock::tools
