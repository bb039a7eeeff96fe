// SPDX-License-Identifier: Apache-2.0

// Forecasts from the measured speed of each part of the way: which part binds, how long it takes now, and how long
// after each change. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/common/interval.h"

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
  double cold = 0, warm = 0;  // 0: the same as without it.
  Kind kind = Kind::usual;    // Spends more CPU time; leaves out what the environment sets.
  // How many times as fast it may have been, where the turns do not tell whether that is a gain.
  std::optional<Ratio> cold_doubt = {}, warm_doubt = {};
};

// Judges if a change gains something. The interval decides, so that chance does not: a gain is one whose least value is
// worth telling, and if the interval has both a gain and none in it, nothing can be told.
enum class Judged : std::uint8_t { gain, none, unknown };
Judged judge(const Ratio& with_to_without);

// A change that cannot be tried; its most gain is known all the same.
struct Bound {
  std::string what;
  std::string command;
  double cold = 0, warm = 0;  // The most; 0: the same as without it.
};

struct Load {
  std::uint64_t bytes = 0;
  std::uint64_t cached = 0;            // The part that is in the page cache.
  std::uint64_t memory_available = 0;  // Bytes.
  double cpus_busy = 0;                // The load's average now,
  double cpus = 1;                     // and how many it may use.
  std::string read_all;                // The command that brings all of it into the page cache.
  double cpus_there = 0;               // In the machine.
  // How many times as fast the page cache is as the drive, and which part of its slowest part's rate the whole way had.
  // Nothing where the rates are taken as they are.
  std::optional<Ratio> caching = {}, of_part = {};
};

enum class Binds : std::uint8_t { drive, page_cache, link, cpu, path, settings, unknown };
const char* binds_name(Binds binds);  // "drive", "page_cache", "link", "cpu", "path", "settings", "unknown"

struct ForecastChange {
  std::string what;
  std::string command;
  double seconds = 0;
  bool is_bound = false;  // At best: nothing like it was measured.
};

// A change of which the measurements do not tell whether it gains something.
struct Doubt {
  std::string what;
  Ratio ratio;
};

struct Forecast {
  double seconds = 0;        // For the load, as it is now.
  double plain_seconds = 0;  // For a program that reads by itself; 0 if not known.
  double cold_seconds = 0;   // The part of them for bytes that are not cached.
  Binds binds = Binds::path;
  std::vector<ForecastChange> changes;  // Changes that gain something, the best first.
  std::vector<Doubt> doubts;
  bool is_brief = false;  // It takes so little time that no change is looked for.
  std::string left_out;   // A sentence on a change that is not possible, or "".
};

Forecast predict(const Load& load, const Speeds& speeds, const std::vector<Trial>& trials,
                 const std::vector<Bound>& bounds);

}  // namespace penstock::tools
