// SPDX-License-Identifier: Apache-2.0

#include "tools/common/machine_use.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>

namespace penstock::tools {

std::optional<std::uint64_t> bytes_read_from_drives() {
  std::ifstream counts("/proc/self/io");
  std::string name;
  std::uint64_t bytes = 0;
  while (counts >> name >> bytes) {
    if (name == "read_bytes:") return bytes;
  }
  return std::nullopt;
}

double busy_seconds() {
  enum { user, nice, system, idle, iowait, irq, softirq, steal, kinds };
  std::ifstream counts("/proc/stat");
  std::string name;
  std::array<double, kinds> ticks{};
  counts >> name;
  for (double& each : ticks) counts >> each;
  return (ticks[user] + ticks[nice] + ticks[system] + ticks[steal]) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

unsigned processor_count() { return static_cast<unsigned>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))); }

}  // namespace penstock::tools
