// SPDX-License-Identifier: Apache-2.0

#include "facts/machine.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>

#include "topology/denylist.h"
#include "topology/network_mount.h"
#include "topology/nvidia_fs_storage.h"

namespace penstock::facts {
namespace {

// Looks at the file that a setting names, or with "" in the usual places.
bool has_vendor_library(const core::Root& root, const std::string& named) {
  if (!named.empty()) return ::access(named.c_str(), R_OK) == 0;
  std::vector<std::string> folders = {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"};
  for (const std::string& name : root.list("/usr/local")) {
    if (!name.starts_with("cuda")) continue;
    folders.push_back("/usr/local/" + name + "/lib64");
    for (const std::string& target : root.list("/usr/local/" + name + "/targets")) {
      folders.push_back("/usr/local/" + name + "/targets/" + target + "/lib");
    }
  }
  return std::any_of(folders.begin(), folders.end(),
                     [&](const std::string& folder) { return root.exists(folder + "/libcufile.so.0"); });
}

constexpr struct {
  core::Setting setting;
  std::vector<std::string> core::Denylist::*list;
} kLists[] = {{"denylist.mounts", &core::Denylist::mounts},
              {"denylist.filesystems", &core::Denylist::file_systems},
              {"denylist.devices", &core::Denylist::devices},
              {"denylist.drivers", &core::Denylist::drivers}};

// Finds the first entry of a cuFile list that bars the file system from direct paths.
void find_denial(const core::Root& root, const core::Settings& settings, const core::FileSystem& one, Place& place) {
  for (const auto& each : kLists) {
    for (const std::string& entry : settings.texts(each.setting)) {
      core::Denylist list;
      (list.*each.list).push_back(entry);
      if (!place.denied_by.empty() || !core::denies(list, root, one.mount, one.stack)) continue;
      place.denied_by = each.setting.key();
      place.denied_as = entry;
    }
  }
}

bool has_small_blocks(const core::FileSystem& one) {
  constexpr unsigned long kBlock = 4096;
  struct statvfs facts {};
  return one.stack && ::statvfs(one.mount.mount_point.c_str(), &facts) == 0 && facts.f_bsize < kBlock;
}

Place read_place(const core::Root& root, const Machine& machine, const core::FileSystem& one) {
  Place place;
  find_denial(root, machine.process.cufile.settings, one, place);
  if (core::is_network_file_system(one.mount.type)) {
    place.transport = core::network_transport(root, one.mount);
    place.client = core::text_of(core::vast_client(root, one.mount));
  }
  place.has_small_blocks = machine.root.empty() && has_small_blocks(one);
  return place;
}

// The storage drivers with hooks for nvidia-fs, by the names under which they register.
std::vector<std::string> hooked_drivers(const core::GdsEvidence& evidence, const core::NvidiaFs& nvidia_fs) {
  const auto has_registered = [](const std::string& driver) { return driver != core::kAlwaysListed; };
  const std::vector<std::string>& listed = nvidia_fs.storage_drivers;
  if (!nvidia_fs.is_loaded || std::any_of(listed.begin(), listed.end(), has_registered)) return {};
  std::vector<std::string> drivers;
  for (const core::NvfsHook& hook : evidence.hooks) {
    const std::string driver = hook.driver == "scsi" ? "scsi_mod" : hook.driver;
    if (std::find(drivers.begin(), drivers.end(), driver) == drivers.end()) drivers.push_back(driver);
  }
  return drivers;
}

}  // namespace

std::vector<const core::PciDevice*> Machine::nvidia_gpus() const {
  std::vector<const core::PciDevice*> found;
  for (const core::PciDevice& device : pci) {
    if (device.is_nvidia_gpu()) found.push_back(&device);
  }
  return found;
}

bool Machine::has_gpu() const { return (probe && probe->cuda_devices() > 0) || !nvidia_gpus().empty(); }

const Place& Machine::place_of(const core::FileSystem& file_system) const {
  static const Place nothing_known;
  const auto at = static_cast<std::size_t>(&file_system - file_systems.data());
  return at < places.size() ? places[at] : nothing_known;
}

Machine read_machine(const core::Root& root, const std::string& directory, const Variables& more) {
  const core::KernelSymbols symbols = core::read_kernel_symbols(root);
  Machine machine{core::read_peer_machine(root, core::kernel_has_p2pdma(root, symbols)), directory};
  machine.process = read_process(root, !directory.empty(), more);
  for (const core::PciDevice* gpu : machine.nvidia_gpus()) {
    if (gpu->bar_bytes[1] != 0) machine.gpu_bars.push_back({gpu->address, gpu->bar_bytes[1]});
  }
  machine.nvidia_fs = core::read_nvidia_fs(root);
  machine.nvidia_fs_stats = core::read_nvidia_fs_stats(root);
  machine.evidence = core::read_gds_evidence(root, symbols);
  machine.hooked_drivers = hooked_drivers(machine.evidence, machine.nvidia_fs);
  machine.rdma = core::read_rdma_devices(root);
  machine.controllers = core::read_nvme_controllers(root);
  machine.io_uring_disabled = core::read_io_uring_disabled(root);
  machine.locked_memory = core::read_locked_memory_limit(root);
  machine.file_systems = core::read_file_systems(root, machine);
  if (!root.list("/run/udev/data").empty()) machine.has_udev = core::Tristate::yes;
  else if (root.exists("/etc")) machine.has_udev = core::Tristate::no;
  if (directory.empty()) machine.probe = probe_machine(machine.process, machine.rdma);
  machine.has_vendor_library = has_vendor_library(root, directory.empty() ? machine.process.vendor_library() : "");
  for (const core::FileSystem& one : machine.file_systems) machine.places.push_back(read_place(root, machine, one));
  return machine;
}

core::NvidiaFsStats nvidia_fs_counts(const core::Root& root) { return core::read_nvidia_fs_stats(root); }

}  // namespace penstock::facts
