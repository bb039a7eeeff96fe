// SPDX-License-Identifier: Apache-2.0

// For tests: small machines and streams in a few words.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "model/pcie/builtin_machines.h"
#include "model/pcie/machine_builder.h"
#include "model/pcie/simulator.h"

namespace penstock::model {

constexpr std::uint64_t kMebibyte = 1 << 20;

// The text of the InputError, or "" if nothing was thrown.
inline std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "";
}

inline Stream stream_of(const std::string& store, const std::string& gpu, std::uint64_t bytes = 256 * kMebibyte) {
  Stream stream;
  stream.name = store + " to " + gpu;
  stream.stores = {store};
  stream.gpu = gpu;
  stream.depth = 16;
  stream.total_bytes = bytes;
  return stream;
}

// pcie-bench's effective bandwidth of writes of one size, back to back.
inline double effective_write_rate(const PcieLink& link, double bytes, const PcieConstants& constants) {
  const double payload = link.max_payload != 0 ? link.max_payload : usual_max_payload(link.generation, constants);
  const double wire = wire_bytes(bytes, payload, header_bytes(link, Carriage::written, constants));
  return usable_rate(link, Carriage::written, constants) * bytes / wire;
}

// One socket, a switch with `drives` drives of `drive_rate` and `gpus` GPUs, all links Gen5 x16.
inline Machine plain_machine(int drives, int gpus, double drive_rate) {
  static const PcieConstants constants;
  MachineBuilder builder("plain", "plain", constants);
  builder.root("socket0");
  const int below = builder.pci_switch("switch0", 0, 5, 16);
  for (int i = 0; i < gpus; ++i) builder.gpu("gpu" + std::to_string(i), below, 5, 16);
  for (int i = 0; i < drives; ++i) {
    Node& drive = builder.node(builder.drive("nvme" + std::to_string(i), below, 5, 16));
    drive.read_rate = drive.write_rate = drive_rate;
    drive.jitter = 0;
  }
  return builder.take();
}

inline Outcome run(const Machine& machine, const Workload& workload) {
  return simulate(compile(machine, workload), workload);
}

inline Outcome run(const Machine& machine, const std::vector<Stream>& streams) {
  Workload workload;
  workload.streams = streams;
  return run(machine, workload);
}

inline const StationResult& station(const Network& network, const Outcome& outcome, const std::string& name) {
  for (std::size_t i = 0; i < network.stations.size(); ++i) {
    if (network.stations[i].name == name) return outcome.stations[i];
  }
  ADD_FAILURE() << "no station " << name;
  return outcome.stations.front();
}

}  // namespace penstock::model
