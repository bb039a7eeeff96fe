// SPDX-License-Identifier: Apache-2.0

// Compares drives in the nodes with a shared file system: how long training waits, the cost per month, and from how
// many nodes or saves on drives pay off. A part of cost.h, with the same platforms, prices and paths. Saves go to the
// drives and are copied to the file system in the background ("drained"), or go there directly. Pure.
//
// Not modelled: other users of the file system, a drain that overlaps the next save on the same drives, the cost of
// loads.
#pragma once

#include <optional>
#include <vector>

#include "model/cost.h"

namespace penstock::model {

enum class StorageWay {
  kFileSystem,  // Saves go to the file system.
  kDrained,     // Saves go to the nodes' drives, and from there to the file system.
  kDrives,      // Saves stay on the nodes' drives: lost with a node, but no file system is paid for.
};

struct StorageRow {
  const Platform* platform;
  bool is_spot;
  StorageWay way;
  double save_s;   // Time that training waits.
  double drain_s;  // Time in the background; 0: nothing is drained.
  double load_s;
  double waiting_hours;  // A month.
  double waiting;        // $ per month, like the next two.
  double drives;
  double file_system;
  double bytes_per_s;  // Of a save.
  double money() const { return waiting + drives + file_system; }
};
// Requires input.file_system; a machine without drives only has the first way.
std::vector<StorageRow> storage_rows(const std::vector<Platform>& platforms, const CostInput& input,
                                     const Constants& constants);

// The break-even of drives with draining against the file system alone, whose cost does not change.
struct StorageBreakEven {
  std::optional<double> saves;    // Saves per month; nothing: never, since drives are not faster.
  std::optional<unsigned> nodes;  // The fewest nodes; nothing: none up to kNodesTried.
  // The file system's rate at which it costs the same; nothing: the nodes' ports are the limit.
  std::optional<double> bytes_per_s;
};
constexpr unsigned kNodesTried = 4096;
StorageBreakEven storage_break_even(const Platform& platform, bool is_spot, const CostInput& input,
                                    const Constants& constants);

// What the file system gains over the nodes' drives, on the cheapest platform that has any, and for how much.
std::string storage_answer(const std::vector<Platform>& platforms, const CostInput& input, const Constants& constants);
std::vector<Sheet> storage_sheets(const std::vector<Platform>& platforms, const CostInput& input,
                                  const Constants& constants);
std::vector<std::string> storage_notes(const CostInput& input);

}  // namespace penstock::model
