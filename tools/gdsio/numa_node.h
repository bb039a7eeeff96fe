// SPDX-License-Identifier: Apache-2.0

// Runs a thread on the CPUs of one NUMA node; its later allocations lie there too, by the kernel's default policy.
#pragma once

namespace penstock::tools {

// Moves the calling thread. Fails with exit code 77 if the machine has no such node.
void run_on_numa_node(unsigned node);

}  // namespace penstock::tools
