// SPDX-License-Identifier: Apache-2.0

#include "tools/gdsio/numa_node.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/cpus.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"

namespace penstock::tools {
void run_on_numa_node(unsigned node) {
  const std::string folder = fmt::format("/sys/devices/system/node/node{}", node);
  if (!exists(folder)) throw Failure(fmt::format("there is no NUMA node {} on this machine", node), kNotApplicable);
  const core::CpuSet cpus = core::parse_cpu_list(core::read_first_line(folder + "/cpulist"));
  if (cpus.none()) throw Failure(fmt::format("NUMA node {} has no CPUs to run on", node), kNotApplicable);
  if (core::allow_cpus(cpus)) return;
  throw Failure(fmt::format("cannot run on the CPUs of NUMA node {}: {}", node, std::strerror(errno)), kNotApplicable);
}

}  // namespace penstock::tools
