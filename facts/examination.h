// SPDX-License-Identifier: Apache-2.0

// The answers about a machine: its findings, and for each file system how bytes go. Every program that reports on a
// machine examines it here and prints the result; a captured machine is judged in the same way as this one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "facts/finding.h"
#include "facts/machine.h"
#include "facts/operator_versions.h"
#include "facts/outlook.h"
#include "topology/nvidia_fs_version.h"

namespace penstock::facts {

struct Examination {
  Examination() = default;
  Examination(Examination&&) = default;  // Not copied: places and pairs point into `machine`.
  Examination& operator=(Examination&&) = default;

  Machine machine;
  Findings findings;            // About drivers and fabric, and those that follow from others.
  std::vector<PeerPair> pairs;  // One for each pair of a device's memory and a file system.
  std::vector<Outlook> places;  // One for each of the machine's file systems, in their order.
  Outlook whole;                // For each path the best outlook that any place has.

  bool has_gpu() const { return machine.has_gpu(); }
  // The outlook of p2pdma for this pair, with the process's settings.
  PathOutlook by_p2pdma(const PeerPair& pair) const;
};

// The outlook of the file system that a mount belongs to; null if it is none of the machine's.
const Outlook* place_of(const Examination& examined, const core::Mount& mount);

// Makes all findings and outlooks of a machine.
Examination examine(Machine machine);

// The steps of examine(). The first judges versions and hardware by the matrix, settings, and conflicts.
void judge_drivers(const Machine& machine, Findings& findings);
void judge_nvidia_fs(const Machine& machine, Findings& findings);  // Called by judge_drivers().
// RDMA devices, registration of GPU memory, PCIe links, and the transport of all remote storage.
void judge_fabric(const Machine& machine, Findings& findings);
void judge_links(const Machine& machine, Findings& findings);  // PCIe links; called by judge_fabric().
// The rates of links as they are negotiated, by kind of device; links of idle GPUs are left out.
struct LinkRates {
  std::string_view kind;  // "GPU", "drive", "NIC"
  double least, most;     // Bytes a second.
};
std::vector<LinkRates> link_rates(const Machine& machine);
// The failed findings about links of drives under a block device.
std::vector<const Finding*> slow_links(const Examination& examined, const core::BlockDevice& device);
// Findings that follow from the outlook: storage drivers without hooks, cuFile's settings that forbid a direct path,
// the direct paths themselves, and the storage that they may serve.
void judge_hooks(const Examination& examined, Findings& findings);
void judge_cufile(const Examination& examined, Findings& findings);
void judge_paths(const Examination& examined, Findings& findings);
// The finding of judge_cufile() that bars a file system from direct paths; nothing if there is none.
std::optional<FindingName> barred_by(const Examination& examined, const core::FileSystem& one);

// The version of NVIDIA's driver; nothing if the driver is not loaded.
std::optional<Version> driver_of(const Machine& machine);

// The version of nvidia-fs, as the module tells it, or else /proc; nothing if it is not loaded.
std::optional<core::NvidiaFsVersion> nvidia_fs_of(const Machine& machine);

// Describes a file system: "ext4 on nvme0n1, drive 0000:19:00.0"; "nfs4 of server:/export".
std::string storage_text(const core::FileSystem& file_system);
// The name of the drive at a PCI address, with its mounts: "nvme0n1, /data"; "" if nothing is mounted from it.
std::string drive_text(const Machine& machine, const std::string& pci_address);

}  // namespace penstock::facts
