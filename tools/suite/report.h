// SPDX-License-Identifier: Apache-2.0

// Reports the suite's findings, as text, JSON and a page, all from the same values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/context.h"
#include "tools/common/interval.h"
#include "tools/common/runner.h"
#include "tools/common/terminal.h"
#include "tools/suite/workloads.h"

namespace penstock::tools {

// The times of one variant with one workload.
struct SuiteTimes {
  std::string way;
  std::vector<double> turns_s;
  double seconds() const { return median(turns_s); }
  double least() const;
  double most() const;
};

struct SuiteRow {
  const Workload* workload = nullptr;
  std::uint64_t bytes = 0;
  std::vector<SuiteTimes> ways;  // Without Penstock, with it, and with the other library.
  Tally tally;                   // Bytes that Penstock moved.
  std::optional<double> cached;  // The part of a load's bytes that was in the page cache; nothing: not known.

  double full_s(const SuiteTimes& times) const;  // The time at full size, in proportion.
  Ratio gain(std::size_t way) const;             // How many times as fast as without Penstock.
  std::vector<std::string> marks(const std::string& file_system) const;
};

struct SuiteFound {
  std::string folder;
  std::string file_system;
  std::string device;  // The device's line.
  Json device_facts;
  bool has_gpu = false;
  double scale = 0;
  unsigned turns = 0;
  double price = 0;  // Dollars for a GPU-hour.
  double saves = 0;
  std::vector<SuiteRow> rows;
};

constexpr double kSuiteGpus = 8;  // The GPUs that wait for a save, in the published figures.

Text suite_text(const SuiteFound& found);
Json suite_json(const SuiteFound& found);
std::string_view suite_page();  // "" if this build has no plots.

}  // namespace penstock::tools
