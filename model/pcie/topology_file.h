// SPDX-License-Identifier: Apache-2.0

// Topology files: a machine, and optionally its streams, as YAML. Every mistake is an InputError that begins with file
// and line. Values that a file omits (a drive's rates, host memory) come from the constants.
#pragma once

#include <string>

#include "model/pcie/machine.h"
#include "model/pcie/workload.h"

namespace penstock::model {

struct TopologyFile {
  Machine machine;
  Workload workload;  // Has no streams if the file has none.
};

TopologyFile read_topology_file(const std::string& path, const PcieConstants& constants = {});
TopologyFile parse_topology(const std::string& text, const std::string& name, const PcieConstants& constants = {});

// Writes a file that reads back as the same machine.
std::string write_topology(const Machine& machine);

// Reads a whole file of at most `size_max` bytes; throws InputError.
std::string read_input_file(const std::string& path, std::size_t size_max);

}  // namespace penstock::model
