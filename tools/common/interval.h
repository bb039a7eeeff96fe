// SPDX-License-Identifier: Apache-2.0

// Says how far a measured rate can be trusted, and whether two rates differ. Pure.
//
// Parts of one measurement that follow each other are not independent: caches fill, other programs come and go. So the
// interval is computed from batches (batch means with Student's t): with 20, 10 and 5 batches, of which the widest
// interval counts, because long batches show changes that short ones do not; a trend widens it. The interval describes
// the time that was measured: a measurement of seconds cannot show changes from minute to minute.
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
  double amount = 0;  // Bytes, or whatever is counted.
};

struct Estimate {
  double rate = 0;           // Amount a second, over all samples together.
  double low = 0, high = 0;  // The 95 % interval; both equal `rate` if there is none.
  double degrees = 0;        // Degrees of freedom of Student's t; 0: too few samples for an interval.
  // The difference of the second half from the first, as a part of the rate; 0 if it is not significant.
  double drift = 0;
  std::vector<double> batches;  // The rates of parts of about equal time, in order; they show the spread.

  bool has_interval() const { return degrees > 0; }
  // Raises the upper end of the interval: other programs had the part `with_others` of the resources that were
  // measured, so without them the rate might have been higher by as much.
  void share(double with_others);
  double half_width() const { return (high - low) / 2; }
};

Estimate estimate(std::span<const Sample> samples);

// The bound that |t| stays within with 95 % probability.
double student(double degrees);
double median(std::vector<double> values);

// The ratio of two rates, b / a, with its 95 % interval.
struct Ratio {
  double ratio = 1, low = 0, high = 0;
  std::string_view method;

  bool differs() const { return low > 1 || high < 1; }
};

// Compares measurements that were taken in turns: equally many of each, at least two.
Ratio paired_ratio(std::span<const double> a, std::span<const double> b);
// Compares measurements that were taken independently; both have an interval.
Ratio welch_ratio(const Estimate& a, const Estimate& b);

}  // namespace penstock::tools
