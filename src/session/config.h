// SPDX-License-Identifier: Apache-2.0

// The settings of a session in the forms that its rooms use, fixed when it opens. Made from the settings, whatever
// their source; cuFile's other keys are in cufile/config.h.
#pragma once

#include <climits>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/paths.h"
#include "device/placement.h"
#include "device/providers.h"
#include "engine/engine_rules.h"
#include "path/path_settings.h"
#include "session/denylist.h"

namespace penstock::core {

class Settings;
class Usage;

// The choice between speed and CPU time.
enum class Policy : std::uint8_t { throughput, balanced, cpu };

struct Config {
  std::uint64_t bounce_bytes = std::uint64_t{256} << 20;  // The most pinned host memory for each device.
  std::uint64_t chunk_bytes = std::uint64_t{4} << 20;     // The most bytes of one storage operation of a large request.
  unsigned workers = 0;                                   // Threads for large requests.
  ProviderList devices;                                   // In this order; empty: all devices.
  std::vector<PathId> paths;                              // Best first.
  bool paths_said = false;                                // The user named the paths.
  std::optional<PathId> require;                          // All other paths refuse.
  DirectIo direct_io = DirectIo::automatic;
  Policy policy = Policy::balanced;
  std::uint64_t registration_cache_bytes = 0;  // The most bytes in the page cache that are registered with devices.
  bool register_at_once = false;  // Pages are registered at once, whatever that costs, and requests wait for it.
  bool io_uring = true;
  bool nvidia_export = false;  // Experimental: exports our own GPU memory for p2pdma.
  // The most bytes of one storage operation of any request; 64 KiB or more.
  std::uint64_t operation_max = UINT64_MAX;
  unsigned threads_max = UINT_MAX;       // The most threads for one request, counting its caller's; 1 or more.
  std::uint64_t share_min = 0;           // The least bytes for each of these threads.
  bool cached_unaligned_writes = false;  // Unaligned writes go wholly through the page cache, not only their ends.
  Placement placement;                   // The user's placement of threads and pinned memory: see placement_on().
  bool streams = true;                   // Requests on users' streams are served.
  bool stream_words = true;              // Streams may wait for a value in memory, where the device supports it.
  VendorUse vendor = VendorUse::automatic;
  std::string vendor_library;  // NVIDIA's library: an absolute path, or empty for the usual places.
  NvfsUse nvfs = NvfsUse::off;
  bool dmabuf = false;
  bool dmabuf_files = false;
  bool dmabuf_write = false;
  std::shared_ptr<NvfsKernel> nvfs_kernel;  // Set by tests: a stand-in for the kernel module.
  std::string scratch;                      // A file that self-tests may overwrite, or empty.
  std::string root = "/";                   // The root of /proc and /sys; tests use captured machines.
  Denylist denylist;
  Usage* usage = nullptr;  // Counts files for a report; null: no report. Outlives the session.
};

// The part of the configuration that paths and the engine use.
PathSettings path_settings(const Config& config);
EngineRules engine_rules(const Config& config);
// True if there are spare CPUs and the policy allows threads to spin for microseconds before they sleep.
bool threads_spin(const Config& config);

Config make_config(const Settings& settings);

}  // namespace penstock::core
