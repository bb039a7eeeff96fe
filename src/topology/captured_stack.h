// SPDX-License-Identifier: Apache-2.0

// For tests: the block devices under a path of a captured machine.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "topology/block_device.h"
#include "topology/test_tree.h"

namespace penstock::core {

inline std::optional<BlockDevice> stack_under(const std::string& machine, std::string_view path) {
  const Root root = captured_machine(machine);
  const MountTable mounts = MountTable::read(root);
  const Mount* mount = mounts.find(path);
  const auto number = mount == nullptr ? std::nullopt : mount_device(root, mounts, *mount);
  return number ? read_block_device(root, mounts, *number) : std::nullopt;
}

}  // namespace penstock::core
