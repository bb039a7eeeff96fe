// SPDX-License-Identifier: Apache-2.0

// Machines that everybody knows, by name: a start for one's own topology file (`--print-topology`), and what the
// published figures are held against. Layouts follow their makers' public diagrams in outline.
#pragma once

#include <string_view>
#include <vector>

#include "model/pcie/machine.h"

namespace penstock::model {

struct BuiltinMachine {
  const char* name;
  const char* summary;
  Machine (*make)(const PcieConstants& constants);
};
const std::vector<BuiltinMachine>& builtin_machines();

// Throws InputError where there is none of that name.
Machine builtin_machine(std::string_view name, const PcieConstants& constants = {});

}  // namespace penstock::model
