// SPDX-License-Identifier: Apache-2.0

#include "path/dmabuf/drive_node.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "topology/root.h"

namespace penstock::core {
namespace {

constexpr const char* kDriveStep = "open the file's drive";
constexpr std::string_view kNameKey[] = {"DEVNAME="};

std::string node_name(dev_t device) {
  const Result<Root> root = Root::open("/");
  if (!root.ok()) return {};
  const std::string number = std::to_string(gnu_dev_major(device)) + ":" + std::to_string(gnu_dev_minor(device));
  const auto lines = root->lines_with("/sys/dev/block/" + number + "/uevent", kNameKey, 4096, 1);
  return lines.empty() ? "" : "/dev/" + lines[0].substr(kNameKey[0].size());
}

}  // namespace

Result<UniqueFd> open_drive_node(dev_t device, int flags) {
  const std::string name = node_name(device);
  if (name.empty()) return os_failure(ENODEV, kDriveStep);
  UniqueFd node(::open(name.c_str(), flags | O_DIRECT | O_CLOEXEC | O_NONBLOCK));
  if (!node.valid()) return os_failure(errno, kDriveStep);
  const Result<std::uint32_t> sector = drive_sector(node.get(), device);
  if (!sector.ok()) return sector.status();
  return node;
}

Result<std::uint32_t> drive_sector(int node, dev_t device) {
  struct stat facts {};
  if (::fstat(node, &facts) != 0) return os_failure(errno, kDriveStep);
  if (!S_ISBLK(facts.st_mode) || facts.st_rdev != device) return os_failure(ENXIO, kDriveStep);
  int sector = 0;
  if (::ioctl(node, BLKSSZGET, &sector) != 0) return os_failure(errno, kDriveStep);
  return static_cast<std::uint32_t>(sector);
}

}  // namespace penstock::core
