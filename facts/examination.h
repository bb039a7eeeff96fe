// SPDX-License-Identifier: Apache-2.0

// The answers about a machine: its findings, and for each file system how bytes go. Every program that tells of a
// machine examines it, and prints this; captured machines are judged like this one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "facts/finding.h"
#include "facts/machine.h"
#include "facts/operator_versions.h"
#include "facts/outlook.h"

namespace penstock::facts {

struct Examination {
  Examination() = default;
  Examination(Examination&&) = default;  // No copies: places and pairs point into what the machine owns.
  Examination& operator=(Examination&&) = default;

  Machine machine;
  Findings findings;            // On drivers and fabric, with the ones that follow from others.
  std::vector<PeerPair> pairs;  // Device memory and file systems.
  std::vector<Outlook> places;  // One for each of the machine's file systems, in their order.
  Outlook whole;                // For each path the best outlook that any place has.

  bool has_gpu() const { return machine.has_gpu(); }
  // How p2pdma stands between the two, as the process is set.
  PathOutlook by_p2pdma(const PeerPair& pair) const;
};

// The place that a mount belongs to; null where none of the machine's file systems does.
const Outlook* place_of(const Examination& examined, const core::Mount& mount);

// All that is to be said of a machine.
Examination examine(Machine machine);

// The parts of that. Versions and hardware by the matrix, settings, and conflicts.
void judge_drivers(const Machine& machine, Findings& findings);
void judge_nvidia_fs(const Machine& machine, Findings& findings);  // A part of that: the module nvidia-fs.
// RDMA devices, registration of GPU memory, PCIe links, and the transport of all remote storage.
void judge_fabric(const Machine& machine, Findings& findings);
void judge_links(const Machine& machine, Findings& findings);  // A part of that: PCIe.
// Findings that follow from the outlook: storage drivers without hooks, cuFile's settings that forbid a direct path,
// the direct paths themselves, and the storage that they may serve.
void judge_hooks(const Examination& examined, Findings& findings);
void judge_cufile(const Examination& examined, Findings& findings);
void judge_paths(const Examination& examined, Findings& findings);
// The finding of judge_cufile() that bars a file system; nothing where none does.
std::optional<FindingName> barred_by(const Examination& examined, const core::FileSystem& one);

// NVIDIA's driver's version; nothing if it is not loaded.
std::optional<Version> driver_of(const Machine& machine);

// The module tells three numbers, /proc two.
struct NvidiaFsVersion {
  std::string text;
  Version number{};
  bool has_patch = false;
};
std::optional<NvidiaFsVersion> nvidia_fs_of(const Machine& machine);

// "ext4 on nvme0n1, drive 0000:19:00.0"; "nfs4 of server:/export".
std::string storage_text(const core::FileSystem& file_system);
// The drive's name and its mounts: "nvme0n1, /data"; "" if nothing is mounted from it.
std::string drive_text(const Machine& machine, const std::string& pci_address);

}  // namespace penstock::facts
