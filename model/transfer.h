// SPDX-License-Identifier: Apache-2.0

// The rate of a path for blocks of one size and a number in flight: four numbers that a benchmark can determine. A
// single block takes block_s(); the path as a whole starts a block every gap_s and moves no more than the ceiling.
// Pure.
//
// Not modelled: bursts, caches that fill, and CPUs that run out (more threads than cores look like a ceiling).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/constants.h"

namespace penstock::model {

struct TransferModel {
  double latency_s = 0;            // Latency of an empty block.
  double stream_bytes_per_s = 0;   // Rate of one block in flight.
  double gap_s = 0;                // Between blocks, however many are in flight.
  double ceiling_bytes_per_s = 0;  // Total rate limit.

  double block_s(double bytes) const { return latency_s + bytes / stream_bytes_per_s; }
  double rate(double bytes, double in_flight, double knee) const;  // B/s
};

// One run of `penstock bench`.
struct Measurement {
  std::string group;  // "read bounce page cache": runs that one TransferModel can describe.
  std::string operation;
  double block_bytes = 0;
  double threads = 1;
  double depth = 1;
  double bytes_per_s = 0;
  bool is_direct = false;  // Most bytes bypassed the page cache.
  double in_flight() const { return threads * depth; }
};

// Fits the model to the logarithms of the measured rates. Deterministic. Fewer than four measurements do not determine
// all numbers; the others stay near a guess made from the measurements.
TransferModel fit(std::span<const Measurement> measurements, double knee);

struct Comparison {
  Measurement measured;
  double predicted_bytes_per_s;
  bool was_held_out;
  double error() const { return predicted_bytes_per_s / measured.bytes_per_s - 1; }
};
struct GroupComparison {
  std::string group;
  TransferModel model;
  std::vector<Comparison> rows;
};

// Fits each group to all but every `hold_out`th of its measurements (0: to all) and predicts every one of them.
std::vector<GroupComparison> compare(std::span<const Measurement> measurements, unsigned hold_out,
                                     const Constants& constants);

// Median of the absolute errors; NaN if there are none.
double median_error(std::span<const GroupComparison> groups, bool held_out);
double largest_error(std::span<const GroupComparison> groups, bool held_out);

}  // namespace penstock::model
