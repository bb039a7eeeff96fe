// SPDX-License-Identifier: Apache-2.0

// The table: which contests there are, with their targets.
#pragma once

#include <string>
#include <vector>

#include "bench/versus/contest.h"

namespace penstock::versus {

// The sides by name: ours under each policy, with the path bounce alone, and as the environment has it; and the other
// library.
inline constexpr const char* kPolicies[] = {"throughput", "balanced", "cpu"};
inline constexpr const char* kBounce = "bounce";
inline constexpr const char* kOurs = "penstock";
inline constexpr const char* kRival = "rival";

struct Files {
  std::string data;        // In the page cache.
  std::string cold;        // Half as large, out of it.
  std::string written[2];  // Ours, the rival's: half as large.
  std::string ranks;       // With the rank's number behind it.
};

struct Effort {
  std::uint64_t size = 0;       // Of the file.
  std::uint64_t rank_size = 0;  // Of each rank's file.
  unsigned ranks = 1;           // 1: no contest of several GPUs.
  double seconds = 0.3;         // Of one turn of random reads.
  unsigned times = 2000;        // Requests of one turn of latencies.
};

// Every line of docs/internals/performance.md's table, in its order.
std::vector<Contest> all_lines(const Files& files, const Effort& effort);
// What concerns users most, with kOurs alone: whole read, latencies, write.
std::vector<Contest> short_lines(const Files& files, const Effort& effort);

}  // namespace penstock::versus
