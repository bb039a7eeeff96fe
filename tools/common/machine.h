// SPDX-License-Identifier: Apache-2.0

// What `penstock check` knows of a machine: all that topology/ reads, and what only the machine itself can answer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/penstock.hpp"
#include "settings/settings.h"
#include "tools/common/environment.h"
#include "tools/common/terminal.h"
#include "topology/file_system.h"
#include "topology/peer_route.h"
#include "topology/root.h"

namespace penstock::tools {

// Memory of a GPU as a dma-buf.
struct DmaBufProbe {
  std::string refusal;                     // What the driver said to an export; "" where it works.
  std::vector<std::string> rdma_adapters;  // That may register it; none that software makes, which copies by the CPU.
};

// Tried, not read: a captured machine has none.
struct Probe {
  int io_uring_error = 0;     // The errno that a small ring ends with, or 0.
  std::string device_kind;    // "cuda", "host" or several with commas; "" where no session opens.
  std::string device_reason;  // What stood in the way of GPUs, or of the session.
  EnvironmentSettings environment;
  std::string environment_error;    // Why no session opens with these settings; "" where one does.
  bool exports_gpu_memory = false;  // As set,
  bool calls_nvidia_fs = false;     // as is whether Penstock does itself,
  std::string vendor_library;       // and this; "" where no session opens.
  std::vector<DeviceInfo> devices;
  std::optional<DmaBufProbe> dma_buf;  // Where there is a GPU of CUDA's.

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

struct Machine : core::PeerMachine {
  std::string root;              // Of a captured machine; "" for this one.
  std::vector<GpuBar> gpu_bars;  // Of NVIDIA's GPUs, where they can be seen.
  core::NvidiaFs nvidia_fs;
  // Storage drivers register when nvidia-fs is first opened: those that will, by their hooks, where none has yet.
  std::vector<std::string> hooked_drivers;
  std::optional<int> io_uring_disabled;
  std::optional<core::LockedMemoryLimit> locked_memory;
  std::vector<core::FileSystem> file_systems;
  std::vector<bool> is_denied;  // Of these: cuFile's configuration bars it from cuFile's direct paths.
  core::Tristate has_udev = core::Tristate::unknown;  // A udev database; unknown under a root of /proc and /sys alone.
  bool has_vendor_library = false;                    // NVIDIA's libcufile.so.0 in one of its usual places.
  core::LoadedSettings cufile;  // cuFile's configuration; of a captured machine without its environment.
  std::optional<Probe> probe;

  std::vector<const core::PciDevice*> nvidia_gpus() const;
};

// A captured machine's directory, or "" for this machine. Throws a Failure with exit code 2 where it is none.
core::Root open_machine_root(const std::string& directory);
// With directory "" it also opens a session and a ring, for a moment.
Machine read_machine(const core::Root& root, const std::string& directory);

}  // namespace penstock::tools
