// SPDX-License-Identifier: Apache-2.0

// Plans a cufile.json and an environment for one machine, each value with its reason. `penstock settings --write` puts
// them into a folder. Keys that are left out have defaults that suit every machine, or that the library finds out.
#pragma once

#include <string>
#include <vector>

#include "facts/examination.h"

namespace penstock::tools {

struct PlannedValue {
  std::string name;   // A key of cufile.json, "properties.allow_compat_mode", or a variable.
  std::string value;  // The file has it as it stands: true, 8.
  std::string reason;
};

struct HostPlan {
  std::vector<PlannedValue> keys;       // By section.
  std::vector<PlannedValue> variables;  // The first names cufile.json.
  std::vector<std::string> left_off;    // Paths that a setting could switch on, with what speaks against it.
};

// `cpus` and `memory_bytes` are what a process may use there; `file` is the absolute name of the cufile.json.
HostPlan plan_for(const facts::Examination& examined, unsigned cpus, std::uint64_t memory_bytes,
                  const std::string& file);
std::string cufile_json_of(const HostPlan& plan);
std::string environment_of(const HostPlan& plan);

}  // namespace penstock::tools
