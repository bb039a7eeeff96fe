// SPDX-License-Identifier: Apache-2.0

// The settings of `penstock bench` as values, and as words for comparisons and sweeps: "direct", "bs=4M,depth=4",
// "PENSTOCK_POLICY=throughput".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace penstock::tools {

struct BenchSettings {
  std::vector<std::string> files;  // The user's words: files, and folders with files below them.
  std::string operation = "read";  // read, write, randread, randwrite
  std::uint64_t block_size = 1 << 20;
  std::uint64_t size = 0;  // 0: to the end of the file.
  std::uint64_t offset = 0;
  unsigned threads = 1;
  unsigned depth = 16;
  double seconds = 0;          // 0: until the interval is narrow or a limit is reached.
  unsigned repeat = 0;         // Passes, each over the whole size or an equal part of `seconds`; 0: as above.
  std::optional<double> ramp;  // Seconds of warm-up; nothing: a short one.
  bool direct = false;
  bool buffered = false;
  unsigned gpu = 0;
  std::string memory = "device";
  std::string device;
  // Settings of the library, by name; they go before its environment.
  std::vector<std::pair<std::string, std::string>> library;
  bool register_memory = false;
  bool verify = false;
  std::uint64_t seed = 1;
  std::string require;
  bool create = false;
  bool overwrite = false;
  bool drop_cache = false;
  bool warm = false;
  bool histogram = false;
  std::string log;  // The file for the time series.
  double interval = 0.1;
  bool json = false;
  // Another cuFile library to compare with; only file, size and device of the settings above count then.
  std::string versus;
  std::vector<std::string> compare;  // Two settings, or two files of results.
  unsigned pairs = 0;                // Turns of each side with --versus and --compare; 0: 5 and 10.
  std::vector<std::string> sweep;    // "bs=4k,64k", ...
  bool csv = false;
  std::string html;
  std::string progress;  // The beginning of the progress line; "": the operation.
  // Bounds of a measurement's duration without --time and --repeat.
  double seconds_least = 2, seconds_most = 5;

  // A short name for the files: "data", "model/", "a and 3 more".
  std::string label() const {
    return files.size() < 2 ? (files.empty() ? "" : files[0])
                            : files[0] + " and " + std::to_string(files.size() - 1) + " more";
  }
  bool is_write() const { return operation.ends_with("write"); }
  bool is_random() const { return operation.starts_with("rand"); }
  bool on_device() const { return memory == "device"; }
};

// Throws for numbers that make no sense and for settings that exclude each other.
void check_settings(const BenchSettings& settings);

// Changes `base` by the settings in `words`, which commas separate. A comma within a variable's value belongs to the
// value.
BenchSettings variant_of(const BenchSettings& base, const std::string& words);

}  // namespace penstock::tools
