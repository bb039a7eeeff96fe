// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/measured_drives.h"

#include <algorithm>
#include <string_view>

namespace penstock::model {
namespace {

// The fastest measured group that bypassed the page cache; null if there is none.
const TransferModel* best(std::span<const GroupComparison> groups, std::string_view operation) {
  const TransferModel* found = nullptr;
  for (const GroupComparison& group : groups) {
    const Measurement& measured = group.rows.front().measured;
    if (!measured.is_direct || !measured.operation.ends_with(operation)) continue;  // "read" and "randread".
    const bool is_better = found == nullptr || group.model.ceiling_bytes_per_s > found->ceiling_bytes_per_s;
    if (is_better) found = &group.model;
  }
  return found;
}

}  // namespace

void set_measured_drives(Machine& machine, std::span<const GroupComparison> groups, const PcieConstants& constants) {
  const TransferModel* read = best(groups, "read");
  const TransferModel* write = best(groups, "write");
  if (read == nullptr && write == nullptr) {
    throw InputError("--calibrate: every result came through the page cache, which is no drive; run bench --direct");
  }
  const double latency = (read != nullptr ? read : write)->latency_s;
  for (Node& node : machine.nodes) {
    if (node.kind != NodeKind::drive || node.link.generation == 0) continue;
    if (read != nullptr) node.read_rate = read->ceiling_bytes_per_s;
    if (write != nullptr) node.write_rate = write->ceiling_bytes_per_s;
    // The measured latency includes the software's time, which the simulator adds itself.
    node.access_seconds = std::clamp(latency - constants.direct_request_us * kMicro, 0.0, 1.0);
  }
  check_machine(machine);
}

}  // namespace penstock::model
