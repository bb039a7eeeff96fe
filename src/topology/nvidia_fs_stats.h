// SPDX-License-Identifier: Apache-2.0

// The counters of the kernel module nvidia-fs, for the whole machine: the one parser of its files stats and
// peer_distance, in the formats of versions 2.7 to 2.28.4. Lines, names and numbers that it does not know are left out,
// so text of any other version, or none at all, gives less, and never a failure. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/root.h"

namespace penstock::core {

// GPU memory that is pinned through nvidia-fs, in MiB.
struct NvidiaFsGpu {
  std::string gpu;  // A PCI address, as below.
  std::uint64_t registered_mib = 0;
  std::uint64_t cache_mib = 0;
  std::uint64_t max_pinned_mib = 0;
};

// How often GPU memory was mapped for a drive or an adapter: the one count that names both.
struct NvidiaFsPeer {
  std::string gpu, peer;
  std::uint64_t mappings = 0;
};

struct NvidiaFsStats {
  // By the module's own names: "Reads", "ok"; "" is the name of a line's only number. Both are literals.
  struct Counter {
    const char* line;
    const char* name;
    std::uint64_t value;
    bool is_of_now;  // It counts what is active at this moment; the others only grow.
  };
  std::vector<Counter> counters;
  std::vector<NvidiaFsGpu> gpus;
  std::vector<NvidiaFsPeer> peers;  // Only where the module's parameter peer_stats_enabled is set, and some were made.

  bool is_empty() const { return counters.empty() && gpus.empty() && peers.empty(); }
  std::optional<std::uint64_t> value(std::string_view line, std::string_view name) const;
  // The requests that succeeded. Nothing if they are not counted: the parameter rw_stats_enabled is off.
  std::optional<std::uint64_t> reads() const { return value("Reads", "ok"); }
  std::optional<std::uint64_t> writes() const { return value("Writes", "ok"); }
};

NvidiaFsStats nvidia_fs_stats(std::string_view stats, std::string_view peer_distance = "");
NvidiaFsStats read_nvidia_fs_stats(const Root& root);

}  // namespace penstock::core
