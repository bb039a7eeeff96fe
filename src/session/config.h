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
  ProviderList devices;                                   // In this order; empty: all that there are.
  std::vector<PathId> paths;                              // Best first.
  bool paths_said = false;                                // The user named the paths.
  std::optional<PathId> require;                          // Any other path refuses.
  DirectIo direct_io = DirectIo::automatic;
  Policy policy = Policy::balanced;
  std::uint64_t registration_cache_bytes = 0;  // The most bytes in the page cache that are registered with devices.
  bool register_at_once = false;  // Pages are registered at once, whatever that costs, and requests wait for it.
  bool io_uring = true;
  bool nvidia_export = false;  // Experimental: our own GPU memory for p2pdma.
  // The most bytes of one storage operation of any request; 64 KiB or more.
  std::uint64_t operation_max = UINT64_MAX;
  unsigned threads_max = UINT_MAX;       // The most threads for one request, counting its caller's; 1 or more.
  std::uint64_t share_min = 0;           // The least bytes for each of these threads.
  bool cached_unaligned_writes = false;  // Through the page cache as a whole, not their ends alone.
  Placement placement;                   // The user's placement of threads and pinned memory: see placement_on().
  bool streams = true;                   // Requests on users' streams are served.
  bool stream_words = true;              // Streams may be held by a wait for a value, where the device can.
  VendorUse vendor = VendorUse::automatic;
  std::string vendor_library;  // NVIDIA's: an absolute path, or empty for the usual places.
  NvfsUse nvfs = NvfsUse::off;
  std::shared_ptr<NvfsKernel> nvfs_kernel;  // In tests, in place of the kernel's.
  std::string scratch;                      // A path that self-tests of its storage may overwrite, or empty.
  std::string root = "/";                   // Paths look for /proc and /sys here. Tests have machines of their own.
  Denylist denylist;
  Usage* usage = nullptr;  // Files are counted here for a report; null: nowhere. Outlives the session.
};

// The parts of it that paths and the engine go by.
PathSettings path_settings(const Config& config);
EngineRules engine_rules(const Config& config);
// True if there are CPUs to spare for looking out, for microseconds, before going to sleep, and the policy spends them.
bool looks_out(const Config& config);

Config make_config(const Settings& settings);

}  // namespace penstock::core
