// SPDX-License-Identifier: Apache-2.0

// A quantity over the time of a run: a row for each station or stream, in a fixed number of bins. The run's length is
// unknown at first, so bins are merged in pairs when it exceeds them. Memory is proportional to the rows.
#pragma once

#include <cstdint>
#include <vector>

#include "model/pcie/event_queue.h"

namespace penstock::model {

class Timeline {
 public:
  static constexpr std::size_t kBins = 256;

  Timeline() = default;
  explicit Timeline(std::size_t rows) : rows_(rows), cells_(rows * kBins, 0) {}

  void add(std::size_t row, Picoseconds time, double amount) {
    while ((time >> shift_) >= kBins) join_pairs();
    cells_[row * kBins + static_cast<std::size_t>(time >> shift_)] += static_cast<float>(amount);
  }

  std::size_t rows() const { return rows_; }
  double bin_seconds() const { return to_seconds(Picoseconds{1} << shift_); }
  double at(std::size_t row, std::size_t bin) const { return cells_[row * kBins + bin]; }

 private:
  void join_pairs() {
    for (std::size_t row = 0; row < rows_; ++row) {
      float* cells = &cells_[row * kBins];
      for (std::size_t i = 0; i < kBins / 2; ++i) cells[i] = cells[2 * i] + cells[2 * i + 1];
      for (std::size_t i = kBins / 2; i < kBins; ++i) cells[i] = 0;
    }
    ++shift_;
  }

  std::size_t rows_ = 0;
  unsigned shift_ = 20;  // Initial bin width, about a microsecond.
  std::vector<float> cells_;
};

}  // namespace penstock::model
