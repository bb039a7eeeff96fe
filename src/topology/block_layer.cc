// SPDX-License-Identifier: Apache-2.0

#include "topology/block_layer.h"

#include <algorithm>
#include <iterator>

namespace penstock::core {
namespace {

using enum LayerRole;

constexpr BlockLayer kLayers[] = {
    {&BlockDevice::dm_target, "cache", cache, "a cache on a faster drive before a slower one (dm-cache, made by LVM)",
     "lvs -a -o name,segtype,cache_mode,devices", false},
    {&BlockDevice::dm_target, "writecache", cache, "a cache of writes on a faster drive (dm-writecache, made by LVM)",
     "lvs -a -o name,segtype,devices", false},
    {&BlockDevice::name, "bcache", cache, "a cache before a slower drive (bcache)",
     "cat /sys/block/{}/bcache/cache_mode", false},
    {&BlockDevice::dm_target, "vdo", deduplication,
     "deduplicated and compressed as it is written (dm-vdo, made by LVM)",
     "lvs -o name,vdo_compression,vdo_deduplication", false},
    {&BlockDevice::dm_type, "VDO", deduplication, "deduplicated and compressed as it is written (VDO)", "vdostats",
     false},
    {&BlockDevice::dm_target, "thin-pool", allocation,
     "a pool whose blocks are allocated when they are first written "
     "(dm-thin, made by LVM)",
     "lvs -a -o name,segtype,data_percent", false},
    {&BlockDevice::dm_target, "raid", parity, "RAID by the CPU (dm-raid, made by LVM)", "lvs -a -o name,segtype",
     false},
    {&BlockDevice::md_level, "raid4", parity, "RAID with parity (md)", "mdadm --detail /dev/{}", true},
    {&BlockDevice::md_level, "raid5", parity, "RAID with parity (md)", "mdadm --detail /dev/{}", true},
    {&BlockDevice::md_level, "raid6", parity, "RAID with parity (md)", "mdadm --detail /dev/{}", true},
    {&BlockDevice::dm_type, "CRYPT", encryption, "encrypted by the CPU (dm-crypt)", "dmsetup table {}", true},
    {&BlockDevice::name, "drbd", replication, "which is replicated over the network (DRBD)", "drbdsetup show", false},
    {&BlockDevice::name, "rbd", remote, "a Ceph RBD image", "rbd showmapped", false},
    {&BlockDevice::name, "nbd", remote, "a network block device", "nbd-client -check /dev/{}", false},
    {&BlockDevice::scsi_link, "iscsi", remote, "an iSCSI disk", "iscsiadm -m session -P 3", true},
};

}  // namespace

std::span<const BlockLayer> block_layers() { return kLayers; }

const BlockLayer* block_layer(const BlockDevice& device) {
  const auto* const found = std::find_if(std::begin(kLayers), std::end(kLayers), [&](const BlockLayer& layer) {
    return (device.*layer.field).starts_with(layer.begins);
  });
  return found == std::end(kLayers) ? nullptr : found;
}

}  // namespace penstock::core
