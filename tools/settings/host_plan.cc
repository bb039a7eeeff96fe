// SPDX-License-Identifier: Apache-2.0

#include "tools/settings/host_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "facts/process.h"
#include "tools/common/outlook_page.h"

namespace penstock::tools {
namespace {

constexpr std::uint64_t kMebibyte = 1 << 20;
constexpr std::uint64_t kBouncePart = 8;  // The pinned memory of all GPUs takes this part.

PlannedValue compat_mode(const facts::Outlook& whole) {
  const facts::PathOutlook* const best = whole.first_usable();
  const facts::PathOutlook* const direct = whole.best_direct();
  std::string reason;
  if (best != nullptr && facts::is_direct_path(best->path)) {
    reason = fmt::format("requests that {} refuses go through host memory; false would make them fail",
                         penstock_path_name(best->path));
  } else {
    const std::string why = direct == nullptr ? "" : fmt::format(" ({})", direct->sentence());
    reason = fmt::format("no direct path is usable here{}: with false no byte of GPU memory would move", why);
  }
  return {"properties.allow_compat_mode", "true", reason};
}

// NVIDIA's library maps GPU memory into the window, and pins no more than this.
void add_pinned_memory(const facts::Machine& machine, std::vector<PlannedValue>& keys) {
  const auto smallest =
      std::ranges::min_element(machine.gpu_bars, {}, [](const facts::GpuBar& bar) { return bar.bytes; });
  if (smallest == machine.gpu_bars.end() || smallest->bytes < kMebibyte) return;
  keys.push_back({"properties.max_device_pinned_mem_size_kb", std::to_string(smallest->bytes / 2 / 4096 * 4),
                  fmt::format("half of the PCI window of the GPU at {}, which has {} MiB; NVIDIA's library goes by it, "
                              "and Penstock maps nothing there",
                              smallest->pci_address, smallest->bytes / kMebibyte)});
}

void add_bounce(std::size_t gpus, std::uint64_t memory, std::vector<PlannedValue>& variables) {
  const core::Setting bounce("penstock.bounce_mib");
  const std::uint64_t usual = static_cast<std::uint64_t>(core::Settings().number(bounce)) * kMebibyte;
  if (memory == 0 || gpus * usual <= memory / kBouncePart) return;
  const std::uint64_t each = std::max(kMebibyte, memory / kBouncePart / gpus);
  variables.push_back({bounce.row().variable, std::to_string(each / kMebibyte),
                       fmt::format("an eighth of the {} MiB of memory, for {} {}; the default is {}",
                                   memory / kMebibyte, gpus, gpus == 1 ? "GPU" : "GPUs", usual / kMebibyte)});
}

std::string commented(const std::string& indent, const char* mark, const std::string& text) {
  return fmt::format("{}{} {}\n", indent, mark, text);
}

}  // namespace

HostPlan plan_for(const facts::Examination& examined, unsigned cpus, std::uint64_t memory_bytes,
                  const std::string& file) {
  HostPlan plan;
  const unsigned threads = core::workers_for(std::max(cpus, 1u), false);
  plan.keys = {{"execution.max_io_threads", std::to_string(threads),
                fmt::format("one for each of the {} CPUs that a process may use here, up to 8", cpus)},
               {"execution.max_request_parallelism", std::to_string(std::min(threads, 8u)),
                "one request may use all of these threads"},
               compat_mode(examined.whole),
               {"properties.io_batchsize", core::Settings().text_of(core::Setting("properties.io_batchsize")),
                "entries of a batch, not bytes; 256 is the most"}};
  add_pinned_memory(examined.machine, plan.keys);
  plan.variables = {{core::kSettingsFileVariable, file, "programs that call cuFile read this file, and no others do"}};
  add_bounce(std::max<std::size_t>(examined.machine.nvidia_gpus().size(), 1), memory_bytes, plan.variables);
  for (const facts::PathOutlook& path : examined.whole.paths) {
    if (!path.is_once_set()) continue;
    plan.left_off.push_back(
        fmt::format("{} is off: {}. {}", penstock_path_name(path.path), path.sentence(), path.remedy()));
  }
  return plan;
}

std::string cufile_json_of(const HostPlan& plan) {
  std::string text = "// Written by 'penstock settings --write' for this machine. What is left out has its default.\n{";
  std::string section;
  for (const PlannedValue& one : plan.keys) {
    const std::size_t dot = one.name.rfind('.');
    const std::string own = one.name.substr(0, dot);
    if (own != section) text += fmt::format("{}\n  \"{}\": {{\n", section.empty() ? "" : "\n  },", own);
    else text += ",\n";
    section = own;
    text += commented("    ", "//", one.reason) + fmt::format("    \"{}\": {}", one.name.substr(dot + 1), one.value);
  }
  return text + "\n  }\n}\n";
}

std::string environment_of(const HostPlan& plan) {
  std::string text = "# Written by 'penstock settings --write' for this machine; for a shell: . penstock.env\n";
  for (const PlannedValue& one : plan.variables)
    text += commented("", "#", one.reason) + fmt::format("export {}='{}'\n", one.name, one.value);
  for (const std::string& path : plan.left_off) text += commented("", "#", path);
  return text;
}

}  // namespace penstock::tools
