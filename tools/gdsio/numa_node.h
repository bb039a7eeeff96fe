// SPDX-License-Identifier: Apache-2.0

// Runs a thread on the CPUs of one NUMA node; its later allocations lie there too, by the kernel's default policy.
#pragma once

#include <string_view>
#include <vector>

namespace penstock::tools {

// The calling thread. Exit code 77 where the machine has no such node.
void run_on_numa_node(unsigned node);

// "0-3,8" as the kernel writes it; empty where it is no such list, or one that names CPUs beyond 8191. Pure.
std::vector<unsigned> parse_cpu_list(std::string_view text);

}  // namespace penstock::tools
