// SPDX-License-Identifier: Apache-2.0

// Runs a thread on the CPUs of one NUMA node; its later allocations lie there too, by the kernel's default policy.
#pragma once

#include <string_view>
#include <vector>

namespace penstock::tools {

// Moves the calling thread. Fails with exit code 77 if the machine has no such node.
void run_on_numa_node(unsigned node);

// Parses a list as the kernel writes it, "0-3,8". Empty if the text is no such list, or names CPUs beyond 8191. Pure.
std::vector<unsigned> parse_cpu_list(std::string_view text);

}  // namespace penstock::tools
