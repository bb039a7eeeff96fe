// SPDX-License-Identifier: Apache-2.0

#include "topology/nvidia_fs_stats.h"

#include <algorithm>
#include <iterator>

#include "topology/pci_device.h"
#include "topology/text.h"

namespace penstock::core {
namespace {

constexpr std::size_t kRowsMax = 256;  // The most GPUs, and the most pairs; the module has at most 64 GPUs.

// Rates and latencies are left out: they are samples of some second.
struct KnownCounter {
  const char* line;
  const char* name;
  bool is_of_now = false;
};
constexpr KnownCounter kKnown[] = {{"Active Shadow-Buffer (MiB)", "", true},
                                   {"Active Process", "", true},
                                   {"Reads", "n"},
                                   {"Reads", "ok"},
                                   {"Reads", "err"},
                                   {"Reads", "readMiB"},
                                   {"Reads", "io_state_err"},
                                   {"Sparse Reads", "n"},
                                   {"Sparse Reads", "io"},
                                   {"Sparse Reads", "holes"},
                                   {"Sparse Reads", "pages"},
                                   {"Writes", "n"},
                                   {"Writes", "ok"},
                                   {"Writes", "err"},
                                   {"Writes", "writeMiB"},
                                   {"Writes", "io_state_err"},
                                   {"Writes", "pg-cache"},
                                   {"Writes", "pg-cache-fail"},
                                   {"Writes", "pg-cache-eio"},
                                   {"Mmap", "n"},
                                   {"Mmap", "ok"},
                                   {"Mmap", "err"},
                                   {"Mmap", "munmap"},
                                   {"Bar1-map", "n"},
                                   {"Bar1-map", "ok"},
                                   {"Bar1-map", "err"},
                                   {"Bar1-map", "free"},
                                   {"Bar1-map", "callbacks"},
                                   {"Bar1-map", "active", true},
                                   {"Bar1-map", "delay-frees"},
                                   {"Error", "cpu-gpu-pages"},
                                   {"Error", "sg-ext"},
                                   {"Error", "dma-map"},
                                   {"Error", "dma-ref"},
                                   {"Ops", "Read", true},
                                   {"Ops", "Write", true},
                                   {"Ops", "BatchIO", true}};

// "name=12", or "12" with the name "".
struct Word {
  std::string_view name;
  std::optional<std::uint64_t> value;
};

Word word_of(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return {"", parse_number<std::uint64_t>(text)};
  return {text.substr(0, equals), parse_number<std::uint64_t>(text.substr(equals + 1))};
}

void add_counters(std::string_view line, std::string_view rest, NvidiaFsStats& stats) {
  for (const std::string_view part : split(rest, ' ')) {
    const Word word = word_of(trim(part));
    const auto* const known = std::find_if(std::begin(kKnown), std::end(kKnown),
                                           [&](const auto& one) { return one.line == line && one.name == word.name; });
    if (known == std::end(kKnown) || !word.value || stats.value(line, word.name)) continue;
    stats.counters.push_back({known->line, known->name, *word.value, known->is_of_now});
  }
}

// "GPU 0000:3b:00.0  uuid:8c9f... : Registered_MiB=16 Cache_MiB=0 max_pinned_MiB=16"
void add_gpu(std::string_view line, NvidiaFsStats& stats) {
  const std::vector<std::string_view> words = split(line, ' ');
  if (words.size() < 2 || !is_pci_address(words[1]) || stats.gpus.size() == kRowsMax) return;
  NvidiaFsGpu gpu{std::string(words[1])};
  for (const std::string_view part : words) {
    const Word word = word_of(trim(part));
    if (word.name == "Registered_MiB") gpu.registered_mib = word.value.value_or(0);
    if (word.name == "Cache_MiB") gpu.cache_mib = word.value.value_or(0);
    if (word.name == "max_pinned_MiB") gpu.max_pinned_mib = word.value.value_or(0);
  }
  stats.gpus.push_back(std::move(gpu));
}

// Columns with tabs in between, of which numa is missing before 2.7: the last but one is np2p.
void add_peer(std::string_view line, NvidiaFsStats& stats) {
  const std::vector<std::string_view> cells = split(line, '\t');
  if (cells.size() < 4 || stats.peers.size() == kRowsMax) return;
  const std::string_view gpu = trim(cells[0]), peer = trim(cells[1]);
  const auto mappings = parse_number<std::uint64_t>(trim(cells[cells.size() - 2]));
  if (!is_pci_address(gpu) || !is_pci_address(peer) || !mappings || *mappings == 0) return;
  stats.peers.push_back({std::string(gpu), std::string(peer), *mappings});
}

}  // namespace

std::optional<std::uint64_t> NvidiaFsStats::value(std::string_view line, std::string_view name) const {
  const auto found =
      std::find_if(counters.begin(), counters.end(), [&](auto& one) { return one.line == line && one.name == name; });
  return found == counters.end() ? std::nullopt : std::optional(found->value);
}

NvidiaFsStats nvidia_fs_stats(std::string_view stats, std::string_view peer_distance) {
  NvidiaFsStats all;
  while (!stats.empty()) {
    std::string_view line = take_until(stats, '\n');
    if (line.starts_with("GPU ")) {
      add_gpu(line, all);
      continue;
    }
    const std::string_view label = trim(take_until(line, ':'));
    add_counters(label, line, all);
  }
  while (!peer_distance.empty()) add_peer(take_until(peer_distance, '\n'), all);
  return all;
}

NvidiaFsStats read_nvidia_fs_stats(const Root& root) {
  const std::string folder = "/proc/driver/nvidia-fs/";
  return nvidia_fs_stats(root.read(folder + "stats").value_or(""), root.read(folder + "peer_distance").value_or(""));
}

}  // namespace penstock::core
