// SPDX-License-Identifier: Apache-2.0

#include "tools/suite/workloads.h"

#include <algorithm>
#include <cmath>

namespace penstock::tools {
namespace {

constexpr const char* kOne = "H100, one Gen4 drive";
constexpr const char* kEight = "8 x H200, four Gen5 drives";
constexpr Workload kWorkloads[] = {
    {"save-7b", "7B checkpoint in BF16, 14 GB", kOne, false, 14e9, 1, 1, 22, 2.5},
    {"save-70b", "70B checkpoint in BF16, 140 GB", kOne, false, 140e9, 1, 1, 292, 34},
    {"save-sharded", "70B checkpoint, a file for each of eight GPUs", kEight, false, 140e9, 8, 8, 72, 8},
    {"load-109b", "109B weights, 109 GB", kOne, true, 109e9, 4, 1, 190, 26},
    {"load-671b", "671B weights, 671 GB, for eight GPUs", kEight, true, 671e9, 8, 8, 1080, 130},
    {"data-set", "data set of 100 GB, in files", kOne, true, 100e9, 32, 1, 780, 105},
};

}  // namespace

std::span<const Workload> workloads() { return kWorkloads; }

std::vector<std::string> workload_names() {
  std::vector<std::string> names;
  for (const Workload& each : kWorkloads) names.emplace_back(each.name);
  return names;
}

std::uint64_t file_size_at(const Workload& workload, double scale) {
  const double mebibytes = workload.full_bytes * scale / workload.files / static_cast<double>(kFileSizeLeast);
  return static_cast<std::uint64_t>(std::max(1.0, std::round(mebibytes))) * kFileSizeLeast;
}

std::uint64_t bytes_at(const Workload& workload, double scale) {
  return workload.files * file_size_at(workload, scale);
}

}  // namespace penstock::tools
