// SPDX-License-Identifier: Apache-2.0

// The module nvidia-fs beside NVIDIA's driver, the kernel and the storage's drivers.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "tools/validate/judgement.h"
#include "tools/validate/matrix.h"
#include "tools/validate/world.h"
#include "topology/nvidia_fs_storage.h"

namespace penstock::tools::validate {
namespace {

using core::Tristate;

Judgement judge(Rows& rows, const char* code, std::string subject = "") {
  return {rows, Layer::drivers, code, std::move(subject)};
}

std::string full_text(const Version& version) { return fmt::format("{}.{}.{}", version[0], version[1], version[2]); }
std::string text_of(const core::KernelVersion& kernel) { return fmt::format("{}.{}", kernel.major, kernel.minor); }

void judge_version(const World& world, Rows& rows) {
  Judgement row = judge(rows, "nvidia_fs");
  if (!world.machine.nvidia_fs.is_loaded) return row.not_applicable("nvidia-fs is not loaded");
  const auto found = nvidia_fs_of(world);
  if (!found) return row.unknown("nvidia-fs is loaded, and tells no version");
  if (const NvidiaFsFault* const fault = fault_of_nvidia_fs(found->number, found->has_patch)) {
    row.by(fault->source);
    // A version that goes with the driver may be without the fault.
    const auto driver = driver_of(world);
    const auto pairing = driver ? oldest_pairing(*driver) : std::nullopt;
    if (pairing && pairing->nvidia_fs >= fault->fixed) row.may_follow("nvidia_fs_driver");
    return row.fail(fmt::format("nvidia-fs {} has a fault: {}", found->text, fault->what),
                    fmt::format("Install nvidia-fs {} or later.", full_text(fault->fixed)));
  }
  row.pass("nvidia-fs " + found->text);
}

void judge_driver(const World& world, Rows& rows) {
  const auto found = nvidia_fs_of(world);
  const auto driver = driver_of(world);
  if (!found || !driver) return;
  Judgement row = judge(rows, "nvidia_fs_driver");
  const auto pairing = oldest_pairing(*driver);
  const std::string& driver_text = world.machine.nvidia.version_text;
  if (!pairing) return row.unknown(fmt::format("no release is known that pairs nvidia-fs with driver {}", driver_text));
  row.by(pairing->source);
  const std::string least = full_text(pairing->nvidia_fs);
  if (is_before(found->number, pairing->nvidia_fs, found->has_patch)) {
    return row.fail(fmt::format("nvidia-fs {} is too old for driver {}: NVIDIA has released none before {} with it",
                                found->text, driver_text, least),
                    fmt::format("Install nvidia-fs {} or later (package nvidia-fs-dkms or nvidia-gds).", least));
  }
  row.pass(fmt::format("nvidia-fs {} goes with driver {}", found->text, driver_text));
}

void judge_kernel(const World& world, Rows& rows) {
  const auto found = nvidia_fs_of(world);
  const NvidiaFsForKernel* const first = nvidia_fs_for_kernel(world.machine.platform.kernel);
  if (!found || first == nullptr) return;
  Judgement row = judge(rows, "nvidia_fs_kernel");
  row.by(first->source);
  if (!is_before(found->number, first->nvidia_fs, found->has_patch)) {
    return row.pass(fmt::format("nvidia-fs {} was made for Linux {}", found->text, text_of(first->kernel)));
  }
  row.unknown(fmt::format("nvidia-fs {} is older than {}, the first made for Linux {}; somebody patched it, or it",
                          found->text, full_text(first->nvidia_fs), text_of(first->kernel)) +
                  " would not be loaded",
              fmt::format("Install nvidia-fs {} or later.", full_text(first->nvidia_fs)));
}

// A kernel that dies with the module, whoever calls it.
void judge_task_switch(const World& world, Rows& rows) {
  const auto found = nvidia_fs_of(world);
  const std::string& release = world.machine.platform.kernel_release;
  if (!found || release.empty()) return;
  Judgement row = judge(rows, "nvidia_fs_task_switch");
  row.by(kTaskSwitchSource);
  const std::string beside = fmt::format("nvidia-fs {} beside Linux {}", found->text, release);
  const Tristate has_change = has_task_switch_change(release);
  if (has_change == Tristate::no) return row.pass(beside + ", which has no task switch that stops it");
  const std::string change = fmt::format("the change \"{}\"", kTaskSwitchChange);
  const std::string_view remedy =
      "Boot a kernel without that change (Linux before 6.9, 6.12 before 6.12.95, 6.18 before "
      "6.18.38), or use an nvidia-fs that NVIDIA says goes with it.";
  if (is_before(kTaskSwitchNvidiaFs, found->number, found->has_patch)) {
    return row.unknown(
        fmt::format("{}: up to {} a task switch in a request stops a kernel with {}; of later versions "
                    "nothing is known",
                    beside, full_text(kTaskSwitchNvidiaFs), change));
  }
  if (was_stopped_by_task_switch(release)) {
    return row.fail(
        fmt::format("{}: the kernel has {}, and a task switch in a request stops the machine", beside, change),
        std::string(remedy));
  }
  row.unknown(
      fmt::format("{}: {} {}, with which a task switch in a request stops the machine", beside,
                  has_change == Tristate::yes ? "such a kernel has" : "nothing tells whether the kernel has", change),
      std::string(remedy));
}

// "scsi_mod" has hooks of another name.
std::string hook_of(std::string_view driver) { return driver == "scsi_mod" ? "scsi" : std::string(driver); }

void judge_hooks_of(const World& world, const std::string& driver, Rows& rows) {
  Judgement row = judge(rows, "nvidia_fs_hooks", driver);
  row.by("NVIDIA/gds-nvidia-fs, nvfs-mod.c: the functions that it looks for");
  const std::vector<std::string>& registered = world.machine.nvidia_fs.storage_drivers;
  if (std::find(registered.begin(), registered.end(), driver) != registered.end()) {
    return row.pass(fmt::format("{} is registered with nvidia-fs", driver));
  }
  if (world.evidence.has_hook(hook_of(driver))) {
    return row.pass(fmt::format("{} has nvidia-fs's hooks, and registers when nvidia-fs is opened", driver));
  }
  const std::string remedy = "Use a storage driver made for it, from MLNX_OFED or Ubuntu's nvidia kernel.";
  if (world.evidence.has_symbols != Tristate::yes) {
    return row.unknown(fmt::format("the kernel does not show whether {} has nvidia-fs's hooks", driver),
                       "Look as root: grep register_nvfs /proc/kallsyms.");
  }
  row.fail_unless(
      world.may_use(PENSTOCK_PATH_P2PDMA), "p2pdma",
      fmt::format("nvidia-fs is loaded, and the driver {} has none of its hooks: no byte goes directly", driver),
      remedy);
}

// What the system itself is on need not serve GPUs.
bool is_of_the_system(const std::string& mount_point) {
  return mount_point == "/" || mount_point == "/boot" || mount_point.starts_with("/boot/");
}

void judge_hooks(const World& world, Rows& rows) {
  if (!world.machine.nvidia_fs.is_loaded) return;
  std::map<std::string, bool> has_data;  // By driver.
  for (const core::FileSystem& one : world.machine.file_systems) {
    const std::string driver(core::nvidia_fs_driver(one));
    if (driver != "nvme" && driver != "nvme_rdma" && driver != "rpcrdma") continue;
    has_data[driver] = has_data[driver] || !is_of_the_system(one.mount.mount_point);
  }
  for (const auto& [driver, is_for_data] : has_data) {
    if (is_for_data) {
      judge_hooks_of(world, driver, rows);
    } else {
      judge(rows, "nvidia_fs_hooks", driver).not_applicable("nothing but the system itself is on its drives");
    }
  }
}

}  // namespace

std::optional<NvidiaFsVersion> nvidia_fs_of(const World& world) {
  if (!world.machine.nvidia_fs.is_loaded) return std::nullopt;
  const core::KernelModule* const module = world.evidence.module("nvidia_fs");
  const bool has_module = module != nullptr && !module->version.empty();
  NvidiaFsVersion found{has_module ? module->version : world.machine.nvidia_fs.version};
  const auto number = version_of(found.text);
  if (!number) return std::nullopt;
  found.number = *number;
  found.has_patch = std::count(found.text.begin(), found.text.end(), '.') >= 2;
  return found;
}

void judge_nvidia_fs(const World& world, Rows& rows) {
  judge_version(world, rows);
  judge_driver(world, rows);
  judge_kernel(world, rows);
  judge_task_switch(world, rows);
  judge_hooks(world, rows);
}

}  // namespace penstock::tools::validate
