// SPDX-License-Identifier: Apache-2.0

// The rows of the published table: a load or a save, its machine, and the time it is said to take. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace penstock::tools {

struct Workload {
  const char* name;
  const char* title;
  const char* hardware;  // The machine of the published figures.
  bool is_load;
  double full_bytes;
  unsigned files;    // The same number at any scale.
  unsigned threads;  // Threads that move files at the same time, one for each GPU of the published machine.
  double published_without_s;
  double published_with_s;
};
std::span<const Workload> workloads();
std::vector<std::string> workload_names();

constexpr std::uint64_t kFileSizeLeast = 1 << 20;
// The size of each file at that scale: whole MiB, at least one, so that direct I/O does not fail at odd ends.
std::uint64_t file_size_at(const Workload& workload, double scale);
std::uint64_t bytes_at(const Workload& workload, double scale);

}  // namespace penstock::tools
