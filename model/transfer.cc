// SPDX-License-Identifier: Apache-2.0

#include "model/transfer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "model/input.h"

namespace penstock::model {
namespace {

constexpr std::size_t kParameters = 4;
using Logarithms = std::array<double, kParameters>;

// The weight of a guess, relative to one measurement.
constexpr double kGuessWeight = 1e-4;

Logarithms logarithms(const TransferModel& model) {
  return {std::log(model.latency_s), std::log(model.stream_bytes_per_s), std::log(model.gap_s),
          std::log(model.ceiling_bytes_per_s)};
}

TransferModel model_of(const Logarithms& at) {
  return {std::exp(at[0]), std::exp(at[1]), std::exp(at[2]), std::exp(at[3])};
}

TransferModel guess(std::span<const Measurement> measurements) {
  TransferModel model{1, 0, 1, 0};
  for (const Measurement& one : measurements) {
    const double blocks_per_s = one.bytes_per_s / one.block_bytes;
    model.latency_s = std::min(model.latency_s, one.in_flight() / blocks_per_s / 2);
    model.gap_s = std::min(model.gap_s, 1 / blocks_per_s / 2);
    model.stream_bytes_per_s = std::max(model.stream_bytes_per_s, 2 * one.bytes_per_s / one.in_flight());
    model.ceiling_bytes_per_s = std::max(model.ceiling_bytes_per_s, one.bytes_per_s);
  }
  return model;
}

double misfit(const Logarithms& at, const Logarithms& guessed, std::span<const Measurement> measurements, double knee) {
  const TransferModel model = model_of(at);
  double sum = 0;
  for (const Measurement& one : measurements) {
    const double off = std::log(model.rate(one.block_bytes, one.in_flight(), knee) / one.bytes_per_s);
    sum += off * off;
  }
  for (std::size_t i = 0; i < kParameters; ++i) sum += kGuessWeight * (at[i] - guessed[i]) * (at[i] - guessed[i]);
  return sum;
}

struct Key {
  double block, threads, depth;
  auto operator<=>(const Key&) const = default;
};
Key key_of(const Measurement& one) { return {one.block_bytes, one.threads, one.depth}; }

GroupComparison compare_group(std::vector<Measurement> all, unsigned hold_out, double knee) {
  // This order spreads held-out measurements among the others, whatever the order in the file.
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return key_of(a) < key_of(b); });
  const auto is_held_out = [&](std::size_t i) { return hold_out > 0 && i % hold_out == hold_out / 2; };
  std::vector<Measurement> used;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!is_held_out(i)) used.push_back(all[i]);
  }
  GroupComparison group{all.front().group, fit(used, knee), {}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double predicted = group.model.rate(all[i].block_bytes, all[i].in_flight(), knee);
    group.rows.push_back({all[i], predicted, is_held_out(i)});
  }
  return group;
}

std::vector<double> errors(std::span<const GroupComparison> groups, bool held_out) {
  std::vector<double> sizes;
  for (const GroupComparison& group : groups) {
    for (const Comparison& row : group.rows) {
      if (row.was_held_out == held_out) sizes.push_back(std::abs(row.error()));
    }
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

}  // namespace

// The rate is the smaller of two limits, but near the knee it is below both.
double TransferModel::rate(double bytes, double in_flight, double knee) const {
  const double waiting = in_flight * bytes / block_s(bytes);
  const double working = bytes / (gap_s + bytes / ceiling_bytes_per_s);
  return std::pow(std::pow(waiting, -knee) + std::pow(working, -knee), -1 / knee);
}

// A pattern search along each axis and each pair of axes, with decreasing steps.
TransferModel fit(std::span<const Measurement> measurements, double knee) {
  if (measurements.empty()) throw InvalidInput("there is no measurement to calibrate by; hold fewer of them out");
  const Logarithms guessed = logarithms(guess(measurements));
  Logarithms best = guessed;
  double least = misfit(best, guessed, measurements, knee);
  const auto improves = [&](const Logarithms& at) {
    const double sum = misfit(at, guessed, measurements, knee);
    if (sum >= least) return false;
    least = sum;
    best = at;
    return true;
  };
  for (double step = 1; step > 1e-5; step /= 2) {
    bool moved = true;
    for (int round = 0; moved && round < 100; ++round) {
      moved = false;
      for (std::size_t move = 0; move < kParameters * kParameters * 4; ++move) {
        Logarithms at = best;
        at[move % kParameters] += (move & 16) != 0 ? step : -step;
        at[move / kParameters % kParameters] += (move & 32) != 0 ? step : -step;
        moved = improves(at) || moved;
      }
    }
  }
  return model_of(best);
}

std::vector<GroupComparison> compare(std::span<const Measurement> measurements, unsigned hold_out,
                                     const Constants& constants) {
  if (hold_out == 1) throw InvalidInput("holding out every measurement leaves none to calibrate by");
  std::vector<std::string> names;
  for (const Measurement& one : measurements) {
    if (std::find(names.begin(), names.end(), one.group) == names.end()) names.push_back(one.group);
  }
  std::vector<GroupComparison> groups;
  for (const std::string& name : names) {
    std::vector<Measurement> members;
    std::copy_if(measurements.begin(), measurements.end(), std::back_inserter(members),
                 [&](const Measurement& one) { return one.group == name; });
    groups.push_back(compare_group(std::move(members), hold_out, constants[Constant::kKnee]));
  }
  return groups;
}

double median_error(std::span<const GroupComparison> groups, bool held_out) {
  const std::vector<double> sizes = errors(groups, held_out);
  if (sizes.empty()) return std::numeric_limits<double>::quiet_NaN();
  const std::size_t middle = sizes.size() / 2;
  return sizes.size() % 2 == 1 ? sizes[middle] : (sizes[middle - 1] + sizes[middle]) / 2;
}

double largest_error(std::span<const GroupComparison> groups, bool held_out) {
  const std::vector<double> sizes = errors(groups, held_out);
  return sizes.empty() ? std::numeric_limits<double>::quiet_NaN() : sizes.back();
}

}  // namespace penstock::model
