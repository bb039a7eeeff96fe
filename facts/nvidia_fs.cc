// SPDX-License-Identifier: Apache-2.0

// Judges the module nvidia-fs together with NVIDIA's driver, the kernel and the storage drivers.
#include <fmt/format.h>

#include <optional>
#include <string>

#include "facts/examination.h"
#include "facts/judgement.h"
#include "facts/matrix.h"

namespace penstock::facts {
namespace {

using core::text_of;
using core::Tristate;

void judge_version(const Machine& machine, Findings& rows) {
  Judgement row(rows, "nvidia_fs");
  if (!machine.nvidia_fs.is_loaded) return row.not_applicable("nvidia-fs is not loaded");
  const auto found = nvidia_fs_of(machine);
  if (!found) return row.unknown("nvidia-fs is loaded, but its version is unknown");
  if (const core::NvidiaFsFault* const fault = core::fault_of_nvidia_fs(*found)) {
    row.by(fault->source);
    row.closes(kByNvidiaFs);
    // The version of nvidia-fs that belongs to the driver may be free of the fault.
    const auto driver = driver_of(machine);
    const auto pairing = driver ? oldest_pairing(*driver) : std::nullopt;
    const std::string fixed = text_of(fault->fixed);
    if (pairing && !core::is_before(pairing->nvidia_fs, fault->fixed)) row.may_follow("nvidia_fs_driver");
    return row.fail(fmt::format("nvidia-fs {} has a fault: {}", text_of(*found), fault->what),
                    fmt::format("Install nvidia-fs {} or later.", fixed));
  }
  row.pass("nvidia-fs " + text_of(*found));
}

void judge_driver(const Machine& machine, Findings& rows) {
  const auto found = nvidia_fs_of(machine);
  const auto driver = driver_of(machine);
  if (!found || !driver) return;
  Judgement row(rows, "nvidia_fs_driver");
  const auto pairing = oldest_pairing(*driver);
  const std::string& driver_text = machine.nvidia.version_text;
  if (!pairing) return row.unknown(fmt::format("no release is known that pairs nvidia-fs with driver {}", driver_text));
  row.by(pairing->source);
  row.doubts(kByNvidiaFs);
  const std::string least = text_of(pairing->nvidia_fs);
  if (core::is_before(*found, pairing->nvidia_fs)) {
    return row.fail(fmt::format("nvidia-fs {} is too old for driver {}: NVIDIA has released none before {} with it",
                                text_of(*found), driver_text, least),
                    fmt::format("Install nvidia-fs {} or later (package nvidia-fs-dkms or nvidia-gds).", least));
  }
  row.pass(fmt::format("nvidia-fs {} goes with driver {}", text_of(*found), driver_text));
}

void judge_kernel(const Machine& machine, Findings& rows) {
  const auto found = nvidia_fs_of(machine);
  const NvidiaFsForKernel* const first = nvidia_fs_for_kernel(machine.platform.kernel);
  if (!found || first == nullptr) return;
  Judgement row(rows, "nvidia_fs_kernel");
  row.by(first->source);
  if (!core::is_before(*found, first->nvidia_fs)) {
    return row.pass(fmt::format("nvidia-fs {} was made for Linux {}", text_of(*found), text_of(first->kernel)));
  }
  row.unknown(fmt::format("nvidia-fs {} is older than {}, the first made for Linux {}; somebody patched it, or it",
                          text_of(*found), text_of(first->nvidia_fs), text_of(first->kernel)) +
                  " would not be loaded",
              fmt::format("Install nvidia-fs {} or later.", text_of(first->nvidia_fs)));
}

// Judges whether this kernel crashes while nvidia-fs moves bytes, for every program that uses the module.
void judge_task_switch(const Machine& machine, Findings& rows) {
  const auto found = nvidia_fs_of(machine);
  const std::string& release = machine.platform.kernel_release;
  if (!found || release.empty()) return;
  Judgement row(rows, "nvidia_fs_task_switch");
  row.by(core::kTaskSwitchSource);
  row.closes(kByNvidiaFs);
  const std::string beside = fmt::format("nvidia-fs {} beside Linux {}", text_of(*found), release);
  const Tristate has_change = core::has_task_switch_change(release);
  if (has_change == Tristate::no) return row.pass(beside + ", in which no task switch crashes the machine");
  const std::string change = fmt::format("the change \"{}\"", core::kTaskSwitchChange);
  const std::string_view remedy =
      "Boot a kernel without that change (Linux before 6.9, 6.12 before 6.12.95, 6.18 before "
      "6.18.38), or use an nvidia-fs that NVIDIA says goes with it.";
  if (core::is_before(core::kNewestKnownNvidiaFs, *found)) {
    return row.unknown(fmt::format(
        "{}: up to version {} a task switch during a request crashes a machine whose kernel has {}; nothing "
        "is known of later versions",
        beside, text_of(core::kNewestKnownNvidiaFs), change));
  }
  if (core::stops_machine(*found, release) == Tristate::yes) {
    return row.fail(fmt::format("{}: the kernel has {}, with which a task switch during a request crashes the machine",
                                beside, change),
                    std::string(remedy));
  }
  row.unknown(fmt::format("{}: it is unknown whether the kernel has {}, with which a task switch during a request "
                          "crashes the machine",
                          beside, change),
              std::string(remedy));
}

}  // namespace

std::optional<core::NvidiaFsVersion> nvidia_fs_of(const Machine& machine) {
  if (!machine.nvidia_fs.is_loaded) return std::nullopt;
  const core::KernelModule* const module = machine.evidence.module("nvidia_fs");
  const bool has_module = module != nullptr && !module->version.empty();
  return core::parse_nvidia_fs_version(has_module ? module->version : machine.nvidia_fs.version);
}

void judge_nvidia_fs(const Machine& machine, Findings& rows) {
  judge_version(machine, rows);
  judge_driver(machine, rows);
  judge_kernel(machine, rows);
  judge_task_switch(machine, rows);
}

}  // namespace penstock::facts
