// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "facts/environment.h"
#include "facts/near_adapters.h"
#include "facts/needs.h"
#include "tools/check/bus_tree.h"
#include "tools/check/dma_buf.h"
#include "tools/check/findings_page.h"
#include "tools/check/first_steps.h"
#include "tools/check/report.h"
#include "tools/check/summary.h"
#include "tools/common/nvidia_fs_page.h"
#include "tools/common/outlook_page.h"
#include "tools/common/page.h"
#include "tools/common/pairs_page.h"

namespace penstock::tools {
namespace {

using core::BlockDevice;
using core::PciDevice;

constexpr std::size_t kRowsMax = 40;  // For people; JSON has them all.

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

void print_platform(Page& page, const facts::Machine& machine) {
  const core::Platform& platform = machine.platform;
  const auto known = [](const std::string& text) { return text.empty() ? std::string("unknown") : text; };
  page.section("Platform");
  page.row("system", known(platform.distribution) + ", " + known(platform.architecture));
  page.row("processor", fmt::format("{}, {} CPU{}", known(platform.cpu_model), platform.cpu_count,
                                    platform.cpu_count == 1 ? "" : "s"));
  page.row("memory", fmt::format("{}, pages of {}", facts::bytes_text(platform.memory_bytes),
                                 facts::bytes_text(platform.page_bytes)));
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

// Without a GPU, what the driver lacks is no matter, and its remedy would repair nothing.
std::string cuda_text(const facts::Machine& machine) {
  if (machine.probe->cuda_devices() > 0) return "works";
  return "not usable: " + (machine.has_gpu() ? machine.probe->device_reason : "there is no NVIDIA GPU");
}

void print_gpus(Page& page, const facts::Machine& machine) {
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
  page.row("CUDA", cuda_text(machine));
  for (const DeviceInfo& device : machine.probe->devices) {
    page.row(fmt::format("device {}", device.ordinal),
             device.stand_in != 0
                 ? std::string("host memory standing in for a GPU")
                 : fmt::format("{}, {}, {}", device.name, device.pci_address, facts::bytes_text(device.memory_bytes)));
  }
}

void print_nvidia_fs(Page& page, const core::NvidiaFsStats& stats) {
  if (stats.is_empty()) return;
  page.section(kNvidiaFsTitle);
  for (const std::string& line : nvidia_fs_lines(stats)) page.wrap("  ", line);
}

void print_file_systems(Page& page, const facts::Machine& machine) {
  page.section("File systems");
  constexpr const char* kRow = "  {:<26} {:<8} {:<11} {:<13} ";
  page.wrap(fmt::format(kRow, "mounted on", "type", "direct I/O", "device pages"), "block device");
  std::size_t rows = 0;
  for (const core::FileSystem& one : machine.file_systems) {
    if (++rows > kRowsMax) {
      page.wrap("  ", fmt::format("and {} more; --json lists them", machine.file_systems.size() - kRowsMax));
      break;
    }
    std::string place = one.stack ? stack_text(*one.stack) : std::string(one.device_pages.because);
    if (one.more_mounts > 0)
      place += fmt::format(", {} more mount{}", one.more_mounts, one.more_mounts == 1 ? "" : "s");
    page.wrap(fmt::format(kRow, cell(one.mount.mount_point, 26), cell(one.mount.type, 8),
                          core::tristate_name(one.direct_io.has), core::tristate_name(one.device_pages.has)),
              place);
  }
  if (rows == 0) page.wrap("  ", "none can be seen");
}

void print_adapters(Page& page, const facts::Machine& machine) {
  const std::vector<facts::NearAdapters> all = facts::nearest_adapters(machine);
  if (all.empty()) return;
  page.section("RDMA devices nearest to each GPU and drive: for storage and peers over a network");
  for (std::size_t i = 0; i < std::min(all.size(), kRowsMax); ++i) {
    page.wrap(fmt::format("  {:<20}", facts::peer_text(*all[i].of)),
              fmt::format("{} ({})", fmt::join(all[i].names, ", "), core::distance_name(all[i].distance)));
  }
  if (all.size() > kRowsMax) page.wrap("  ", fmt::format("and {} more; --json lists them", all.size() - kRowsMax));
}

void print_limits(Page& page, const facts::Machine& machine) {
  page.section("IOMMU, io_uring, locked memory");
  std::string iommu = core::iommu_mode_name(machine.iommu.mode);
  for (const std::string& word : machine.iommu.command_line_words) iommu += ", " + word;
  page.row("IOMMU", iommu);
  page.row("io_uring", need_io_uring(machine).sentence);
  page.row("locked memory", machine.locked_memory
                                ? facts::bytes_text(machine.locked_memory->soft_bytes) + " (hard limit " +
                                      facts::bytes_text(machine.locked_memory->hard_bytes) + ")"
                                : "unknown");
}

void print_environment(Page& page, const facts::Process& process) {
  const facts::EnvironmentSettings& settings = process.environment;
  if (settings.known.empty() && settings.unknown.empty() && process.error.empty()) return;
  page.section("Settings of the environment");
  for (const auto& [name, value] : settings.known) page.row(name + " ", value);
  for (const auto& [name, value] : settings.unknown) {
    const std::string nearest = facts::nearest_setting(name);
    page.wrap("  ", fmt::format("{} is not a setting of Penstock, and has no effect{}", name,
                                nearest.empty() ? "" : "; did you mean " + nearest + "?"));
  }
  if (!process.error.empty()) page.wrap("  ", "a session cannot open with these: " + process.error);
}

void print_cufile(Page& page, const core::LoadedSettings& cufile) {
  if (cufile.file.empty() && cufile.notes.empty()) return;
  page.section("cuFile's configuration");
  if (!cufile.file.empty()) page.row("file", cufile.file);
  for (const core::Note& note : cufile.notes) page.wrap("  ", core::describe(note));
  if (cufile.must_refuse) page.wrap("  ", "cuFile's driver does not open with these errors: correct them");
}

// The long form tells everything that was found.
void print_rows(Page& page, const facts::Examination& examined, const facts::Findings& findings, bool has_tried,
                const std::string& verdict) {
  const facts::Machine& machine = examined.machine;
  print_platform(page, machine);
  print_gpus(page, machine);
  print_placement(page, machine.pci);
  print_adapters(page, machine);
  print_file_systems(page, machine);
  print_pairs(page, examined);
  print_limits(page, machine);
  print_dma_buf(page, machine);
  print_nvidia_fs(page, machine.nvidia_fs_stats);
  page.section("Paths, best first");
  for (const facts::PathOutlook& path : examined.whole.paths) print_path(page, path);
  std::vector<facts::Layer> layers = {facts::Layer::drivers, facts::Layer::fabric};
  if (has_tried) layers.push_back(facts::Layer::transfer);
  validate::add_layers(page, findings, layers, verdict);
}

// The short form tells what was tried, how each path stands, and where the rest is.
void print_brief(Page& page, const facts::Examination& examined, const facts::Findings& findings, bool has_tried,
                 const std::string& verdict) {
  if (has_tried) validate::add_layer(page, findings, facts::Layer::transfer);
  page.section("Paths, best first");
  const facts::PathOutlook* before = nullptr;  // A sentence about several in turn is told once.
  for (const facts::PathOutlook& path : examined.whole.paths) print_headline(page, path, std::exchange(before, &path));
  page.section(validate::result_text(findings, verdict) + "; --all shows every row");
}

// The paths of users who change nothing, and the changes that they might make first.
void add_verdict(Page& page, const facts::Examination& examined, const Requirement& required, bool all) {
  page.section("Verdict");
  (all ? print_verdict : print_way)(page, examined.whole);
  const facts::PathOutlook& bounce = examined.whole.of(PENSTOCK_PATH_BOUNCE);
  if (!bounce.is_usable()) {
    page.wrap("  ",
              fmt::format("this check fails: files that no direct path serves cannot be moved, since bounce is {}",
                          facts::standing_name(bounce.standing())));
  }
  if (!can_use_gpu(examined.machine)) page.wrap("  ", "there is no NVIDIA GPU: host memory stands in for one");
  if (required.what.empty()) return;
  page.wrap("  ", fmt::format("required: {}: {}", required.what, required.is_met ? "met" : "not met"));
  page.paint(required.is_met ? Color::green : Color::red, required.is_met ? "met" : "not met");
}

}  // namespace

bool Tries::are_right() const {
  const auto is_right = [](const OdirectTry& one) { return one.is_right; };
  return facts::exit_code_of(findings) != 1 && std::all_of(odirect.begin(), odirect.end(), is_right);
}

bool passes(const facts::Examination& examined, const Requirement& required, const Tries& tries) {
  return examined.whole.may_use(PENSTOCK_PATH_BOUNCE) && required.is_met && tries.are_right();
}

bool can_use_gpu(const facts::Machine& machine) {
  return machine.probe ? machine.probe->cuda_devices() > 0 : !machine.nvidia_gpus().empty();
}

Text check_text(const facts::Examination& examined, const Requirement& required, const Tries& tries, bool all) {
  const facts::Machine& machine = examined.machine;
  Page page;
  page.wrap("", fmt::format("Penstock {}: {}", penstock_version(),
                            machine.root.empty() ? "this machine" : "the captured machine in " + machine.root));
  facts::Findings findings = examined.findings;
  findings.insert(findings.end(), tries.findings.begin(), tries.findings.end());
  facts::settle_causes(findings);
  add_verdict(page, examined, required, all);
  const auto told = all ? std::nullopt : add_first_steps(page, examined);
  if (told) validate::add_rest(page, findings, *told);
  else validate::add_summary(page, findings);
  if (!all) validate::add_unknown(page, findings);
  print_environment(page, machine.process);
  print_cufile(page, machine.process.cufile);
  const char* const verdict =
      passes(examined, required, tries) ? "the check passes, since bytes can move" : "the check fails";
  (all ? print_rows : print_brief)(page, examined, findings, !tries.findings.empty(), verdict);
  Text text = page.shown();
  for (const OdirectTry& one : tries.odirect) {
    text += Text("\n");
    text += one.page;
  }
  return text;
}

}  // namespace penstock::tools
