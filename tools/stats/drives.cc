// SPDX-License-Identifier: Apache-2.0

#include "tools/stats/drives.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

namespace penstock::tools {
namespace {

constexpr std::uint64_t kSectorBytes = 512;  // The same whatever the drive's own block size is.

std::optional<DriveCount> count_of(const std::string& line) {
  enum Field { read_sectors = 2, written_sectors = 6, busy_ms = 9, fields };
  std::uint64_t values[fields];
  std::istringstream text(line);
  for (std::uint64_t& value : values) {
    if (!(text >> value)) return std::nullopt;
  }
  return DriveCount{values[read_sectors] * kSectorBytes, values[written_sectors] * kSectorBytes, values[busy_ms]};
}

}  // namespace

DriveCounts read_drives(const core::Root& root) {
  DriveCounts counts;
  for (const std::string& name : root.list("/sys/block")) {
    if (!root.exists("/sys/block/" + name + "/device")) continue;  // It is made of other devices.
    if (const auto count = count_of(root.read_line("/sys/block/" + name + "/stat"))) counts[name] = *count;
  }
  return counts;
}

std::vector<DriveRate> DriveRates::add(DriveCounts counts, double seconds) {
  std::vector<DriveRate> rates;
  for (const auto& drive : counts) {
    const DriveCount& now = drive.second;
    const auto then = before_.find(drive.first);
    if (is_first_ || then == before_.end() || seconds <= 0) continue;
    const auto grown = [&](std::uint64_t DriveCount::*field) {
      const std::uint64_t before = then->second.*field;
      return now.*field > before ? static_cast<double>(now.*field - before) / seconds : 0;
    };
    const DriveRate rate{drive.first, grown(&DriveCount::read_bytes), grown(&DriveCount::written_bytes),
                         std::min(1.0, grown(&DriveCount::busy_ms) / 1000)};
    if (rate.read + rate.written > 0) rates.push_back(rate);
  }
  std::stable_sort(rates.begin(), rates.end(),
                   [](const DriveRate& a, const DriveRate& b) { return a.read + a.written > b.read + b.written; });
  before_ = std::move(counts);
  is_first_ = false;
  return rates;
}

}  // namespace penstock::tools
