// SPDX-License-Identifier: Apache-2.0

// What flows: streams between stores and GPUs, each with its I/O size, depth and route, and the rules that hold for
// all of them. Made by the command line, by the `streams:` of a topology file, or by the presets below.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/pcie/machine.h"

namespace penstock::model {

enum class Arbitration : std::uint8_t {
  round_robin,    // Between the ports that bytes come from, packet by packet, as PCIe switches do.
  weighted_fair,  // Between streams, by their weights.
  traffic_class,  // Between kinds of traffic: drive to NIC, NIC to GPU, GPU to NIC, the rest.
  bdf,            // Between the devices that bytes come from, weighted by their bus, device and function numbers.
};

enum class PathKind : std::uint8_t {
  direct,        // From device to device.
  through_host,  // Into host memory, copied there by a CPU, and out of it.
  pinned_host,   // Into host memory and out of it, without a copy.
  pipeline,      // Into a NIC's memory, over the wires to another NIC, and from there to the GPU: four stages.
};

enum class FenceKind : std::uint8_t { none, single, coalesced };

enum class IommuMode : std::uint8_t {
  off,
  passthrough,  // As fast as off.
  strict,       // Translating, as published: traffic between NIC and GPU loses a share.
  redirect,     // ACS redirect: devices' traffic with each other goes through the root complex.
};

// Of a pipeline that reads: whether word that an I/O's bytes are in the NIC's memory stays behind them on the way.
enum class Ordering : std::uint8_t {
  strict,   // A NIC that is told finds all of them there.
  relaxed,  // It waits in no queue that they wait in; without a fence the NIC may send what is not there yet.
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
  // I/O. The gpu may be a gpu, or again a drive, a nic or a root.
  std::vector<std::string> stores;
  std::string gpu;
  bool is_write = false;  // From the gpu to the stores.
  std::string through;  // The nic to use where the two meet in a fabric, or beside a pipeline's store; "": the nearest.
  PathKind path = PathKind::direct;
  FenceKind fence = FenceKind::none;
  std::uint64_t io_bytes = 1 << 20;
  std::uint64_t total_bytes = std::uint64_t{1} << 30;
  unsigned depth = 8;              // I/Os in flight.
  double arrivals_per_second = 0;  // Above 0: I/Os come at random at this rate instead, whatever is in flight.
  double weight = 1;
  double start_seconds = 0;
  double request_seconds = -1;  // Software time of an I/O; below 0: that of its path.
  int line = 0;                 // In the topology file.
};

struct Workload {
  std::vector<Stream> streams;
  Arbitration arbitration = Arbitration::round_robin;
  IommuMode iommu = IommuMode::off;
  Ordering ordering = Ordering::strict;
  std::uint64_t burst_bytes = 16384;  // What moves as one piece in the simulator.
  std::uint64_t seed = 1;
  // Of a pipeline: how many I/Os each engine holds at a time: a drive's media, its DMA engine, the NIC that sends, the
  // NIC that receives. An I/O keeps its place until the next stage has one for it. 0: any number.
  std::array<unsigned, 4> stage_depth = {};
};

constexpr std::size_t kStreamsMax = 100000;
constexpr unsigned kDepthMax = 65536;
constexpr std::uint64_t kInFlightMax = 1 << 22;  // Of all streams together.

// Throws InputError for a workload that cannot be: no bytes, a NaN rate, too many I/Os. Names are Network's to check.
void check_workload(const Workload& workload, const std::string& source);

// The pattern of streams, before sizes are set. `most` streams at most; 0: all there are.
enum class Pattern : std::uint8_t {
  own_drive,   // Each GPU reads a drive: the nearest, while each is taken once.
  striped,     // Each GPU reads all drives.
  all_to_one,  // All drives feed the first GPU.
  nic,         // Each GPU reads from the nearest nic, as from remote storage.
  host,        // Each GPU reads its socket's host memory.
  mixed,       // Drive and nic to each GPU.
  pipeline,    // Each GPU reads a drive that is beside another nic than its own, by way of both nics.
};
std::vector<Stream> streams_of(const Machine& machine, Pattern pattern, unsigned most = 0);
// How many links and switches lie between two nodes; -1 where no tree holds both.
int pcie_distance(const Machine& machine, int one, int other);

}  // namespace penstock::model
