// SPDX-License-Identifier: Apache-2.0

// How fast a path moves blocks of one size with some of them in flight: four numbers that a benchmark can settle.
// Each block waits block_s() alone; the path as a whole starts a block every gap_s and moves no more than ceiling.
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
  double latency_s = 0;            // Of a block of no bytes.
  double stream_bytes_per_s = 0;   // Of one block in flight.
  double gap_s = 0;                // Between blocks, however many are in flight.
  double ceiling_bytes_per_s = 0;  // Of all of them.

  double block_s(double bytes) const { return latency_s + bytes / stream_bytes_per_s; }
  double rate(double bytes, double in_flight, double knee) const;  // B/s
};

// One run of `penstock bench`.
struct Measurement {
  std::string group;  // "read bounce page cache": what one TransferModel can describe.
  std::string operation;
  double block_bytes = 0;
  double threads = 1;
  double depth = 1;
  double bytes_per_s = 0;
  bool is_direct = false;  // Most bytes went past the page cache.
  double in_flight() const { return threads * depth; }
};

// The model that comes nearest to the measurements in the logarithm of the rate. Deterministic. Fewer than four
// measurements leave something open; what they say nothing about stays near a guess made from them.
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

// Of the errors' sizes; NaN where there are none.
double median_error(std::span<const GroupComparison> groups, bool held_out);
double largest_error(std::span<const GroupComparison> groups, bool held_out);

}  // namespace penstock::model
