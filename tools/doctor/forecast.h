// SPDX-License-Identifier: Apache-2.0

// From what was measured of each part of the way: what binds, how long it takes now, and how long after each change.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::tools {

// Bytes a second; 0 where it was not measured.
struct Speeds {
  double drive = 0;       // With O_DIRECT into host memory.
  double page_cache = 0;  // Into host memory.
  double host_copy = 0;   // One thread's memcpy.
  double link = 0;        // From pinned host memory into the GPU's.
  double cold = 0;        // From the drive into device memory: all of the way.
  double warm = 0;        // From the page cache into device memory.
  double plain_cold = 0;  // The same two with read(2) by one thread, and a copy.
  double plain_warm = 0;
};

// A change, and how fast it was with it.
struct Trial {
  enum class Kind : std::uint8_t { usual, more_cpu, no_settings };
  std::string what;
  std::string command;
  double cold = 0, warm = 0;  // 0: as without it.
  Kind kind = Kind::usual;    // Spends more CPU time; leaves out what the environment sets.
};

// A change that cannot be tried; what it could bring is known all the same.
struct Bound {
  std::string what;
  std::string command;
  double cold = 0, warm = 0;  // At most; 0: as without it.
};

struct Load {
  std::uint64_t bytes = 0;
  std::uint64_t cached = 0;            // Of them, in the page cache.
  std::uint64_t memory_available = 0;  // Bytes.
  double cpus_busy = 0;                // Of a load as it is now, on average,
  double cpus = 1;                     // and how many it may use.
  std::string read_all;                // The command that brings all of it into the page cache.
  double cpus_there = 0;               // In the machine.
};

enum class Binds : std::uint8_t { drive, page_cache, link, cpu, path, settings };
const char* binds_name(Binds binds);  // "drive", "page_cache", "link", "cpu", "path", "settings"

struct Forecast {
  std::string what;
  std::string command;
  double seconds = 0;
  bool is_bound = false;  // At best: nothing like it was measured.
};

struct Prognosis {
  double seconds = 0;        // Of the load, as it is now.
  double plain_seconds = 0;  // Of a program that reads by itself; 0 where it is not known.
  double cold_seconds = 0;   // Of the load's seconds, for what is not cached.
  Binds binds = Binds::path;
  std::vector<Forecast> changes;  // Those that gain something, the best first.
  std::string left_out;           // A sentence on a change that is not possible; "" where there is none.
};

Prognosis predict(const Load& load, const Speeds& speeds, const std::vector<Trial>& trials,
                  const std::vector<Bound>& bounds);

}  // namespace penstock::tools
