// SPDX-License-Identifier: Apache-2.0

#include "topology/file_system.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "topology/direct_file.h"

namespace penstock::core {
namespace {

Ability ability(Tristate has, const Finding& finding) {
  return {has, finding.code(), obstacle_text(finding.obstacle).sentence};
}

Ability direct_io_of(const FileSystem& file_system) {
  for (const Finding& one : file_system.findings) {
    const bool is_none = one.obstacle == Obstacle::memory || one.obstacle == Obstacle::data_journal ||
                         one.obstacle == Obstacle::no_direct_io;
    if (is_none) return ability(Tristate::no, one);
    if (one.obstacle == Obstacle::overlay) return ability(Tristate::unknown, one);
  }
  static constexpr std::array<std::string_view, 20> kTypes = {
      "ext2", "ext3", "ext4", "xfs",  "btrfs",  "f2fs", "bcachefs", "vfat",   "exfat", "ntfs3",
      "jfs",  "nfs",  "nfs4", "cifs", "lustre", "gpfs", "beegfs",   "wekafs", "ceph",  "smb3"};
  if (std::find(kTypes.begin(), kTypes.end(), file_system.mount.type) != kTypes.end()) return {Tristate::yes, "", ""};
  return {Tristate::unknown, "file_system", "depends on the file system's version and settings"};
}

// An obstacle to reads means no; one that only stops writes means unknown.
Ability device_pages_of(const Findings& findings, const Findings& write_findings) {
  if (const Finding* stop = first_stop(findings)) return ability(Tristate::no, *stop);
  if (!findings.empty()) return ability(Tristate::unknown, findings.front());
  if (!write_findings.empty()) return ability(Tristate::unknown, write_findings.front());
  return {Tristate::yes, "", ""};
}

bool is_for_data(const Mount& mount) {
  return !is_pseudo_file_system(mount.type) && !mount.mount_point.starts_with("/sys/") &&
         !mount.mount_point.starts_with("/proc/");
}

// A file system's mounts: the best one in `mount`, the number of others.
struct Choice {
  const Mount* mount;
  unsigned more = 0;
};

std::vector<Choice> choose_mounts(const MountTable& table) {
  const auto rank = [](const Mount& mount) { return std::pair(mount.root != "/", mount.mount_point.size()); };
  std::vector<Choice> choices;
  for (const Mount& mount : table.mounts()) {
    if (!is_for_data(mount) || !table.is_visible(mount)) continue;
    const auto same = std::find_if(choices.begin(), choices.end(), [&](const Choice& choice) {
      return choice.mount->device == mount.device && choice.mount->type == mount.type;
    });
    if (same == choices.end()) {
      choices.push_back({&mount});
      continue;
    }
    if (rank(mount) < rank(*same->mount)) same->mount = &mount;
    ++same->more;
  }
  return choices;
}

void judge(const Root& root, const PeerMachine& machine, FileSystem& file_system) {
  Findings& findings = file_system.findings;
  findings = mount_findings(root, machine.mounts, file_system.mount, Op::read);
  file_system.write_findings = mount_findings(root, machine.mounts, file_system.mount, Op::write);
  std::erase_if(file_system.write_findings,
                [&](const Finding& one) { return std::find(findings.begin(), findings.end(), one) != findings.end(); });
  if (file_system.stack) {
    append(findings, storage_findings(machine, *file_system.stack));
  } else if (first_stop(findings) == nullptr) {
    findings.push_back({Obstacle::stack_unseen, Certainty::possible, file_system.mount.mount_point});
  }
  file_system.device_pages = device_pages_of(findings, file_system.write_findings);
  file_system.direct_io = direct_io_of(file_system);
}

}  // namespace

std::vector<FileSystem> read_file_systems(const Root& root, const PeerMachine& machine) {
  const MountTable& table = machine.mounts;
  std::vector<FileSystem> file_systems;
  for (const Choice& choice : choose_mounts(table)) {
    FileSystem file_system;
    file_system.mount = *choice.mount;
    file_system.more_mounts = choice.more;
    if (const auto number = mount_device(root, table, file_system.mount)) {
      file_system.stack = read_block_device(root, table, *number);
    }
    judge(root, machine, file_system);
    file_systems.push_back(std::move(file_system));
  }
  return file_systems;
}

}  // namespace penstock::core
