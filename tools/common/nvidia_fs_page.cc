// SPDX-License-Identifier: Apache-2.0

#include "tools/common/nvidia_fs_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "tools/common/context.h"
#include "tools/common/machine_root.h"

namespace penstock::tools {

std::vector<std::string> nvidia_fs_lines(const core::NvidiaFsStats& stats) {
  std::vector<std::string> lines;
  const char* last = nullptr;
  for (const auto& [line, name, value, is_of_now] : stats.counters) {
    if (last == nullptr || std::string_view(last) != line) lines.push_back(std::string(line) + ":");
    lines.back() += *name == '\0' ? fmt::format(" {}", value) : fmt::format(" {} {}", name, value);
    last = line;
  }
  for (const core::NvidiaFsGpu& gpu : stats.gpus) {
    lines.push_back(fmt::format("GPU {}: {} MiB registered, {} MiB of caches, {} MiB at most", gpu.gpu,
                                gpu.registered_mib, gpu.cache_mib, gpu.max_pinned_mib));
  }
  for (const core::NvidiaFsPeer& pair : stats.peers) {
    lines.push_back(fmt::format("GPU {} and {}: {} DMA mappings", pair.gpu, pair.peer, pair.mappings));
  }
  return lines;
}

std::string nvidia_fs_text(const core::NvidiaFsStats& stats) {
  std::string text;
  for (const std::string& line : nvidia_fs_lines(stats)) text += "  " + line + "\n";
  return text.empty() ? "" : std::string(kNvidiaFsTitle) + "\n" + text;
}

Json nvidia_fs_json(const core::NvidiaFsStats& stats) {
  if (stats.is_empty()) return nullptr;
  Json json = {{"counters", Json::object()}, {"gpus", Json::array()}, {"pairs", Json::array()}};
  for (const auto& [line, name, value, is_of_now] : stats.counters) {
    if (*name == '\0') json["counters"][line] = value;
    else json["counters"][line][name] = value;
  }
  for (const core::NvidiaFsGpu& gpu : stats.gpus) {
    json["gpus"].push_back({{"pci_address", gpu.gpu},
                            {"registered_mib", gpu.registered_mib},
                            {"cache_mib", gpu.cache_mib},
                            {"max_pinned_mib", gpu.max_pinned_mib}});
  }
  for (const core::NvidiaFsPeer& pair : stats.peers) {
    json["pairs"].push_back({{"gpu", pair.gpu}, {"peer", pair.peer}, {"dma_mappings", pair.mappings}});
  }
  return json;
}

core::NvidiaFsStats this_machines_nvidia_fs() { return facts::nvidia_fs_counts(open_machine_root("")); }

core::NvidiaFsStats growth_of(const core::NvidiaFsStats& before, const core::NvidiaFsStats& after) {
  core::NvidiaFsStats growth;
  for (const auto& [line, name, value, is_of_now] : after.counters) {
    const std::uint64_t then = before.value(line, name).value_or(0);
    if (!is_of_now && value > then) growth.counters.push_back({line, name, value - then, false});
  }
  for (const core::NvidiaFsPeer& pair : after.peers) {
    const auto known = std::find_if(before.peers.begin(), before.peers.end(),
                                    [&](auto& one) { return one.gpu == pair.gpu && one.peer == pair.peer; });
    const std::uint64_t then = known == before.peers.end() ? 0 : known->mappings;
    if (pair.mappings > then) growth.peers.push_back({pair.gpu, pair.peer, pair.mappings - then});
  }
  return growth;
}

}  // namespace penstock::tools
