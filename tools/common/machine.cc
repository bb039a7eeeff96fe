// SPDX-License-Identifier: Apache-2.0

#include "tools/common/machine.h"

#include <fmt/format.h>
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/common/cuda_driver.h"
#include "tools/common/failure.h"
#include "topology/denylist.h"
#include "topology/gds_evidence.h"
#include "topology/nvidia_fs_storage.h"
#include "topology/rdma_device.h"

namespace penstock::tools {
namespace {

// `named` by a setting, or "" for the usual places.
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

// The errno that a small ring ends with, or 0.
int try_io_uring() {
  io_uring_params parameters{};
  const long fd = ::syscall(SYS_io_uring_setup, 2, &parameters);
  if (fd < 0) return errno;
  ::close(static_cast<int>(fd));
  return 0;
}

// With the first GPU's memory.
std::optional<DmaBufProbe> probe_dma_buf(const Session& session, const Probe& probe) {
  const auto is_cuda = [](const DeviceInfo& device) { return std::string_view(device.kind) == "cuda"; };
  const auto gpu = std::find_if(probe.devices.begin(), probe.devices.end(), is_cuda);
  if (gpu == probe.devices.end()) return std::nullopt;
  DmaBufProbe found;
  try {
    const auto driver = CudaDriver::open(session.raw(), static_cast<unsigned>(gpu->ordinal));
    found.refusal = driver->dma_buf_refusal();
  } catch (const Failure& failure) {
    found.refusal = failure.what();
  }
  const core::Result<core::Root> root = core::Root::open("/");
  if (!root.ok()) return found;
  for (const core::RdmaDevice& device : core::read_rdma_devices(*root)) {
    if (!device.pci_address.empty()) found.rdma_adapters.push_back(device.name);
  }
  return found;
}

Probe probe_machine() {
  Probe probe;
  probe.io_uring_error = try_io_uring();
  probe.environment = environment_settings();
  // What the environment asks for must be possible; what is shown is all that there is.
  if (auto as_set = Session::open(); !as_set) probe.environment_error = as_set.error().message();
  Config config;
  config.set("device", "auto");
  auto session = Session::open(config);
  if (!session) {
    probe.device_reason = session.error().message();
    return probe;
  }
  const SessionInfo info = require(session->info(), "session");
  probe.device_kind = info.device_kinds;
  probe.device_reason = info.device_reason;
  probe.exports_gpu_memory = require(session->setting("nvidia_export"), "session") == "true";
  probe.calls_nvidia_fs = require(session->setting("nvfs"), "session") != "off";
  probe.vendor_library = require(session->setting("vendor_library"), "session");
  for (unsigned ordinal = 0; ordinal < info.device_count; ++ordinal) {
    if (auto device = session->device(ordinal)) probe.devices.push_back(*device);
  }
  probe.dma_buf = probe_dma_buf(*session, probe);
  return probe;
}

core::Denylist denylist_of(const core::Settings& settings) {
  return {.drivers = settings.texts("denylist.drivers"),
          .devices = settings.texts("denylist.devices"),
          .mounts = settings.texts("denylist.mounts"),
          .file_systems = settings.texts("denylist.filesystems")};
}

// Under the names by which they register. The kernel's symbols take a while to read.
std::vector<std::string> hooked_drivers(const core::Root& root, const core::NvidiaFs& nvidia_fs) {
  const auto has_registered = [](const std::string& driver) { return driver != core::kAlwaysListed; };
  const std::vector<std::string>& listed = nvidia_fs.storage_drivers;
  if (!nvidia_fs.is_loaded || std::any_of(listed.begin(), listed.end(), has_registered)) return {};
  std::vector<std::string> drivers;
  for (const core::NvfsHook& hook : core::read_gds_evidence(root).hooks) {
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

core::Root open_machine_root(const std::string& directory) {
  auto root = core::Root::open(directory);
  if (!root.ok()) {
    throw Failure(fmt::format("cannot open the root '{}' ({}); name a directory that holds a captured machine",
                              printable(directory), std::strerror(root.status().code)),
                  kUsage);
  }
  if (!root->exists("/proc") && !root->exists("/sys")) {
    throw Failure(fmt::format("'{}' holds neither proc nor sys; name a directory that holds a captured machine",
                              printable(directory)),
                  kUsage);
  }
  return std::move(*root);
}

Machine read_machine(const core::Root& root, const std::string& directory) {
  Machine machine{core::read_peer_machine(root), directory};
  for (const core::PciDevice* gpu : machine.nvidia_gpus()) {
    if (gpu->bar_bytes[1] != 0) machine.gpu_bars.push_back({gpu->address, gpu->bar_bytes[1]});
  }
  machine.nvidia_fs = core::read_nvidia_fs(root);
  machine.hooked_drivers = hooked_drivers(root, machine.nvidia_fs);
  machine.io_uring_disabled = core::read_io_uring_disabled(root);
  machine.locked_memory = core::read_locked_memory_limit(root);
  machine.file_systems = core::read_file_systems(root, machine);
  if (!root.list("/run/udev/data").empty()) machine.has_udev = core::Tristate::yes;
  else if (root.exists("/etc")) machine.has_udev = core::Tristate::no;
  if (directory.empty()) {
    machine.cufile = core::load_process_settings();
    machine.probe = probe_machine();
  } else if (const auto text = root.read(core::kDefaultSettingsFile, core::kSettingsFileBytesMax)) {
    machine.cufile = core::parse_settings(*text, core::kDefaultSettingsFile, false);
  }
  machine.has_vendor_library = has_vendor_library(root, machine.probe ? machine.probe->vendor_library : "");
  const core::Denylist denylist = denylist_of(machine.cufile.settings);
  for (const core::FileSystem& one : machine.file_systems) {
    machine.is_denied.push_back(core::denies(denylist, root, one.mount, one.stack));
  }
  return machine;
}

}  // namespace penstock::tools
