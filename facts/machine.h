// SPDX-License-Identifier: Apache-2.0

// The facts of a machine, live or captured: all that topology/ reads, and answers that only the live machine can give.
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
#include "topology/nvidia_fs_stats.h"
#include "topology/nvme_controller.h"
#include "topology/peer_route.h"
#include "topology/rdma_device.h"
#include "topology/root.h"

namespace penstock::facts {

// The export of GPU memory as a dma-buf.
struct DmaBufProbe {
  std::string refusal;                     // The driver's answer to an export; "" if it works.
  std::vector<std::string> rdma_adapters;  // NICs that may register it; NICs made by software are left out.
};

// Results of trying things on the live machine: a captured machine has none.
struct Probe {
  int io_uring_error = 0;     // The errno with which a small ring could not be made, or 0.
  std::string device_kind;    // "cuda", "host" or several with commas; "" if no session opens.
  std::string device_reason;  // The obstacle to using GPUs, or to opening a session.
  std::vector<DeviceInfo> devices;
  std::optional<DmaBufProbe> dma_buf;  // Only if CUDA has a GPU.
  std::vector<Verdict> verdicts;       // The library's own verdict on each path, from machine and settings alone.
  int cuda = 0;                        // CUDA's version, as 12080; 0 if unknown.

  std::size_t cuda_devices() const {
    const auto is_cuda = [](const DeviceInfo& device) { return std::string_view(device.kind) == "cuda"; };
    return static_cast<std::size_t>(std::count_if(devices.begin(), devices.end(), is_cuda));
  }
};

// The PCI window through which other devices can reach a GPU's memory.
struct GpuBar {
  std::string pci_address;
  std::uint64_t bytes = 0;
};

// Facts of a file system that topology/ does not read.
struct Place {
  std::string denied_by;  // The key of cuFile's list that bars it from direct paths ("denylist.mounts"); or "".
  std::string denied_as;  // The entry of that list which names it.
  std::string transport;  // The transport of a network file system; "" if unknown.
  std::string client;  // The client that serves it on this machine, if its name is known: "VAST's NFS client 4.0.35".
  // True if blocks are below 4 KiB, on which nvidia-fs corrupts bytes; never known of a captured machine.
  bool has_small_blocks = false;
};

struct Machine : core::PeerMachine {
  std::string root;  // The root that a captured machine lies under; "" for this machine.
  Process process;
  std::vector<GpuBar> gpu_bars;  // The windows of NVIDIA's GPUs, if they can be seen.
  core::NvidiaFs nvidia_fs;
  core::NvidiaFsStats nvidia_fs_stats;
  // Storage drivers register when nvidia-fs is first opened. While none has registered yet, this names those that will,
  // found by their hooks.
  std::vector<std::string> hooked_drivers;
  core::GdsEvidence evidence;
  std::vector<core::RdmaDevice> rdma;
  std::vector<core::NvmeController> controllers;
  std::optional<int> io_uring_disabled;
  std::optional<core::LockedMemoryLimit> locked_memory;
  std::vector<core::FileSystem> file_systems;
  std::vector<Place> places;                          // One for each of file_systems.
  core::Tristate has_udev = core::Tristate::unknown;  // Unknown if only /proc and /sys were captured.
  bool has_vendor_library = false;                    // NVIDIA's libcufile.so.0 in one of its usual places.
  std::optional<Probe> probe;

  std::vector<const core::PciDevice*> nvidia_gpus() const;
  bool has_gpu() const;  // True if there is an NVIDIA GPU: one that CUDA knows, if CUDA could be asked.
  const Place& place_of(const core::FileSystem& file_system) const;
};

// Tries what only the live machine can answer: opens a session and a ring for a moment. If no session opens with the
// process's settings, process.error says why. `rdma` are the machine's RDMA devices.
Probe probe_machine(Process& process, const std::vector<core::RdmaDevice>& rdma);
// Reads a machine under `root`. With directory "" it also probes this machine (probe_machine()). `more` are variables
// that the process in question has besides this one's.
Machine read_machine(const core::Root& root, const std::string& directory, const Variables& more = {});
// Reads nvidia-fs's own counts alone.
core::NvidiaFsStats nvidia_fs_counts(const core::Root& root);

}  // namespace penstock::facts
