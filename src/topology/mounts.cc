// SPDX-License-Identifier: Apache-2.0

#include "topology/mounts.h"

#include <algorithm>
#include <array>
#include <unordered_set>

namespace penstock::core {
namespace {

bool is_octal(char digit) { return digit >= '0' && digit <= '7'; }

// Decodes \ooo, as which the kernel writes blanks, newlines, '#' and backslashes.
std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) && is_octal(text[i + 2]) &&
        is_octal(text[i + 3])) {
      plain.push_back(static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0')));
      i += 3;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

// "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue": six fields, any number of
// optional ones, a lone dash, three fields. The source may be empty.
std::optional<Mount> parse_line(std::string_view line) {
  const std::size_t dash = line.find(" - ");
  if (dash == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(0, dash);
  std::string_view tail = line.substr(dash + 3);
  Mount mount;
  const auto id = parse_number<int>(take_until(rest, ' '));
  const auto parent = parse_number<int>(take_until(rest, ' '));
  const auto device = parse_device_number(take_until(rest, ' '));
  if (!id || !parent || !device) return std::nullopt;
  mount.id = *id;
  mount.parent_id = *parent;
  mount.device = *device;
  mount.root = unescape(take_until(rest, ' '));
  mount.mount_point = unescape(take_until(rest, ' '));
  mount.options = std::string(take_until(rest, ' '));
  mount.type = unescape(take_until(tail, ' '));
  mount.source = unescape(take_until(tail, ' '));
  mount.super_options = unescape(tail);
  if (!mount.mount_point.starts_with('/') || mount.type.empty()) return std::nullopt;
  return mount;
}

bool is_under(std::string_view path, std::string_view directory) {
  if (directory == "/") return path.starts_with('/');
  return path.starts_with(directory) && (path.size() == directory.size() || path[directory.size()] == '/');
}

// Returns the first mount on `parent` that a walk along `path` enters; the latest one if several are on one spot.
const Mount* entered_next(const std::vector<Mount>& mounts, const std::vector<std::size_t>& children,
                          std::string_view path) {
  const Mount* next = nullptr;
  for (const std::size_t index : children) {
    const Mount& child = mounts[index];
    if (!is_under(path, child.mount_point)) continue;
    if (next == nullptr || child.mount_point.size() <= next->mount_point.size()) next = &child;
  }
  return next;
}

std::optional<DeviceNumber> device_by_name(const Root& root, const std::string& name) {
  return parse_device_number(root.read_line("/sys/class/block/" + name + "/dev"));
}

// Resolves "/dev/nvme0n1p2", or "/dev/mapper/NAME" by device mapper's name.
std::optional<DeviceNumber> device_by_source(const Root& root, std::string_view source) {
  if (!source.starts_with("/dev/")) return std::nullopt;
  const std::string name(last_component(source));
  if (const auto device = device_by_name(root, name)) return device;
  for (const std::string& disk : root.list("/sys/class/block")) {
    if (disk.starts_with("dm-") && root.read_line("/sys/class/block/" + disk + "/dm/name") == name) {
      return device_by_name(root, disk);
    }
  }
  return std::nullopt;
}

constexpr unsigned kOverlaysMax = 4;  // The most overlays on top of each other.
constexpr std::size_t kLayersMax = 512;

// The directories of an overlay's layers, the upper one first.
std::vector<std::string> layers_of(const Mount& overlay, bool upper_only) {
  std::vector<std::string> layers;
  const std::string_view upper = overlay.super_option("upperdir");
  if (!upper.empty()) layers.emplace_back(upper);
  if (upper_only) return layers;
  for (const std::string_view lower : split(overlay.super_option("lowerdir"), ':')) {
    if (layers.size() < kLayersMax) layers.emplace_back(lower);
  }
  return layers;
}

// `path` below the mount's point, as seen from the top of its file system; "" for the top itself.
std::string path_inside(const Mount& mount, std::string_view path) {
  if (!is_under(path, mount.mount_point)) return {};
  const std::string_view rest = mount.mount_point == "/" ? path : path.substr(mount.mount_point.size());
  return (mount.root == "/" ? std::string() : mount.root) + std::string(rest == "/" ? std::string_view{} : rest);
}

Layer find_layer_below(const Root& root, const MountTable& table, const Mount& mount, const std::string& path,
                       bool is_write, unsigned depth) {
  if (mount.type != "overlay") return {&mount, path};
  if (depth == kOverlaysMax) return {};
  const std::string inside = path_inside(mount, path);
  for (const std::string& layer : layers_of(mount, is_write)) {
    if (!layer.starts_with('/')) continue;
    const std::string below = layer + (is_write ? "" : inside);
    // In a container the layers' paths are the host's: looked up here, they lead to the overlay itself.
    const Mount* found = table.find(below);
    if (found == nullptr || found == &mount) continue;
    // A captured machine has no files to look for, so the upper layer is taken.
    if (root.is_machine() && !root.exists(below)) continue;
    return find_layer_below(root, table, *found, layer + inside, is_write, depth + 1);
  }
  return {};
}

}  // namespace

std::string_view Mount::super_option(std::string_view key) const {
  std::string_view rest = super_options;
  while (!rest.empty()) {
    std::string_view value = take_until(rest, ',');
    if (value.find('=') != std::string_view::npos && take_until(value, '=') == key) return value;
  }
  return {};
}

bool Mount::has_super_option(std::string_view option) const {
  const std::vector<std::string_view> list = split(super_options, ',');
  return std::find(list.begin(), list.end(), option) != list.end();
}

bool is_pseudo_file_system(std::string_view type) {
  static constexpr std::array<std::string_view, 27> kTypes = {
      "proc",        "sysfs",           "cgroup",     "cgroup2", "devpts",    "devtmpfs", "mqueue", "debugfs",
      "tracefs",     "securityfs",      "pstore",     "bpf",     "configfs",  "efivarfs", "autofs", "rpc_pipefs",
      "binfmt_misc", "fusectl",         "selinuxfs",  "nsfs",    "hugetlbfs", "ramfs",    "nfsd",   "binder",
      "fuse.lxcfs",  "fuse.gvfsd-fuse", "fuse.portal"};
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

bool is_network_file_system(std::string_view type) {
  static constexpr std::array<std::string_view, 15> kTypes = {
      "nfs",    "nfs4", "cifs",      "smb3", "lustre",   "gpfs", "beegfs",  "beegfs_nodev",
      "wekafs", "ceph", "glusterfs", "9p",   "virtiofs", "afs",  "orangefs"};
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end() || type.starts_with("fuse.");
}

MountTable::MountTable(std::vector<Mount> mounts) : mounts_(std::move(mounts)) {
  if (mounts_.size() > kMountsMax) mounts_.resize(kMountsMax);
  std::unordered_set<int> ids;
  for (const Mount& mount : mounts_) ids.insert(mount.id);
  const auto is_orphan = [&](const Mount& mount) {
    return mount.parent_id == mount.id || !ids.contains(mount.parent_id);
  };
  // Parents outside the process's view are not listed: the parent of "/", and in a chroot or on a captured machine
  // others too. Their children count as mounted on "/".
  int top = kOutside;
  for (const Mount& mount : mounts_) {
    if (mount.mount_point == "/" && is_orphan(mount)) top = mount.id;
  }
  for (std::size_t i = 0; i < mounts_.size(); ++i) {
    const Mount& mount = mounts_[i];
    const int adopted = mount.mount_point == "/" ? kOutside : top;
    children_[is_orphan(mount) ? adopted : mount.parent_id].push_back(i);
  }
}

MountTable MountTable::parse(std::string_view mountinfo) {
  std::vector<Mount> mounts;
  while (!mountinfo.empty() && mounts.size() < kMountsMax) {
    if (auto mount = parse_line(take_until(mountinfo, '\n'))) mounts.push_back(std::move(*mount));
  }
  return MountTable(std::move(mounts));
}

// With another root, such as the host's in a container, "self" is still this process; the root's own mounts are those
// of its init.
MountTable MountTable::read(const Root& root) {
  std::optional<std::string> text;
  if (!root.is_machine()) text = root.read("/proc/1/mountinfo", kTextBytesMax);
  if (!text) text = root.read("/proc/self/mountinfo", kTextBytesMax);
  return parse(text.value_or(std::string()));
}

const Mount* MountTable::find(std::string_view path) const {
  const Mount* current = nullptr;
  for (std::size_t step = 0; step < kStepsMax; ++step) {
    const auto children = children_.find(current == nullptr ? kOutside : current->id);
    if (children == children_.end()) break;
    const Mount* next = entered_next(mounts_, children->second, path);
    if (next == nullptr || next == current) break;
    current = next;
  }
  return current;
}

const Mount* MountTable::find(DeviceNumber device) const {
  const Mount* found = nullptr;
  for (const Mount& mount : mounts_) {
    if (mount.device != device) continue;
    if (mount.root == "/") return &mount;
    if (found == nullptr) found = &mount;
  }
  return found;
}

std::optional<DeviceNumber> mount_device(const Root& root, const MountTable& table, const Mount& mount) {
  if (mount.type == "overlay") {
    const Layer layer = find_layer(root, table, mount, mount.mount_point, true);
    return layer.mount == nullptr ? std::nullopt : mount_device(root, table, *layer.mount);
  }
  if (mount.device.major != 0) return mount.device;
  if (is_network_file_system(mount.type)) return std::nullopt;
  return device_by_source(root, mount.source);
}

Layer find_layer(const Root& root, const MountTable& table, const Mount& mount, std::string_view path, bool is_write) {
  return find_layer_below(root, table, mount, std::string(path), is_write, 0);
}

std::string nfs_transport(const Root& root, const Mount& mount) {
  const std::string text = root.read("/proc/self/mountstats", MountTable::kTextBytesMax).value_or(std::string());
  std::string_view rest = text;
  bool is_here = false;
  while (!rest.empty()) {
    const std::string_view line = take_until(rest, '\n');
    if (line.starts_with("device ")) {
      const std::size_t on = line.find(" mounted on ");
      const std::size_t with = line.rfind(" with fstype ");
      is_here = on != std::string_view::npos && with != std::string_view::npos && on + 12 <= with &&
                unescape(line.substr(on + 12, with - on - 12)) == mount.mount_point;
    }
    std::string_view fact = trim(line);
    if (!is_here || !fact.starts_with("xprt:")) continue;
    fact = trim(fact.substr(5));
    return std::string(take_until(fact, ' '));
  }
  return std::string(mount.super_option("proto"));
}

}  // namespace penstock::core
