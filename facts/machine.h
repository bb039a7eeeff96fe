// SPDX-License-Identifier: Apache-2.0

// The facts of a machine, live or captured: all that topology/ reads, and answers that only the machine can give.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "facts/environment.h"
#include "facts/process.h"
#include "penstock/penstock.hpp"
#include "settings/settings.h"
#include "topology/file_system.h"
#include "topology/gds_evidence.h"
#include "topology/nvme_controller.h"
#include "topology/peer_route.h"
#include "topology/rdma_device.h"
#include "topology/root.h"

namespace penstock::facts {

// Memory of a GPU as a dma-buf.
struct DmaBufProbe {
  std::string refusal;                     // The driver's answer to an export; "" if it works.
  std::vector<std::string> rdma_adapters;  // NICs that may register it, none made by software.
};

// Tried, not read: a captured machine has none.
struct Probe {
  int io_uring_error = 0;     // The errno that a small ring ends with, or 0.
  std::string device_kind;    // "cuda", "host" or several with commas; "" if no session opens.
  std::string device_reason;  // The obstacle to GPUs, or to the session.
  std::vector<DeviceInfo> devices;
  std::optional<DmaBufProbe> dma_buf;  // If there is a GPU of CUDA's.
  std::vector<Verdict> verdicts;       // The library's own of each path, by machine and settings alone.
  int cuda = 0;                        // 12080; 0 where nothing tells.

  std::size_t cuda_devices() const {
    const auto is_cuda = [](const DeviceInfo& device) { return std::string_view(device.kind) == "cuda"; };
    return static_cast<std::size_t>(std::count_if(devices.begin(), devices.end(), is_cuda));
  }
};

// Through which a GPU's memory can be reached over the bus.
struct GpuBar {
  std::string pci_address;
  std::uint64_t bytes = 0;
};

// The facts of a file system besides those that topology/ reads.
struct Place {
  std::string denied_by;          // The key of cuFile's list that bars it from direct paths: "denylist.mounts"; or "".
  std::string denied_as;          // The list's entry.
  std::string transport;          // A network file system's; "" if nothing tells.
  std::string client;             // The client that serves it here, if its name is known: "VAST's NFS client 4.0.35".
  bool has_small_blocks = false;  // Below 4 KiB, on which nvidia-fs corrupts bytes; never known of a capture.
};

struct Machine : core::PeerMachine {
  std::string root;  // A captured machine's; "" for this one.
  Process process;
  std::vector<GpuBar> gpu_bars;  // NVIDIA's GPUs', where they can be seen.
  core::NvidiaFs nvidia_fs;
  // Storage drivers register when nvidia-fs is first opened: the ones that will, by their hooks, while none has yet.
  std::vector<std::string> hooked_drivers;
  core::GdsEvidence evidence;
  std::vector<core::RdmaDevice> rdma;
  std::vector<core::NvmeController> controllers;
  std::optional<int> io_uring_disabled;
  std::optional<core::LockedMemoryLimit> locked_memory;
  std::vector<core::FileSystem> file_systems;
  std::vector<Place> places;                          // One for each of these.
  core::Tristate has_udev = core::Tristate::unknown;  // A udev database; unknown under a root of /proc and /sys alone.
  bool has_vendor_library = false;                    // NVIDIA's libcufile.so.0 in one of its usual places.
  std::optional<Probe> probe;

  std::vector<const core::PciDevice*> nvidia_gpus() const;
  bool has_gpu() const;  // One of NVIDIA's, that CUDA knows where it could be asked.
  const Place& place_of(const core::FileSystem& file_system) const;
};

// Tries what only the machine itself can tell: opens a session and a ring, for a moment. Adds to the process why no
// session opens with its settings. rdma: the machine's.
Probe probe_machine(Process& process, const std::vector<core::RdmaDevice>& rdma);
// With directory "" it also opens a session and a ring, for a moment. more: variables of the process that is asked
// about, besides this one's.
Machine read_machine(const core::Root& root, const std::string& directory, const Variables& more = {});

}  // namespace penstock::facts
