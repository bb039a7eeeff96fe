// SPDX-License-Identifier: Apache-2.0

// The kind of this machine: system, kernel, limits, IOMMU, NVIDIA's driver and nvidia-fs, from /proc and /sys.
//
// For `penstock check` and for the paths' verdicts. Each function has its own cost; only kernel_has_p2pdma() is slow
// (it may read all of /proc/kallsyms, up to tens of milliseconds), so call it once. Nothing here needs root, loads a
// driver or opens a device node.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/p2pdma_needs.h"
#include "topology/kernel_symbols.h"
#include "topology/root.h"
#include "topology/tristate.h"

namespace penstock::core {

struct Platform {
  std::string kernel_release;  // "6.18.44-generic"
  KernelVersion kernel;
  std::string distribution;     // "Debian GNU/Linux 12 (bookworm)"
  std::string distribution_id;  // "debian"
  std::string architecture;     // "x86_64"; "" if unknown.
  std::string cpu_vendor;       // "AuthenticAMD"
  std::string cpu_model;
  int cpu_family = 0;
  unsigned cpu_count = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t page_bytes = 0;    // 0 if unknown.
  std::string container;           // "docker", "podman", "kubernetes", "lxc", "other"; "" if none was detected.
  std::string container_evidence;  // The sign by which it was found: "/.dockerenv".
  bool is_virtual_machine = false;
  std::string virtual_machine;  // Its maker, if known: "QEMU", "Microsoft Corporation Virtual Machine".
  bool is_wsl = false;
};
Platform read_platform(const Root& root);

// kernel.io_uring_disabled: 0 for all, 1 for a group, 2 for none. Nothing if the kernel has no such switch.
std::optional<int> read_io_uring_disabled(const Root& root);

constexpr std::uint64_t kUnlimited = UINT64_MAX;
struct LockedMemoryLimit {
  std::uint64_t soft_bytes = 0;
  std::uint64_t hard_bytes = 0;
  bool is_exempt = false;  // CAP_IPC_LOCK: the limit does not apply.
};
std::optional<LockedMemoryLimit> read_locked_memory_limit(const Root& root);

// Tells whether the running kernel has CONFIG_PCI_P2PDMA, by its symbols or else by /boot/config-RELEASE. The first
// overload reads symbols up to the first that shows it.
Tristate kernel_has_p2pdma(const Root& root);
Tristate kernel_has_p2pdma(const Root& root, const KernelSymbols& symbols);

enum class IommuMode : std::uint8_t {
  off,          // No unit is in use.
  passthrough,  // Devices see physical addresses.
  translating,  // Devices see addresses of their own.
  unknown,      // There are units, but their mode is unknown.
};
const char* iommu_mode_name(IommuMode mode);

struct Iommu {
  IommuMode mode = IommuMode::off;
  std::vector<std::string> units;               // "dmar0", "ivhd0"
  std::vector<std::string> command_line_words;  // "iommu=pt", "pci=disable_acs_redir=...": as booted.
  unsigned identity_groups = 0;
  unsigned translated_groups = 0;
  std::vector<int> identity_group_numbers;  // Sorted.
};
Iommu read_iommu(const Root& root);

struct NvidiaDriver {
  bool is_loaded = false;
  bool is_open = false;      // The open kernel modules.
  std::string version_text;  // "595.45.04"
  DriverVersion version;
  bool has_parameters = false;             // /proc/driver/nvidia/params could be read, so the values below are known.
  std::string registry_dwords;             // The parameter of the module.
  std::optional<int> static_bar1;          // RMForceStaticBar1
  std::optional<int> write_combining_off;  // RmForceDisableIomapWC
  bool has_uvm = false;                    // nvidia-uvm is loaded.
  std::vector<std::string> device_nodes;   // "nvidia0", "nvidiactl", "nvidia-uvm", ...
  std::vector<std::string> models;         // The model of each GPU that the driver names: "NVIDIA H100".
};
NvidiaDriver read_nvidia_driver(const Root& root);

struct NvidiaFs {
  bool is_loaded = false;
  std::string version;                       // "2.28"
  std::string module_version;                // "2.28.4"; the same as `version` if /sys has none.
  std::vector<std::string> storage_drivers;  // Drivers that registered with it: "nvme", "lustre", ...
};
NvidiaFs read_nvidia_fs(const Root& root);

}  // namespace penstock::core
