// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "tools/check/dma_buf.h"
#include "tools/check/placement.h"
#include "tools/check/report.h"
#include "tools/common/environment.h"
#include "tools/common/page.h"
#include "tools/common/peer_pairs.h"

namespace penstock::tools {
namespace {

using core::BlockDevice;
using core::PciDevice;
using core::Tristate;

constexpr std::size_t kFileSystemRowsMax = 40;  // For people; JSON has them all.

std::string stack_text(const BlockDevice& device) {
  std::string text = device.name;
  std::string facts = core::block_kind_name(device.kind);
  const auto add = [&](const std::string& fact) {
    if (!fact.empty()) facts += " " + fact;
  };
  add(core::nvme_transport_name(device.transport));
  add(device.is_multipath ? "multipath" : "");
  add(device.scsi_link);
  add(device.iscsi_driver);
  add(device.dm_type);
  add(device.dm_target);
  add(device.md_level);
  add(device.pci_address);
  text += " (" + facts + ")";
  for (std::size_t i = 0; i < device.slaves.size(); ++i) {
    text += (i == 0 ? " > " : ", ") + stack_text(device.slaves[i]);
  }
  return text;
}

void print_platform(Page& page, const Machine& machine) {
  const core::Platform& platform = machine.platform;
  const auto known = [](const std::string& text) { return text.empty() ? std::string("unknown") : text; };
  page.section("Platform");
  page.row("system", known(platform.distribution) + ", " + known(platform.architecture));
  page.row("processor", fmt::format("{}, {} CPU{}", known(platform.cpu_model), platform.cpu_count,
                                    platform.cpu_count == 1 ? "" : "s"));
  page.row("memory",
           fmt::format("{}, pages of {}", bytes_text(platform.memory_bytes), bytes_text(platform.page_bytes)));
  std::string place = platform.is_virtual_machine ? "a virtual machine" : "no virtual machine";
  if (platform.is_virtual_machine && !platform.virtual_machine.empty()) place += " (" + platform.virtual_machine + ")";
  if (platform.is_wsl) place += ", Windows Subsystem for Linux";
  place += platform.container.empty()
               ? ", no container"
               : fmt::format(", a container ({}, by {})", platform.container, platform.container_evidence);
  page.row("runs in", place);

  page.section("Kernel");
  page.row("release", known(platform.kernel_release));
  page.row("PCI P2PDMA", core::tristate_name(machine.p2pdma));
}

void print_gpus(Page& page, const Machine& machine) {
  page.section("GPUs and driver");
  bool has_any = false;
  for (const PciDevice& gpu : machine.pci) {
    if (!gpu.is_gpu()) continue;
    has_any = true;
    page.row("GPU", fmt::format("{}, {} {:04x}:{:04x}, driver {}, PCIe {} GT/s x{}, NUMA node {}", gpu.address,
                                gpu.is_nvidia_gpu() ? "NVIDIA" : "AMD", gpu.vendor, gpu.device,
                                gpu.driver.empty() ? "none" : gpu.driver, gpu.current_link.gigatransfers_per_second,
                                gpu.current_link.width, gpu.numa_node));
  }
  if (!has_any) page.row("GPU", "none on the PCI bus");
  const core::NvidiaDriver& driver = machine.nvidia;
  std::string text = "not loaded";
  if (driver.is_loaded) {
    text = (driver.version_text.empty() ? "of unknown version" : driver.version_text) +
           std::string(driver.is_open ? ", open kernel modules" : "");
    if (!driver.registry_dwords.empty()) text += ", " + driver.registry_dwords;
  }
  page.row("NVIDIA driver", text);
  page.row("nvidia-fs", machine.nvidia_fs.is_loaded ? machine.nvidia_fs.version : "not loaded");
  if (!machine.probe) return;
  page.row("CUDA", machine.probe->cuda_devices() > 0 ? "works" : "not usable: " + machine.probe->device_reason);
  for (const DeviceInfo& device : machine.probe->devices) {
    page.row(fmt::format("device {}", device.ordinal),
             device.stand_in != 0
                 ? std::string("host memory standing in for a GPU")
                 : fmt::format("{}, {}, {}", device.name, device.pci_address, bytes_text(device.memory_bytes)));
  }
}

void print_file_systems(Page& page, const Machine& machine) {
  page.section("File systems");
  constexpr const char* kRow = "  {:<26} {:<8} {:<11} {:<13} ";
  page.wrap(fmt::format(kRow, "mounted on", "type", "direct I/O", "device pages"), "block device");
  std::size_t rows = 0;
  for (const core::FileSystem& one : machine.file_systems) {
    if (++rows > kFileSystemRowsMax) {
      page.wrap("  ", fmt::format("and {} more; --json lists them", machine.file_systems.size() - kFileSystemRowsMax));
      break;
    }
    std::string place = one.stack ? stack_text(*one.stack) : std::string(one.device_pages.because);
    if (one.more_mounts > 0)
      place += fmt::format(", {} more mount{}", one.more_mounts, one.more_mounts == 1 ? "" : "s");
    page.wrap(fmt::format(kRow, cut(one.mount.mount_point, 26), cut(one.mount.type, 8),
                          core::tristate_name(one.direct_io.has), core::tristate_name(one.device_pages.has)),
              place);
  }
  if (rows == 0) page.wrap("  ", "none can be seen");
}

void print_limits(Page& page, const Machine& machine) {
  page.section("IOMMU, io_uring, locked memory");
  std::string iommu = core::iommu_mode_name(machine.iommu.mode);
  for (const std::string& word : machine.iommu.command_line_words) iommu += ", " + word;
  page.row("IOMMU", iommu);
  page.row("io_uring", need_io_uring(machine).text);
  page.row("locked memory", machine.locked_memory ? bytes_text(machine.locked_memory->soft_bytes) + " (hard limit " +
                                                        bytes_text(machine.locked_memory->hard_bytes) + ")"
                                                  : "unknown");
}

void print_path(Page& page, const PathReport& report) {
  std::string headline = !report.usable     ? "not usable"
                         : report.is_proven ? "may be tried: its self-test decides"
                                            : "usable";
  if (report.reason != PENSTOCK_REASON_NONE) {
    headline += fmt::format(" ({}): {}", penstock_reason_name(report.reason), penstock_reason_sentence(report.reason));
  }
  page.wrap(fmt::format("  {:<10} ", penstock_path_name(report.path)), headline);
  page.paint(!report.usable     ? Color::red
             : report.is_proven ? Color::yellow
                                : Color::green,
             !report.usable     ? "not usable"
             : report.is_proven ? "may be tried"
                                : "usable");
  for (const Need& need : report.needs) {
    page.wrap(fmt::format("    {:<8} {:<18} ", state_name(need.met), need.code), need.text);
    page.paint(need.met == Tristate::yes  ? Color::green
               : need.met == Tristate::no ? Color::red
                                          : Color::yellow,
               state_name(need.met));
    if (need.met != Tristate::yes && !need.remedy.empty()) page.wrap("             -> ", need.remedy);
    // Nothing else helps where there is no GPU; --json has the rest.
    if (need.met == Tristate::no && std::string_view(need.code) == "gpu") break;
  }
}

void print_environment(Page& page, const Probe& probe) {
  const EnvironmentSettings& settings = probe.environment;
  if (settings.known.empty() && settings.unknown.empty() && probe.environment_error.empty()) return;
  page.section("Settings of the environment");
  for (const auto& [name, value] : settings.known) page.row(name + " ", value);
  for (const auto& [name, value] : settings.unknown) {
    const std::string nearest = nearest_setting(name);
    page.wrap("  ", fmt::format("{} is not a setting of Penstock, and has no effect{}", name,
                                nearest.empty() ? "" : "; did you mean " + nearest + "?"));
  }
  if (!probe.environment_error.empty()) page.wrap("  ", "a session cannot open with these: " + probe.environment_error);
}

void print_cufile(Page& page, const core::LoadedSettings& cufile) {
  if (cufile.file.empty() && cufile.notes.empty()) return;
  page.section("cuFile's configuration");
  if (!cufile.file.empty()) page.row("file", cufile.file);
  for (const core::Note& note : cufile.notes) page.wrap("  ", core::describe(note));
  if (cufile.must_refuse) page.wrap("  ", "cuFile's driver does not open with these errors: correct them");
}

// What those get who change nothing, and what they might change first.
void print_verdict(Page& page, const Machine& machine, const std::vector<PathReport>& paths,
                   const Requirement& required) {
  page.section("Verdict");
  const auto moves = [](const PathReport& report) { return report.usable && report.path != PENSTOCK_PATH_HOST; };
  const auto best = std::find_if(paths.begin(), paths.end(), moves);
  if (best == paths.end()) page.wrap("  ", "no path can move bytes between files and device memory");
  else
    page.wrap("  ", fmt::format("files reach device memory by {}{}", penstock_path_name(best->path),
                                best->is_proven ? ", if its self-test passes" : ""));
  if (best != paths.end()) page.paint(Color::bold, penstock_path_name(best->path));
  if (!has_gpu(machine)) page.wrap("  ", "there is no NVIDIA GPU: host memory stands in for one");
  std::set<std::string> told;
  for (auto report = paths.begin(); report != best; ++report) {
    const auto lacks = [](const Need& need) { return need.met == Tristate::no && !need.remedy.empty(); };
    const auto need = std::find_if(report->needs.begin(), report->needs.end(), lacks);
    if (need == report->needs.end() || !told.insert(need->remedy).second) continue;
    page.wrap(fmt::format("  for {}: ", penstock_path_name(report->path)), need->remedy);
  }
  if (required.what.empty()) return;
  page.wrap("  ", fmt::format("required: {}: {}", required.what, required.is_met ? "met" : "not met"));
  page.paint(required.is_met ? Color::green : Color::red, required.is_met ? "met" : "not met");
}

}  // namespace

bool has_gpu(const Machine& machine) {
  return machine.probe ? machine.probe->cuda_devices() > 0 : !machine.nvidia_gpus().empty();
}

Text check_text(const Machine& machine, const std::vector<PathReport>& paths, const Requirement& required) {
  Page page;
  page.wrap("", fmt::format("Penstock {}: {}", penstock_version(),
                            machine.root.empty() ? "this machine" : "the captured machine in " + machine.root));
  print_platform(page, machine);
  print_gpus(page, machine);
  print_placement(page, machine);
  print_file_systems(page, machine);
  const std::vector<PeerPair> pairs = peer_pairs(machine);
  print_pairs(page, machine, pairs);
  print_limits(page, machine);
  print_dma_buf(page, machine);
  if (machine.probe) print_environment(page, *machine.probe);
  print_cufile(page, machine.cufile);
  page.section("Paths, best first");
  for (const PathReport& report : paths) print_path(page, report);
  print_verdict(page, machine, paths, required);
  return page.shown();
}

}  // namespace penstock::tools
