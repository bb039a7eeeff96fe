// SPDX-License-Identifier: Apache-2.0

// Reads from /sys alone the partition and the disk behind a block device number, and the devices that they are made of.
//
// It describes a device; peer_route.h says if device pages pass it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/mounts.h"
#include "topology/root.h"

namespace penstock::core {

enum class BlockKind : std::uint8_t {
  unknown,
  nvme,
  virtio,
  scsi,
  mmc,
  dm,
  md,
  loop,
  zram,
  ram,
  nbd,
  rbd,
  xen,
  pmem,
  null_block
};
const char* block_kind_name(BlockKind kind);

enum class NvmeTransport : std::uint8_t { none, pcie, rdma, tcp, fc, loop, unknown };
const char* nvme_transport_name(NvmeTransport transport);
NvmeTransport nvme_transport_by_name(std::string_view name);  // Takes the name that the kernel writes.

struct BlockDevice {
  DeviceNumber number;
  std::string name;  // "nvme0n1p2"
  std::string disk;  // "nvme0n1": the parent of a partition, else the name again.
  BlockKind kind = BlockKind::unknown;
  NvmeTransport transport = NvmeTransport::none;  // For NVMe devices only; the least direct one of several.
  bool is_multipath = false;  // An NVMe device that the kernel reaches through one or more controllers.
  std::string dm_type;        // The subsystem that made a device-mapper device: "LVM", "CRYPT", "mpath", ...
  std::string dm_name;        // "group-volume", the name under /dev/mapper.
  // LVM's target, known from the names of its parts: "cache", "vdo", ...; "" if they do not show it.
  std::string dm_target;
  std::string md_level;      // "raid0", ...
  std::string backing_file;  // Loop devices only.
  std::string scsi_link;     // For SCSI disks only: "iscsi", "fc", "sas", "sata", "usb"; "" if /sys shows none.
  std::string iscsi_driver;  // iSCSI disks only: "iscsi_tcp", "iscsi_iser", or the driver of an adapter with an engine.
  std::string iscsi_target;  // The name of the iSCSI target: "iqn...."; "" if the session does not show it.
  std::string pci_address;   // The controller's, or "".
  std::string model;
  int numa_node = -1;
  std::uint32_t logical_block_size = 0;  // Bytes; 0 if unknown.
  std::uint64_t request_max = 0;         // Bytes of the largest request that is not split; 0 if unknown.
  bool is_rotational = false;
  bool is_buffered = false;         // A loop device that reads and writes its file through the page cache.
  std::vector<BlockDevice> slaves;  // The parts of dm, md and loop devices.

  bool is_partition() const { return disk != name; }
  bool is_iscsi() const { return scsi_link == "iscsi"; }
  // The transport by which bytes leave this machine: "tcp", "rdma", "fc", ...; "" if they stay on it; "unknown" if
  // nothing here shows how.
  std::string remote_transport() const;
  // The device with those below it: "md0 on nvme0n1, nvme1n1", "loop0 (/images/a.ext4) on sda2".
  std::string text() const;
};

// Reads the stack under a device number; nothing if /sys does not know it. Loop devices are followed into the file
// system that holds their backing file. Reads at most kBlockDepthMax levels and kBlockDevicesMax devices.
constexpr unsigned kBlockDepthMax = 12;
constexpr unsigned kBlockDevicesMax = 256;
std::optional<BlockDevice> read_block_device(const Root& root, const MountTable& mounts, DeviceNumber number);

}  // namespace penstock::core
