// SPDX-License-Identifier: Apache-2.0

// The table of contests, with their targets.
#pragma once

#include <string>
#include <vector>

#include "bench/versus/contest.h"

namespace penstock::versus {

// The sides by name: ours with each policy, with only the path bounce, and with the environment's settings; and the
// other library.
inline constexpr const char* kPolicies[] = {"throughput", "balanced", "cpu"};
inline constexpr const char* kBounce = "bounce";
inline constexpr const char* kOurs = "penstock";
inline constexpr const char* kRival = "rival";

struct Files {
  std::string data;        // A file in the page cache.
  std::string cold;        // A file half as large, not in the page cache.
  std::string written[2];  // Files to write, ours and the other library's: half as large.
  std::string ranks;       // Prefix of the ranks' files; the rank's number is appended.
};

struct Effort {
  std::uint64_t size = 0;       // Size of the file.
  std::uint64_t rank_size = 0;  // Size of each rank's file.
  unsigned ranks = 1;           // 1: no contests with several GPUs.
  double seconds = 0.3;         // Length of one turn of random reads.
  unsigned times = 2000;        // Requests of one turn of latencies.
};

// Every line of docs/internals/performance.md's table, in its order.
std::vector<Contest> all_lines(const Files& files, const Effort& effort);
// The most important lines for users, with only kOurs: whole read, latencies, write.
std::vector<Contest> short_lines(const Files& files, const Effort& effort);

}  // namespace penstock::versus
