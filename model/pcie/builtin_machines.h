// SPDX-License-Identifier: Apache-2.0

// Well-known machines, by name: templates for users' topology files (`--print-topology`), and the machines of the
// published figures. Layouts follow their makers' public diagrams in outline.
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

// Throws InputError for an unknown name.
Machine builtin_machine(std::string_view name, const PcieConstants& constants = {});

}  // namespace penstock::model
