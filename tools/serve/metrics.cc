// SPDX-License-Identifier: Apache-2.0

#include "tools/serve/metrics.h"

#include <iterator>

namespace penstock::tools {
namespace {

constexpr auto kCounter = MetricType::counter;
constexpr auto kGauge = MetricType::gauge;
constexpr auto kInfo = MetricType::info;

void add_one(Exposition& page, const Family& family, auto value) {
  page.begin(family);
  page.add({}, value);
}

void add_ways(Exposition& page, const Labels& owner, const Ways& ways, std::uint64_t WayCount::*number) {
  for (const auto& [key, count] : ways) {
    const auto& [path, reason, op] = key;
    Labels labels = owner;
    labels.insert(labels.end(), {{"path", path}, {"reason", reason}, {"op", core::op_name(op)}});
    page.add(labels, count.*number);
  }
}

Labels labels_of(const ContainerName& name) { return {{"pod_uid", name.pod_uid}, {"container_id", name.container_id}}; }

void add_containers(Exposition& page, const Totals& totals, std::uint64_t WayCount::*number) {
  for (const auto& [name, container] : totals.containers()) add_ways(page, labels_of(name), container.ways, number);
}

void add_moved(Exposition& page, const Totals& totals) {
  page.begin({"penstock_node_bytes", kCounter,
              "Bytes moved by all processes since counting began, by the path taken and the reason that it was no "
              "better one.",
              "bytes"});
  add_ways(page, {}, totals.node(), &WayCount::bytes);
  page.begin({"penstock_node_operations", kCounter,
              "Requests of all processes since counting began, by the path taken and the reason."});
  add_ways(page, {}, totals.node(), &WayCount::operations);
  page.begin({"penstock_container_bytes", kCounter,
              "Bytes moved by a container's processes since counting began, ended ones too.", "bytes"});
  add_containers(page, totals, &WayCount::bytes);
  page.begin({"penstock_container_operations", kCounter,
              "Requests of a container's processes since counting began, ended ones too."});
  add_containers(page, totals, &WayCount::operations);
  page.begin({"penstock_container_sessions", kGauge, "Sessions that a container's processes have open."});
  for (const auto& [name, container] : totals.containers()) page.add(labels_of(name), container.sessions);
}

// Counts for the whole node only: by container they would be too many series.
void add_requests(Exposition& page, const Totals& totals) {
  const auto labels = [](const auto& key) { return Labels{{"path", key.first}, {"op", core::op_name(key.second)}}; };
  page.begin({"penstock_node_request_bytes", MetricType::histogram,
              "Bytes moved by one request, of all processes since counting began.", "bytes"});
  for (const auto& [key, counts] : totals.requests()) add_sizes(page, labels(key), counts);
  page.begin({"penstock_node_request_seconds", MetricType::histogram,
              "Time that one request took, of all processes since counting began, where it was measured.", "seconds"});
  for (const auto& [key, counts] : totals.requests()) add_latencies(page, labels(key), counts);
  page.begin({"penstock_node_failed_operations", kCounter,
              "Requests of all processes that ended with an error since counting began, by the path that had them."});
  for (const auto& [key, counts] : totals.requests()) page.add(labels(key), counts.failures);
}

void add_saves(Exposition& page, const core::SaveNumbers& saves) {
  add_one(page, {"penstock_node_saves", kCounter, "Checkpoints that programs saved whole since counting began."},
          saves[0]);
  add_one(page, {"penstock_node_save_bytes", kCounter, "Bytes of these checkpoints.", "bytes"}, saves[1]);
  page.begin({"penstock_node_save_seconds", kCounter,
              "Time of these saves: the program stood still, waited before updates, went on while its state was copied "
              "(hidden), writers gave way to it, wrote, and flushed.",
              "seconds"});
  const char* const parts[] = {"stood", "waited", "hidden", "given_way", "written", "flushed"};
  for (std::size_t i = 0; i < std::size(parts); ++i) {
    page.add({{"part", parts[i]}}, static_cast<double>(saves[2 + i]) / 1e9);
  }
}

void add_driver(Exposition& page, const core::NvidiaDriver& driver) {
  add_one(page, {"penstock_gpu_driver_loaded", kGauge, "Whether NVIDIA's kernel driver is loaded."},
          driver.is_loaded ? 1 : 0);
  page.begin({"penstock_gpu_driver", kInfo, "NVIDIA's kernel driver: its version, and whether its modules are open."});
  if (driver.is_loaded) {
    page.add({{"version", driver.version_text}, {"modules", driver.is_open ? "open" : "proprietary"}}, 1);
  }
  page.begin({"penstock_gpu_driver_parameter", kGauge, "Parameters of the driver that p2pdma needs, where set."});
  if (driver.static_bar1) page.add({{"name", "RMForceStaticBar1"}}, *driver.static_bar1);
  if (driver.write_combining_off) page.add({{"name", "RmForceDisableIomapWC"}}, *driver.write_combining_off);
}

void add_nvidia_fs_stats(Exposition& page, const core::NvidiaFsStats& stats) {
  page.begin({"penstock_nvidia_fs_stat", kGauge, "Counters of nvidia-fs for the whole node, by the names it has."});
  for (const auto& [line, name, value, is_of_now] : stats.counters) page.add({{"line", line}, {"name", name}}, value);
  page.begin({"penstock_nvidia_fs_pinned_mebibytes", kGauge, "Memory of a GPU that is pinned through nvidia-fs."});
  for (const core::NvidiaFsGpu& gpu : stats.gpus) {
    page.add({{"gpu", gpu.gpu}, {"kind", "registered"}}, gpu.registered_mib);
    page.add({{"gpu", gpu.gpu}, {"kind", "cache"}}, gpu.cache_mib);
  }
  page.begin({"penstock_nvidia_fs_dma_mappings", kCounter,
              "How often memory of the GPU was mapped for the device, where peer_stats_enabled is set."});
  for (const core::NvidiaFsPeer& pair : stats.peers) page.add({{"gpu", pair.gpu}, {"peer", pair.peer}}, pair.mappings);
}

void add_nvidia_fs(Exposition& page, const NodeFacts& facts) {
  const core::NvidiaFs& nvidia_fs = facts.nvidia_fs;
  add_one(page, {"penstock_nvidia_fs_loaded", kGauge, "Whether the kernel module nvidia-fs is loaded."},
          nvidia_fs.is_loaded ? 1 : 0);
  page.begin({"penstock_nvidia_fs", kInfo, "The kernel module nvidia-fs: its version."});
  if (nvidia_fs.is_loaded) page.add({{"version", nvidia_fs.version}}, 1);
  page.begin(
      {"penstock_nvidia_fs_storage_driver", kGauge, "A storage driver that registered with nvidia-fs; always 1."});
  for (const std::string& driver : nvidia_fs.storage_drivers) page.add({{"driver", driver}}, 1);
  page.begin({"penstock_nvidia_fs_operations", kCounter,
              "Requests that nvidia-fs moved for the whole node, where its parameter rw_stats_enabled is set."});
  if (facts.nvidia_fs_stats.reads()) page.add({{"op", "read"}}, *facts.nvidia_fs_stats.reads());
  if (facts.nvidia_fs_stats.writes()) page.add({{"op", "write"}}, *facts.nvidia_fs_stats.writes());
  add_nvidia_fs_stats(page, facts.nvidia_fs_stats);
}

void add_facts(Exposition& page, const NodeFacts& facts) {
  page.begin({"penstock_path_available", kGauge,
              "Whether the node offers the path, as far as is known without a try, and the reason."});
  for (const facts::PathOutlook& path : facts.paths) {
    page.add({{"path", penstock_path_name(path.path)}, {"reason", path.reason_name()}}, path.is_usable() ? 1 : 0);
  }
  add_one(page, {"penstock_gpus", kGauge, "NVIDIA GPUs on the PCI bus."}, facts.gpus);
  add_driver(page, facts.driver);
  add_nvidia_fs(page, facts);
  page.begin({"penstock_iommu", kInfo, "How the IOMMU is set: off, passthrough, translating or unknown."});
  page.add({{"mode", core::iommu_mode_name(facts.iommu)}}, 1);
}

// Shows how much of the node this process can see.
void add_looks(Exposition& page, const NodeView& node) {
  page.begin({"penstock_node_processes", kGauge,
              "Processes at the last look: read, forbidden to this process, or left out for a limit."});
  page.add({{"state", "read"}}, node.processes.looked_at);
  page.add({{"state", "forbidden"}}, node.processes.hidden);
  page.add({{"state", "limited"}}, node.processes.not_looked_at);
  add_one(page, {"penstock_node_sessions", kGauge, "Sessions that are open and counted."}, node.totals.sessions());
  page.begin({"penstock_node_sessions_left_out", kGauge, "Sessions that are open and not counted, by the cause."});
  page.add({{"cause", "limit"}}, node.totals.left_out());
  page.add({{"cause", "unreadable"}}, node.segments_refused);
  add_one(page,
          {"penstock_node_folded", kCounter,
           "Times that a container, path or reason was counted as other, because there were too many to name."},
          node.totals.folded());
  add_one(page, {"penstock_node_disbelieved", kCounter, "Numbers of sessions that no machine can have moved."},
          node.totals.disbelieved());
  add_one(page, {"penstock_node_looks", kCounter, "Looks at all processes."}, node.looks);
  add_one(page, {"penstock_node_look_duration_seconds", kGauge, "Time that the last look took.", "seconds"},
          node.look_seconds);
  add_one(page, {"penstock_node_look_timestamp_seconds", kGauge, "When the last look ended.", "seconds"},
          node.look_timestamp);
  page.begin({"penstock_node_write_errors", kCounter, "Times that a file of this process could not be written."});
  page.add({{"file", "textfile"}}, node.textfile_errors);
  page.add({{"file", "nfd"}}, node.feature_file_errors);
}

}  // namespace

std::string metrics_text(const NodeView& node, MetricFormat format) {
  Exposition page(format);
  page.begin({"penstock_build", kInfo, "The version of this process."});
  page.add({{"version", penstock_version()}}, 1);
  add_moved(page, node.totals);
  add_requests(page, node.totals);
  add_saves(page, node.totals.saves());
  add_facts(page, node.facts);
  add_looks(page, node);
  return page.finish();
}

}  // namespace penstock::tools
