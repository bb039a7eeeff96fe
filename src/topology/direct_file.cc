// SPDX-License-Identifier: Apache-2.0

#include "topology/direct_file.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

#include "topology/network_mount.h"

namespace penstock::core {
namespace {

constexpr std::size_t kFileSystemsMax = 64;

bool is_one_of(std::string_view type, std::initializer_list<std::string_view> types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

Findings network_findings(const Root& root, const Mount& mount) {
  const std::string& point = mount.mount_point;
  if (!mount.type.starts_with("nfs")) return {certain(Obstacle::network_file_system, point)};
  const std::string client = text_of(vast_client(root, mount));
  const std::string subject = client.empty() ? point : point + ", by " + client;
  const std::string transport = nfs_transport(root, mount);
  if (transport == "rdma") return {certain(Obstacle::nfs_rdma, subject)};
  if (transport.starts_with("tcp")) return {certain(Obstacle::nfs_tcp, subject)};
  return {certain(Obstacle::network_file_system, subject)};
}

// /sys/fs/btrfs/UUID/devices holds a name for each device of a file system.
bool spans_several_devices(const Root& root, const MountTable& table, const Mount& mount) {
  if (mount.type == "bcachefs") return mount.source.find(':') != std::string::npos;
  if (mount.type != "btrfs") return false;
  const auto number = mount_device(root, table, mount);
  if (!number) return false;
  std::vector<std::string> file_systems = root.list("/sys/fs/btrfs");
  file_systems.resize(std::min(file_systems.size(), kFileSystemsMax));
  for (const std::string& one : file_systems) {
    const std::vector<std::string> devices = root.list("/sys/fs/btrfs/" + one + "/devices");
    const bool is_it = devices.size() > 1 && std::any_of(devices.begin(), devices.end(), [&](const std::string& name) {
                         return parse_device_number(root.read_line("/sys/class/block/" + name + "/dev")) == number;
                       });
    if (is_it) return true;
  }
  return false;
}

// File systems with iomap's direct I/O pass device pages on; the older code refuses them.
Findings local_findings(const Root& root, const MountTable& table, const Mount& mount, Op op) {
  const std::string& type = mount.type;
  const std::string& point = mount.mount_point;
  Findings findings;
  if (is_one_of(type, {"ext3", "ext4"}) && mount.super_option("data") == "journal") {
    findings.push_back(certain(Obstacle::data_journal, point));
  }
  if (type == "btrfs" && op == Op::write && !mount.has_super_option("nodatacow") &&
      !mount.has_super_option("nodatasum")) {
    findings.push_back(certain(Obstacle::checksums, point));
  }
  if (spans_several_devices(root, table, mount)) findings.push_back(possible(Obstacle::several_devices, point));
  if (!is_one_of(type, {"ext3", "ext4", "xfs", "btrfs", "f2fs"})) {
    // ZFS keeps a cache of its own (ARC), which most direct requests pass.
    findings.push_back(
        possible(Obstacle::file_system_unknown,
                 point + ", " + type + (type == "zfs" ? " (its cache, ARC, is not the page cache)" : "")));
  }
  return findings;
}

// ---- One file

// Adds findings for storage forms that need the CPU (such as compression), from attributes and extents.
void add_stored_form(const DirectFile& file, Findings& findings) {
  const FileExtents& extents = file.extents;
  if (extents.encoded_bytes > 0 || file.is_compressed == Tristate::yes) {
    // The attribute alone says only how bytes will be written.
    const bool is_certain = extents.encoded_bytes > 0 || !extents.is_known;
    findings.push_back(is_certain ? certain(Obstacle::compressed) : possible(Obstacle::compressed));
  }
  if (file.is_encrypted == Tristate::yes || extents.encrypted_bytes > 0)
    findings.push_back(certain(Obstacle::encrypted));
  if (file.is_verity == Tristate::yes) findings.push_back(certain(Obstacle::verity));
  if (file.has_inline_data == Tristate::yes || extents.inline_bytes > 0) {
    findings.push_back(certain(Obstacle::inline_data));
  }
}

void add_extents(const DirectFile& file, Op op, Findings& findings) {
  const FileExtents& extents = file.extents;
  if (op == Op::write && extents.shared_bytes > 0) findings.push_back(certain(Obstacle::shared_extents));
  if (extents.hole_bytes > 0) findings.push_back(certain(Obstacle::holes));
  if (extents.unwritten_bytes > 0) findings.push_back(certain(Obstacle::unwritten_extents));
  if (op == Op::write && file.has_block_map == Tristate::yes) findings.push_back(certain(Obstacle::block_map));
}

bool has_copied(const Findings& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& one) { return one.stops() && one.effect() == Effect::copied; });
}

Findings file_findings(const DirectFile& file, Op op) {
  Findings findings;
  if (file.is_journaled == Tristate::yes) findings.push_back(certain(Obstacle::data_journal));
  add_stored_form(file, findings);
  add_extents(file, op, findings);
  return findings;
}

void drop(Findings& findings, Obstacle obstacle) {
  std::erase_if(findings, [&](const Finding& one) { return one.obstacle == obstacle; });
}

const Mount* mount_of(const MountTable& table, const DirectFile& file) {
  for (const Mount& mount : table.mounts()) {
    if (file.mount_id >= 0 && mount.id == file.mount_id) return &mount;
  }
  if (!file.path.empty()) return table.find(file.path);
  return table.find(file.device);
}

}  // namespace

Findings mount_findings(const Root& root, const MountTable& table, const Mount& mount, Op op) {
  const std::string& point = mount.mount_point;
  if (mount.type == "overlay") {
    const Layer layer = find_layer(root, table, mount, point, true);
    if (layer.mount == nullptr) return {possible(Obstacle::overlay, point)};
    return mount_findings(root, table, *layer.mount, op);
  }
  if (is_one_of(mount.type, {"tmpfs", "ramfs", "rootfs", "hugetlbfs"}) || is_pseudo_file_system(mount.type)) {
    return {certain(Obstacle::memory, point)};
  }
  if (mount.type == "fuse" || mount.type == "fuseblk" || mount.type.starts_with("fuse.")) {
    return {certain(Obstacle::fuse, point)};
  }
  if (is_network_file_system(mount.type)) return network_findings(root, mount);
  if (is_one_of(mount.type, {"squashfs", "iso9660", "udf"})) return {certain(Obstacle::no_direct_io, point)};
  if (is_one_of(mount.type, {"vfat", "exfat", "ntfs3", "jfs"})) return {certain(Obstacle::file_system, point)};
  return local_findings(root, table, mount, op);
}

DirectFile captured_file(const Root& root, std::string_view path) {
  DirectFile file;
  file.path = std::string(path);
  if (!path.starts_with("/dev/")) return file;
  const auto number =
      parse_device_number(root.read_line("/sys/class/block/" + std::string(last_component(path)) + "/dev"));
  if (!number) return file;
  file.is_block_device = true;
  file.device = *number;
  return file;
}

DirectFileReport judge_direct_file(const Root& root, const MountTable& table, const DirectFile& file, Op op) {
  DirectFileReport report;
  if (file.is_block_device) {
    report.storage = file.device;
  } else if (const Mount* mount = mount_of(table, file)) {
    const std::string& path = file.path.empty() ? mount->mount_point : file.path;
    const Layer layer = find_layer(root, table, *mount, path, op == Op::write);
    report.mount = layer.mount == nullptr ? *mount : *layer.mount;
    report.findings = mount_findings(root, table, *report.mount, op);
    // On plain file systems st_dev is the device; btrfs and overlays invent numbers.
    const bool is_plain = file.device.major != 0 && layer.mount == mount;
    report.storage = is_plain ? file.device : mount_device(root, table, *report.mount);
  } else if (file.device.major != 0) {
    report.storage = file.device;
  }
  // btrfs has no checksums for files without copy on write.
  if (file.is_copied_on_write == Tristate::no) drop(report.findings, Obstacle::checksums);
  append(report.findings, file_findings(file, op));
  // These two count only if nothing else explains the copies.
  if (has_copied(report.findings)) return report;
  if (file.takes_direct_io == Tristate::no) {
    report.findings.push_back(certain(Obstacle::no_direct_io));
  } else if (file.direct_error != 0) {
    report.findings.push_back(certain(Obstacle::no_direct_descriptor));
  }
  return report;
}

Findings request_findings(const DirectFile& file, Op op, std::uint64_t offset, std::uint64_t size,
                          std::uintptr_t memory) {
  constexpr std::uint32_t kAssumedAlign = 4096;
  Findings findings;
  const std::uint64_t offset_align = file.direct_offset_align != 0 ? file.direct_offset_align : kAssumedAlign;
  const std::uint64_t memory_align = file.direct_memory_align != 0 ? file.direct_memory_align : kAssumedAlign;
  if (offset % offset_align != 0 || size % offset_align != 0 || memory % memory_align != 0) {
    findings.push_back(certain(Obstacle::misaligned));
  }
  const bool is_past_end = size > file.size || offset > file.size - size;
  if (op == Op::write && !file.is_block_device && is_past_end) findings.push_back(certain(Obstacle::extending_write));
  return findings;
}

}  // namespace penstock::core
