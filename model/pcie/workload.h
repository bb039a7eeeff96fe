// SPDX-License-Identifier: Apache-2.0

// A workload: streams between stores and GPUs, each with its I/O size, depth and route, and the common rules. From the
// command line, from `streams:` of a topology file, or from the presets below.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/pcie/machine.h"

namespace penstock::model {

enum class Arbitration : std::uint8_t {
  round_robin,    // Between input ports, packet by packet, as PCIe switches do.
  weighted_fair,  // Between streams, by their weights.
  traffic_class,  // Between traffic classes: drive to NIC, NIC to GPU, GPU to NIC, the rest.
  bdf,            // Between source devices, weighted by their bus, device and function numbers.
};

enum class PathKind : std::uint8_t {
  direct,        // From device to device.
  through_host,  // Into host memory, copied there by a CPU, and out again.
  pinned_host,   // Into host memory and out again, without a copy.
  pipeline,      // Into a NIC's memory, over the wires to another NIC, and from there to the GPU: four stages.
};

enum class FenceKind : std::uint8_t { none, single, coalesced };

enum class IommuMode : std::uint8_t {
  off,
  passthrough,  // Same speed as off.
  strict,       // Translating: traffic between NIC and GPU loses a share, as published.
  redirect,     // ACS redirect: devices' traffic with each other goes through the root complex.
};

// For a pipeline that reads: whether the completion of an I/O stays behind its bytes on the way to the NIC's memory.
enum class Ordering : std::uint8_t {
  strict,   // Once the NIC has the completion, all bytes are in its memory.
  relaxed,  // The completion may overtake the bytes; without a fence the NIC may send bytes that have not arrived.
};

// Their names in files and on command lines, in the order of their enumerators.
inline constexpr std::array<std::string_view, 4> kArbitrationWords = {"round-robin", "weighted-fair", "traffic-class",
                                                                      "bdf"};
inline constexpr std::array<std::string_view, 4> kIommuWords = {"off", "passthrough", "strict", "redirect"};
inline constexpr std::array<std::string_view, 4> kPathWords = {"direct", "host", "pinned", "pipeline"};
inline constexpr std::array<std::string_view, 2> kOrderingWords = {"strict", "relaxed"};
inline constexpr std::array<std::string_view, 3> kFenceWords = {"none", "single", "coalesced"};

struct Stream {
  std::string name;
  // Node names. The stores are drives, nics, or a root for its host memory; the stream is striped over them, I/O by
  // I/O. The gpu may be a gpu, but also a drive, a nic or a root.
  std::vector<std::string> stores;
  std::string gpu;
  bool is_write = false;  // Moves from the gpu to the stores.
  std::string through;    // The nic to use across a fabric, or next to a pipeline's store; "": the nearest.
  PathKind path = PathKind::direct;
  FenceKind fence = FenceKind::none;
  std::uint64_t io_bytes = 1 << 20;
  std::uint64_t total_bytes = std::uint64_t{1} << 30;
  unsigned depth = 8;              // I/Os in flight.
  double arrivals_per_second = 0;  // Above 0: I/Os arrive at random at this rate instead, whatever is in flight.
  double weight = 1;
  double start_seconds = 0;
  double request_seconds = -1;  // Software time of an I/O; below 0: the default of its path.
  int line = 0;                 // Line in the topology file.
};

struct Workload {
  std::vector<Stream> streams;
  Arbitration arbitration = Arbitration::round_robin;
  IommuMode iommu = IommuMode::off;
  Ordering ordering = Ordering::strict;
  std::uint64_t burst_bytes = 16384;  // The piece size of the simulator.
  std::uint64_t seed = 1;
  // For a pipeline: how many I/Os each engine holds at a time: a drive's media, its DMA engine, the sending NIC, the
  // receiving NIC. An I/O keeps its place until the next stage has one for it. 0: any number.
  std::array<unsigned, 4> stage_depth = {};
};

constexpr std::size_t kStreamsMax = 100000;
constexpr unsigned kDepthMax = 65536;
constexpr std::uint64_t kInFlightMax = 1 << 22;  // Limit over all streams.

// Throws InputError for an impossible workload: no bytes, a NaN rate, too many I/Os. Network checks names.
void check_workload(const Workload& workload, const std::string& source);

// Makes the streams of a pattern, without sizes; at most `most` streams, 0: all.
enum class Pattern : std::uint8_t {
  own_drive,   // Each GPU reads one drive: the nearest that is not taken.
  striped,     // Each GPU reads all drives.
  all_to_one,  // All drives feed the first GPU.
  nic,         // Each GPU reads from the nearest nic, as from remote storage.
  host,        // Each GPU reads its socket's host memory.
  mixed,       // A drive and a nic for each GPU.
  pipeline,    // Each GPU reads a drive next to another nic than its own, through both nics.
};
std::vector<Stream> streams_of(const Machine& machine, Pattern pattern, unsigned most = 0);
// Number of links and switches between two nodes; -1 if they are in different trees.
int pcie_distance(const Machine& machine, int one, int other);

}  // namespace penstock::model
