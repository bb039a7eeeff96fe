// SPDX-License-Identifier: Apache-2.0

#include "tools/common/interval.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace penstock::tools {
namespace {

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double variance(std::span<const double> values) {
  const double middle = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return sum / static_cast<double>(values.size() - 1);
}

double rate_of(const Sample& sample) { return sample.seconds > 0 ? sample.amount / sample.seconds : 0; }

Sample sum_of(std::span<const Sample> samples) {
  Sample sum;
  for (const Sample& each : samples) {
    sum.seconds += each.seconds;
    sum.amount += each.amount;
  }
  return sum;
}

// Groups neighbouring samples into at most `count` batches of about equal time. If there are no more samples than that,
// each is a batch, except short ones, such as the end of something cut into equal parts: they join the one before.
std::vector<double> batches_of(std::span<const Sample> samples, std::size_t count) {
  const double each = sum_of(samples).seconds / static_cast<double>(count);
  const bool is_grouped = samples.size() > count;
  std::vector<Sample> batches;
  double seconds = 0;
  for (const Sample& one : samples) {
    // A clock's rounding error must not delay the end of a batch by a whole sample.
    const bool begins =
        is_grouped ? seconds >= each * static_cast<double>(batches.size()) * (1 - 1e-9) : one.seconds >= each / 4;
    if (batches.empty() || begins) batches.emplace_back();
    batches.back().seconds += one.seconds;
    batches.back().amount += one.amount;
    seconds += one.seconds;
  }
  std::vector<double> rates;
  for (const Sample& batch : batches) rates.push_back(rate_of(batch));
  return rates;
}

// The mean of the second half less that of the first if the difference is significant, else 0.
double trend(std::span<const double> rates) {
  const auto first = rates.first(rates.size() / 2), second = rates.last(rates.size() / 2);
  if (first.size() < 2) return 0;
  const double difference = mean(second) - mean(first);
  const double error = std::sqrt((variance(first) + variance(second)) / static_cast<double>(first.size()));
  return std::abs(difference) > student(2 * static_cast<double>(first.size()) - 2) * error ? difference : 0;
}

struct Welch {
  double error, degrees;
};

Welch welch(double error_a, double degrees_a, double error_b, double degrees_b) {
  const double a = error_a * error_a, b = error_b * error_b;
  if (a + b == 0) return {0, std::min(degrees_a, degrees_b)};
  return {std::sqrt(a + b), (a + b) * (a + b) / (a * a / degrees_a + b * b / degrees_b)};
}

Ratio ratio_of(double logarithm, double half, std::string_view method) {
  return {std::exp(logarithm), std::exp(logarithm - half), std::exp(logarithm + half), method};
}

}  // namespace

double student(double degrees) {
  constexpr std::array<double, 30> kTable = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                             2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                             2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  if (degrees >= 30) return 1.960 + (kTable.back() - 1.960) * 30 / degrees;
  const double at = std::max(degrees, 1.0) - 1;
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, kTable.size() - 1);
  return kTable[below] + (kTable[above] - kTable[below]) * (at - static_cast<double>(below));
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Estimate estimate(std::span<const Sample> samples) {
  Estimate told;
  told.low = told.high = told.rate = rate_of(sum_of(samples));
  const std::size_t most = std::min(samples.size(), kBatchesMost);
  if (most == 0) return told;
  told.batches = batches_of(samples, most);
  double half = 0;
  for (std::size_t count = most; count >= kBatchesLeast; count /= 2) {
    const std::vector<double> rates = batches_of(samples, count);
    if (rates.size() < kBatchesLeast) break;
    const double degrees = static_cast<double>(rates.size()) - 1;
    const double of_these = student(degrees) * std::sqrt(variance(rates) / static_cast<double>(rates.size()));
    if (told.has_interval() && of_these <= half) continue;
    half = of_these;
    told.degrees = degrees;
  }
  if (!told.has_interval()) return told;
  const double change = trend(told.batches);
  half += std::abs(change) / 2;
  told.low = std::max(0.0, told.rate - half);
  told.high = told.rate + half;
  told.drift = told.rate > 0 ? change / told.rate : 0;
  return told;
}

void Estimate::share(double with_others) {
  // Below kUsual it is load that always goes on; kMost bounds how much the rate may be raised.
  constexpr double kUsual = 0.05, kMost = 0.75;
  if (!has_interval() || with_others <= kUsual) return;
  high = std::max(high, rate / (1 - std::min(with_others, kMost)));
}

Ratio paired_ratio(std::span<const double> a, std::span<const double> b) {
  std::vector<double> logarithms;
  for (std::size_t i = 0; i < a.size(); ++i) logarithms.push_back(std::log(b[i] / a[i]));
  const auto count = static_cast<double>(logarithms.size());
  const double half = student(count - 1) * std::sqrt(variance(logarithms) / count);
  return ratio_of(mean(logarithms), half, "a paired t-test of the logarithms");
}

Ratio welch_ratio(const Estimate& a, const Estimate& b) {
  const auto error = [](const Estimate& one) { return one.half_width() / student(one.degrees) / one.rate; };
  const Welch both = welch(error(a), a.degrees, error(b), b.degrees);
  return ratio_of(std::log(b.rate / a.rate), student(both.degrees) * both.error, "Welch's t-test of the logarithms");
}

}  // namespace penstock::tools
