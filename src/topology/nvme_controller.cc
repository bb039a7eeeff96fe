// SPDX-License-Identifier: Apache-2.0

#include "topology/nvme_controller.h"

namespace penstock::core {
namespace {

constexpr std::size_t kControllersMax = 1024;

}  // namespace

std::vector<NvmeController> read_nvme_controllers(const Root& root) {
  std::vector<NvmeController> controllers;
  for (const std::string& name : root.list("/sys/class/nvme")) {
    if (controllers.size() == kControllersMax) break;
    const std::string folder = "/sys/class/nvme/" + name;
    NvmeController one;
    one.name = name;
    one.transport = nvme_transport_by_name(root.read_line(folder + "/transport"));
    one.state = root.read_line(folder + "/state");
    one.subsystem = root.read_line(folder + "/subsysnqn");
    if (one.is_remote()) one.address = root.read_line(folder + "/address");
    controllers.push_back(std::move(one));
  }
  return controllers;
}

}  // namespace penstock::core
