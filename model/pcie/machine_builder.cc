// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/machine_builder.h"

#include <utility>

namespace penstock::model {
namespace {

std::pair<double, double> drive_rates(unsigned generation, const PcieConstants& constants) {
  if (generation >= 5) {
    return {constants.drive_gen5_read_bytes_per_s, constants.drive_gen5_write_bytes_per_s};
  }
  if (generation == 4) {
    return {constants.drive_gen4_read_bytes_per_s, constants.drive_gen4_write_bytes_per_s};
  }
  return {constants.drive_gen3_read_bytes_per_s, constants.drive_gen3_write_bytes_per_s};
}

}  // namespace

void set_drive_defaults(Node& drive, const PcieConstants& constants) {
  const auto [read, write] = drive_rates(drive.link.generation, constants);
  drive.read_rate = read;
  drive.write_rate = write;
  drive.access_seconds = constants.drive_access_us * kMicro;
  drive.command_seconds = constants.drive_command_us * kMicro;
  drive.jitter = constants.drive_jitter;
  drive.queue = 1024;
}

void set_root_defaults(Node& root, const PcieConstants& constants) {
  root.memory_rate = constants.host_memory_gigabytes_per_second * kGiga;
  root.copy_rate = constants.host_copy_bytes_per_s;
  root.socket_link_rate = constants.socket_link_gigabytes_per_second * kGiga;
}

int MachineBuilder::add(NodeKind kind, const std::string& name, int parent, unsigned generation, unsigned width) {
  Node node;
  node.name = name;
  node.kind = kind;
  node.parent = parent;
  node.link.generation = generation;
  node.link.width = width;
  machine_.nodes.push_back(std::move(node));
  return static_cast<int>(machine_.nodes.size() - 1);
}

int MachineBuilder::root(const std::string& name, const std::string& host) {
  const int index = add(NodeKind::root, name, kNone, 0, 0);
  node(index).host = host;
  set_root_defaults(node(index), constants_);
  return index;
}

int MachineBuilder::pci_switch(const std::string& name, int parent, unsigned generation, unsigned width) {
  return add(NodeKind::pci_switch, name, parent, generation, width);
}

int MachineBuilder::gpu(const std::string& name, int parent, unsigned generation, unsigned width) {
  return add(NodeKind::gpu, name, parent, generation, width);
}

int MachineBuilder::drive(const std::string& name, int parent, unsigned generation, unsigned width) {
  const int index = add(NodeKind::drive, name, parent, generation, width);
  set_drive_defaults(node(index), constants_);
  return index;
}

int MachineBuilder::nic(const std::string& name, int parent, unsigned generation, unsigned width, double wire_rate) {
  const int index = add(NodeKind::nic, name, parent, generation, width);
  node(index).wire_rate = wire_rate;
  return index;
}

int MachineBuilder::fabric(const std::string& name, int parent, double uplink_rate) {
  const int index = add(NodeKind::fabric, name, parent, 0, 0);
  node(index).wire_rate = uplink_rate;
  return index;
}

int MachineBuilder::server(const std::string& name, int fabric, double rate) {
  const int index = add(NodeKind::drive, name, fabric, 0, 0);
  Node& server = node(index);
  server.read_rate = server.write_rate = server.wire_rate = rate;
  server.access_seconds = constants_.drive_access_us * kMicro;
  return index;
}

Machine MachineBuilder::take() {
  check_machine(machine_);
  return std::move(machine_);
}

}  // namespace penstock::model
