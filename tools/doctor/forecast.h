// SPDX-License-Identifier: Apache-2.0

// Forecasts from the measured speed of each part of the way: which part binds, how long the load takes now, and how
// long after each change. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/common/interval.h"

namespace penstock::tools {

// Speeds in bytes a second; 0 if a part was not measured.
struct Speeds {
  double drive = 0;       // From the drive into host memory, with O_DIRECT.
  double page_cache = 0;  // From the page cache into host memory.
  double host_copy = 0;   // The memcpy of one thread.
  double link = 0;        // From pinned host memory into the GPU's.
  double cold = 0;        // From the drive into device memory: the whole way.
  double warm = 0;        // From the page cache into device memory.
  double plain_cold = 0;  // cold and warm with read(2) by one thread, and a copy.
  double plain_warm = 0;
};

// A change that was tried, and the speed with it.
struct Trial {
  enum class Kind : std::uint8_t { usual, more_cpu, no_settings };
  std::string what;
  std::string command;
  double cold = 0, warm = 0;  // 0: the same as without it.
  Kind kind = Kind::usual;    // more_cpu spends more CPU time; no_settings leaves out the environment's settings.
  // The speed with the change over that without it; set only if the measurements do not show whether it gains.
  std::optional<Ratio> cold_doubt = {}, warm_doubt = {};
};

// Judges whether a change gains something. The interval decides, so that chance does not: it is a gain if the
// interval's lower end is worth reporting, and unknown if the interval holds both a gain and none.
enum class Judged : std::uint8_t { gain, none, unknown };
Judged judge(const Ratio& with_to_without);

// A change that cannot be tried, but whose greatest gain is known.
struct Bound {
  std::string what;
  std::string command;
  double cold = 0, warm = 0;  // The highest speed; 0: the same as without it.
};

struct Load {
  std::uint64_t bytes = 0;
  std::uint64_t cached = 0;            // The part that is in the page cache.
  std::uint64_t memory_available = 0;  // Bytes.
  double cpus_busy = 0;                // The CPUs that the load keeps busy on average now.
  double cpus = 1;                     // The CPUs that it may use.
  std::string read_all;                // The command that reads all of it into the page cache.
  double cpus_there = 0;               // The CPUs of the machine.
  // caching: how many times as fast the page cache is as the drive. of_part: the speed of the whole way, as a part of
  // its slowest part's. Nothing if the measured rates are to be taken as they are.
  std::optional<Ratio> caching = {}, of_part = {};
};

enum class Binds : std::uint8_t { drive, page_cache, link, cpu, path, settings, unknown };
const char* binds_name(Binds binds);  // "drive", "page_cache", "link", "cpu", "path", "settings", "unknown"

struct ForecastChange {
  std::string what;
  std::string command;
  double seconds = 0;
  bool is_bound = false;  // It takes at least so long: no such change was measured.
};

// A change for which the measurements leave open whether it gains something.
struct Doubt {
  std::string what;
  Ratio ratio;
};

struct Forecast {
  double seconds = 0;        // The load as it is now.
  double plain_seconds = 0;  // A program that reads without the library; 0 if not known.
  double cold_seconds = 0;   // The part of `seconds` for bytes that are not cached.
  Binds binds = Binds::path;
  std::vector<ForecastChange> changes;  // Changes that gain something, the best first.
  std::vector<Doubt> doubts;
  bool is_brief = false;  // It takes so little time that no change is looked for.
  std::string left_out;   // A sentence on a change that is not possible, or "".
};

Forecast predict(const Load& load, const Speeds& speeds, const std::vector<Trial>& trials,
                 const std::vector<Bound>& bounds);

}  // namespace penstock::tools
