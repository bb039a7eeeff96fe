// SPDX-License-Identifier: Apache-2.0

// Drives in the nodes against a file system that they share: what each makes training wait, what each costs a month,
// and from how many nodes or saves on the drives pay. A part of cost.h, whose platforms, prices and paths it takes.
// Saves go to the drives and are copied to the file system behind training ("drained"), or go there at once. Pure.
//
// Not modelled: others on the file system, a drain beside the next save on the same drives, loads in money.
#pragma once

#include <optional>
#include <vector>

#include "model/cost.h"

namespace penstock::model {

enum class StorageWay {
  kFileSystem,  // Saves go to the file system.
  kDrained,     // To the nodes' drives, and from there to the file system.
  kDrives,      // To the nodes' drives alone: lost with a node, and no file system is paid for.
};

constexpr double kMonthHours = 730;

struct StorageRow {
  const Platform* platform;
  bool is_spot;
  StorageWay way;
  double save_s;   // That training waits.
  double drain_s;  // Behind it; 0: nothing is drained.
  double load_s;
  double waiting_hours;  // A month.
  double waiting;        // $ a month, as the next two.
  double drives;
  double file_system;
  double money() const { return waiting + drives + file_system; }
};
// Of input.file_system, which must be there; a machine without drives has the first way alone.
std::vector<StorageRow> storage_rows(const std::vector<Platform>& platforms, const CostInput& input,
                                     const Constants& constants);

// From when on drives and drain cost less than the file system alone, which stays as it is.
struct StorageBreakEven {
  std::optional<double> saves;        // A month; nothing: never, since they are not faster.
  std::optional<unsigned> nodes;      // The fewest; nothing: not up to kNodesTried.
  std::optional<double> bytes_per_s;  // As fast a file system costs as little; nothing: the nodes' ports bind before.
};
constexpr unsigned kNodesTried = 4096;
StorageBreakEven storage_break_even(const Platform& platform, bool is_spot, const CostInput& input,
                                    const Constants& constants);

std::vector<Sheet> storage_sheets(const std::vector<Platform>& platforms, const CostInput& input,
                                  const Constants& constants);
std::vector<std::string> storage_notes(const CostInput& input);

}  // namespace penstock::model
