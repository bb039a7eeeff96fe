// SPDX-License-Identifier: Apache-2.0

// The latency of a single I/O: the time of the media, the network, the links to the GPU and the CPU's copies, hop by
// hop; and how many bytes pass host memory. For rates of many I/Os see checkpoint.h and model/pcie. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "model/constants.h"
#include "model/report.h"

namespace penstock::model {

enum class LatencyPath {
  kDirect,     // The drive's or the NIC's DMA engine into GPU memory.
  kPinned,     // O_DIRECT into pinned host memory, then DMA from there.
  kPageCache,  // In addition the CPU copies between page cache and pinned memory.
};
inline constexpr LatencyPath kLatencyPaths[] = {LatencyPath::kDirect, LatencyPath::kPinned, LatencyPath::kPageCache};
std::string_view latency_path_name(LatencyPath path);

struct LatencyInput {
  double bytes = 1 << 20;
  bool is_write = false;
  double drive_bytes_per_s = 7e9;
  double network_bytes_per_s = 0;  // Rate of the wire to remote storage; 0: the drive is local.
};

struct Latency {
  double media_s;
  double network_s;
  double links_s;   // PCIe and GPU memory.
  double copies_s;  // Copies by the CPU.
  double host_memory_bytes;

  double total_s() const { return media_s + network_s + links_s + copies_s; }
};
Latency latency_of(LatencyPath path, const LatencyInput& input, const Constants& constants);

Report latency_report(const LatencyInput& input, const Constants& constants, bool with_published);

}  // namespace penstock::model
