// SPDX-License-Identifier: Apache-2.0

#include "topology/block_device.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "topology/pci_device.h"
#include "topology/text.h"

namespace penstock::core {
namespace {

struct NamePrefix {
  std::string_view prefix;
  BlockKind kind;
};
constexpr std::array<NamePrefix, 16> kNamePrefixes = {{{"nvme", BlockKind::nvme},
                                                       {"vd", BlockKind::virtio},
                                                       {"sd", BlockKind::scsi},
                                                       {"sr", BlockKind::scsi},
                                                       {"mmcblk", BlockKind::mmc},
                                                       {"dm-", BlockKind::dm},
                                                       {"md", BlockKind::md},
                                                       {"loop", BlockKind::loop},
                                                       {"zram", BlockKind::zram},
                                                       {"ram", BlockKind::ram},
                                                       {"nbd", BlockKind::nbd},
                                                       {"rbd", BlockKind::rbd},
                                                       {"xvd", BlockKind::xen},
                                                       {"pmem", BlockKind::pmem},
                                                       {"nullb", BlockKind::null_block},
                                                       {"hd", BlockKind::scsi}}};

BlockKind kind_by_name(std::string_view name) {
  for (const NamePrefix& entry : kNamePrefixes) {
    if (name.starts_with(entry.prefix)) return entry.kind;
  }
  return BlockKind::unknown;
}

// "nvme3", not "nvme3n1" nor "nvme-subsys3"; "session1" likewise.
bool is_numbered(std::string_view name, std::string_view word) {
  return name.starts_with(word) && name.size() > word.size() &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(word.size()), name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

// The link of a SCSI disk, known by the beginning of a folder of the kernel's transport class above it.
struct ScsiLink {
  std::string_view folder;
  std::string_view link;
};
constexpr std::array<ScsiLink, 5> kScsiLinks = {
    {{"session", "iscsi"}, {"rport-", "fc"}, {"end_device-", "sas"}, {"ata", "sata"}, {"usb", "usb"}}};

// Parts that LVM makes for a volume, by the ends of their names (lvmcache(7), lvmvdo(7), lvmthin(7), lvmraid(7)), and
// the target of device mapper that the volume above them then has. /sys does not show targets.
struct LvmPart {
  std::string_view end;
  std::string_view target;
};
constexpr std::array<LvmPart, 5> kLvmParts = {{{"_wcorig", "writecache"},
                                               {"_corig", "cache"},
                                               {"_vdata", "vdo"},
                                               {"_tdata", "thin-pool"},
                                               {"_rimage_0", "raid"}}};

std::string_view target_above(std::string_view part) {
  for (const LvmPart& one : kLvmParts) {
    if (part.ends_with(one.end)) return one.target;
  }
  return {};
}

// Reads one stack. It limits the number of reads, so that a malicious tree ends early.
class StackReader {
 public:
  StackReader(const Root& root, const MountTable& mounts) : root_(root), mounts_(mounts) {}

  std::optional<BlockDevice> read(DeviceNumber number, unsigned depth) {
    if (depth >= kBlockDepthMax || devices_ >= kBlockDevicesMax) return std::nullopt;
    const std::string real =
        root_.real_path("/sys/dev/block/" + std::to_string(number.major) + ":" + std::to_string(number.minor));
    if (real.empty() || real == "/") return std::nullopt;
    ++devices_;
    BlockDevice device;
    device.number = number;
    device.name = std::string(last_component(real));
    const std::string directory = disk_directory(real);
    device.disk = std::string(last_component(directory));
    read_disk(directory, device);
    read_slaves(directory, device, depth);
    return device;
  }

 private:
  // A partition's directory lies in its disk's.
  std::string disk_directory(const std::string& real) const {
    if (!root_.exists(real + "/partition")) return real;
    return real.substr(0, real.rfind('/'));
  }

  void read_disk(const std::string& directory, BlockDevice& device) const {
    device.kind = kind_by_name(device.disk);
    device.logical_block_size = static_cast<std::uint32_t>(
        std::clamp<std::int64_t>(root_.read_number(directory + "/queue/logical_block_size").value_or(0), 0, 1 << 20));
    device.request_max = static_cast<std::uint64_t>(std::clamp<std::int64_t>(
                             root_.read_number(directory + "/queue/max_sectors_kb").value_or(0), 0, 1 << 20))
                         << 10;
    device.is_rotational = root_.read_line(directory + "/queue/rotational") == "1";
    device.model = root_.read_line(directory + "/device/model");
    std::string controller = directory;
    if (device.kind == BlockKind::nvme) controller = read_nvme(directory, device);
    if (device.kind == BlockKind::dm) read_dm(directory, device);
    if (device.kind == BlockKind::scsi) read_scsi(directory, device);
    if (device.kind == BlockKind::md) device.md_level = root_.read_line(directory + "/md/level");
    if (device.kind == BlockKind::loop) {
      device.backing_file = root_.read_line(directory + "/loop/backing_file");
      device.is_buffered = root_.read_line(directory + "/loop/dio") == "0";
    }
    device.pci_address = pci_address_in(root_.real_path(controller));
    if (!device.pci_address.empty()) {
      const std::string pci = "/sys/bus/pci/devices/" + device.pci_address;
      device.numa_node = static_cast<int>(root_.read_number(pci + "/numa_node").value_or(-1));
    }
  }

  // The directory of the controller. `device` links to it, or for a multipath namespace to the subsystem, in which the
  // controllers are links beside the namespace.
  std::string read_nvme(const std::string& directory, BlockDevice& device) const {
    const std::string owner = directory + "/device";
    if (root_.exists(owner + "/transport")) {
      device.transport = nvme_transport_by_name(root_.read_line(owner + "/transport"));
      return owner;
    }
    device.transport = NvmeTransport::unknown;
    std::string first;
    for (const std::string& name : root_.list(owner)) {
      if (!is_numbered(name, "nvme")) continue;
      const NvmeTransport transport = nvme_transport_by_name(root_.read_line(owner + "/" + name + "/transport"));
      device.transport = first.empty() ? transport : std::max(device.transport, transport);
      if (first.empty()) first = owner + "/" + name;
    }
    device.is_multipath = !first.empty();
    return first.empty() ? directory : first;
  }

  // The UUID begins with its maker: "LVM-...", "CRYPT-LUKS2-...", "mpath-...", and "part1-..." before another one.
  void read_dm(const std::string& directory, BlockDevice& device) const {
    const std::string uuid = root_.read_line(directory + "/dm/uuid");
    std::string_view rest = uuid;
    std::string_view maker = take_until(rest, '-');
    if (maker.starts_with("part") && !rest.empty()) maker = take_until(rest, '-');
    device.dm_type = std::string(maker);
    device.dm_name = root_.read_line(directory + "/dm/name");
  }

  // The disk's folder is inside the folders of its link:
  // "/sys/devices/platform/host2/session1/target2:0:0/.../block/sda".
  void read_scsi(const std::string& directory, BlockDevice& device) const {
    for (std::size_t at = 0; at < directory.size() && device.scsi_link.empty();) {
      const std::size_t end = std::min(directory.find('/', at + 1), directory.size());
      const std::string_view folder = std::string_view(directory).substr(at + 1, end - at - 1);
      for (const ScsiLink& one : kScsiLinks) {
        const bool is_it = one.folder.ends_with('-') ? folder.starts_with(one.folder) : is_numbered(folder, one.folder);
        if (is_it) device.scsi_link = std::string(one.link);
      }
      if (device.is_iscsi()) read_iscsi(directory.substr(0, end), device);
      at = end;
    }
  }

  // Finds the driver in the folder of the session's host, next to that of the session.
  void read_iscsi(const std::string& session, BlockDevice& device) const {
    const std::string host = session.substr(0, session.rfind('/'));
    const std::string number(last_component(host)), name(last_component(session));
    device.iscsi_driver = root_.read_line(host + "/scsi_host/" + number + "/proc_name");
    device.iscsi_target = root_.read_line(session + "/iscsi_session/" + name + "/targetname");
  }

  void read_slaves(const std::string& directory, BlockDevice& device, unsigned depth) {
    for (const std::string& name : root_.list(directory + "/slaves")) {
      const auto number = parse_device_number(root_.read_line(directory + "/slaves/" + name + "/dev"));
      if (number) add_slave(*number, device, depth);
    }
    for (const BlockDevice& part : device.slaves) {
      if (device.dm_target.empty()) device.dm_target = std::string(target_above(part.dm_name));
    }
    if (device.backing_file.empty()) return;
    const Mount* below = mounts_.find(device.backing_file);
    const auto number = below == nullptr ? std::nullopt : mount_device(root_, mounts_, *below);
    if (number) add_slave(*number, device, depth);
  }

  void add_slave(DeviceNumber number, BlockDevice& device, unsigned depth) {
    if (number == device.number) return;
    if (auto slave = read(number, depth + 1)) device.slaves.push_back(std::move(*slave));
  }

  const Root& root_;
  const MountTable& mounts_;
  unsigned devices_ = 0;
};

}  // namespace

const char* block_kind_name(BlockKind kind) {
  switch (kind) {
    case BlockKind::unknown: return "unknown";
    case BlockKind::nvme: return "nvme";
    case BlockKind::virtio: return "virtio";
    case BlockKind::scsi: return "scsi";
    case BlockKind::mmc: return "mmc";
    case BlockKind::dm: return "dm";
    case BlockKind::md: return "md";
    case BlockKind::loop: return "loop";
    case BlockKind::zram: return "zram";
    case BlockKind::ram: return "ram";
    case BlockKind::nbd: return "nbd";
    case BlockKind::rbd: return "rbd";
    case BlockKind::xen: return "xen";
    case BlockKind::pmem: return "pmem";
    case BlockKind::null_block: return "null_block";
  }
  return "unknown";
}

const char* nvme_transport_name(NvmeTransport transport) {
  switch (transport) {
    case NvmeTransport::none: return "";
    case NvmeTransport::pcie: return "pcie";
    case NvmeTransport::rdma: return "rdma";
    case NvmeTransport::tcp: return "tcp";
    case NvmeTransport::fc: return "fc";
    case NvmeTransport::loop: return "loop";
    case NvmeTransport::unknown: return "unknown";
  }
  return "unknown";
}

NvmeTransport nvme_transport_by_name(std::string_view name) {
  for (const NvmeTransport transport :
       {NvmeTransport::pcie, NvmeTransport::rdma, NvmeTransport::tcp, NvmeTransport::fc, NvmeTransport::loop}) {
    if (name == nvme_transport_name(transport)) return transport;
  }
  return NvmeTransport::unknown;
}

std::string BlockDevice::remote_transport() const {
  if (kind == BlockKind::rbd) return "tcp";  // The kernel's Ceph client supports no other transport.
  if (scsi_link == "fc") return scsi_link;
  if (is_iscsi()) {
    if (iscsi_driver == "iscsi_iser") return "rdma";
    if (iscsi_driver.empty()) return "unknown";
    return iscsi_driver == "iscsi_tcp" ? "tcp" : iscsi_driver;
  }
  const bool is_local =
      transport == NvmeTransport::none || transport == NvmeTransport::pcie || transport == NvmeTransport::loop;
  return is_local ? "" : nvme_transport_name(transport);
}

std::string BlockDevice::text() const {
  constexpr std::size_t kNamed = 4;
  std::string text = name;
  if (!backing_file.empty()) text += " (" + backing_file + ")";
  if (is_iscsi()) text += " (iSCSI)";
  for (std::size_t i = 0; i < std::min(slaves.size(), kNamed); ++i) text += (i == 0 ? " on " : ", ") + slaves[i].text();
  if (slaves.size() > kNamed) text += " and " + std::to_string(slaves.size() - kNamed) + " more";
  return text;
}

std::optional<BlockDevice> read_block_device(const Root& root, const MountTable& mounts, DeviceNumber number) {
  return StackReader(root, mounts).read(number, 0);
}

}  // namespace penstock::core
