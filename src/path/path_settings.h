// SPDX-License-Identifier: Apache-2.0

// The part of the configuration that paths go by: values, and nothing of policies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/paths.h"

namespace penstock::core {

class NvfsKernel;

enum class VendorUse : std::uint8_t {
  automatic,  // If it is direct.
  force,      // Also where it copies by the CPU.
  off,
};

enum class NvfsUse : std::uint8_t {
  off,  // Until it was run beside NVIDIA's module.
  on,
  stand_in,  // Also by a module that stands in for nvidia-fs in tests.
};

// The part of the configuration that paths go by.
struct PathSettings {
  std::optional<PathId> require;               // Any other path refuses.
  bool paths_named = false;                    // By the user.
  bool direct_io = true;                       // May be used,
  bool page_cache = true;                      // and the page cache, too.
  bool offers_memory = false;                  // Devices' memory may be offered to storage.
  std::uint64_t registration_cache_bytes = 0;  // The most bytes in the page cache that are registered with devices.
  bool register_at_once = false;               // Whatever it costs, and worth waiting for.
  double cpu_weight = 0.1;                     // Seconds of waiting that a CPU second of registering is worth.
  VendorUse vendor = VendorUse::automatic;
  std::string vendor_library;  // NVIDIA's: an absolute path, or empty for the usual places.
  NvfsUse nvfs = NvfsUse::off;
  std::shared_ptr<NvfsKernel> nvfs_kernel;  // In tests, in place of the kernel's.
  std::string scratch;                      // A path that self-tests of its storage may overwrite, or empty.
  std::string root = "/";                   // Where /proc, /sys and other makers' libraries are looked for.
};

}  // namespace penstock::core
