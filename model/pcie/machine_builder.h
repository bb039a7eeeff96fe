// SPDX-License-Identifier: Apache-2.0

// Builds machines: the built-in ones, hwloc's and this host's. Takes values that a source lacks (a drive's rates by its
// generation, host memory) from the constants.
#pragma once

#include <string>
#include <utility>

#include "model/pcie/machine.h"
#include "model/pcie/pcie_constants.h"

namespace penstock::model {

class MachineBuilder {
 public:
  MachineBuilder(std::string name, std::string source, const PcieConstants& constants) : constants_(constants) {
    machine_.name = std::move(name);
    machine_.source = std::move(source);
  }

  // Each returns the new node's index.
  int root(const std::string& name, const std::string& host = "");
  int pci_switch(const std::string& name, int parent, unsigned generation, unsigned width);
  int gpu(const std::string& name, int parent, unsigned generation, unsigned width);
  int drive(const std::string& name, int parent, unsigned generation, unsigned width);
  int nic(const std::string& name, int parent, unsigned generation, unsigned width, double wire_rate);
  int fabric(const std::string& name, int parent, double uplink_rate);
  int server(const std::string& name, int fabric, double rate);

  Node& node(int index) { return machine_.nodes[static_cast<std::size_t>(index)]; }
  const Machine& machine() const { return machine_; }
  // Checked.
  Machine take();

 private:
  int add(NodeKind kind, const std::string& name, int parent, unsigned generation, unsigned width);

  const PcieConstants& constants_;
  Machine machine_;
};

// Sets the usual rates of a drive's generation, unless the node has others.
void set_drive_defaults(Node& drive, const PcieConstants& constants);
void set_root_defaults(Node& root, const PcieConstants& constants);

}  // namespace penstock::model
