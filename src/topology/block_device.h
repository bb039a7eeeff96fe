// SPDX-License-Identifier: Apache-2.0

// What lies under a block device number: partition, disk, and the devices it is made of, read from /sys alone.
//
// It says what a device is, not whether device pages pass: that is peer_route.h's to say.
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
NvmeTransport nvme_transport_by_name(std::string_view name);  // As the kernel writes it.

struct BlockDevice {
  DeviceNumber number;
  std::string name;  // "nvme0n1p2"
  std::string disk;  // "nvme0n1": the parent of a partition, else the name again.
  BlockKind kind = BlockKind::unknown;
  NvmeTransport transport = NvmeTransport::none;  // Of an NVMe device; the least direct one of several.
  bool is_multipath = false;  // An NVMe device that the kernel reaches through one or more controllers.
  std::string dm_type;        // "LVM", "CRYPT", "mpath", ...: what made a device-mapper device.
  std::string dm_name;        // "group-volume": as /dev/mapper has it.
  std::string
      dm_target;  // "cache", "vdo", ...: what LVM makes of its parts, by their names; "" where those tell nothing.
  std::string md_level;      // "raid0", ...
  std::string backing_file;  // Of a loop device.
  std::string scsi_link;     // Of a SCSI disk: "iscsi", "fc", "sas", "sata", "usb"; "" where its place tells none.
  std::string iscsi_driver;  // Of an iSCSI disk: "iscsi_tcp", "iscsi_iser", or that of an adapter with an engine.
  std::string iscsi_target;  // Its name: "iqn...."; "" where the session does not tell.
  std::string pci_address;   // Of the controller; "" where there is none.
  std::string model;
  int numa_node = -1;
  std::uint32_t logical_block_size = 0;  // Bytes; 0 where unknown.
  bool is_rotational = false;
  bool is_buffered = false;         // A loop device that reads and writes its file through the page cache.
  std::vector<BlockDevice> slaves;  // What dm, md and loop devices are made of.

  bool is_partition() const { return disk != name; }
  bool is_iscsi() const { return scsi_link == "iscsi"; }
  // How bytes leave this machine: "tcp", "rdma", "fc", ...; "" of what is local. "unknown": by what nothing here tells.
  std::string remote_transport() const;
  // With what is below: "md0 on nvme0n1, nvme1n1", "loop0 (/images/a.ext4) on sda2".
  std::string text() const;
};

// The stack under a device number; nothing where /sys does not know it. Loop devices are followed into the file
// system that holds their backing file. At most kBlockDepthMax levels and kBlockDevicesMax devices.
constexpr unsigned kBlockDepthMax = 12;
constexpr unsigned kBlockDevicesMax = 256;
std::optional<BlockDevice> read_block_device(const Root& root, const MountTable& mounts, DeviceNumber number);

}  // namespace penstock::core
