// SPDX-License-Identifier: Apache-2.0

// The part of the configuration that paths use: values only, no policies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/paths.h"

namespace penstock::core {

class NvfsKernel;

enum class VendorUse : std::uint8_t {
  automatic,  // Used if it is direct.
  force,      // Used even if it copies by the CPU.
  off,
};

enum class NvfsUse : std::uint8_t {
  off,        // The default until the path has been run with NVIDIA's module.
  automatic,  // Used unless it is unknown whether the module crashes a machine with this kernel.
  on,
  stand_in,  // Also uses a module that stands in for nvidia-fs in tests.
};

// The configuration of paths.
struct PathSettings {
  // If false, ID_outlook() (paths.h) only finds out if its path may serve, and does not ask the kernel for the best
  // reason why not.
  bool explains = true;
  std::optional<PathId> require;               // All other paths refuse.
  bool paths_named = false;                    // The user named the paths.
  bool direct_io = true;                       // Direct I/O may be used.
  bool page_cache = true;                      // The page cache may be used.
  bool offers_memory = false;                  // Device memory may be offered to storage.
  std::uint64_t registration_cache_bytes = 0;  // The most bytes in the page cache that are registered with devices.
  bool register_at_once = false;  // Pages are registered at once, whatever that costs, and requests wait for it.
  double cpu_weight = 0.1;        // How many seconds of waiting one CPU second of registering is worth.
  VendorUse vendor = VendorUse::automatic;
  std::string vendor_library;  // The file of NVIDIA's library: an absolute path, or empty for the usual places.
  NvfsUse nvfs = NvfsUse::off;
  std::shared_ptr<NvfsKernel> nvfs_kernel;  // Replaces the real kernel in tests.
  bool dmabuf = false;                      // Dma-bufs of io_uring may be used,
  bool dmabuf_files = false;                // also to read files from the drive that they lie on,
  bool dmabuf_write = false;                // and to write a store's own file there.
  std::string scratch;                      // A file that self-tests may overwrite, or empty.
  std::string root = "/";                   // The root of /proc, /sys and other makers' libraries.
};

}  // namespace penstock::core
