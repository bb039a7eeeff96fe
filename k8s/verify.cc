// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "k8s/commands.h"
#include "k8s/dump.h"
#include "k8s/inputs.h"
#include "tools/common/arena.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/machine_root.h"
#include "tools/common/outlook_page.h"
#include "tools/common/page.h"
#include "tools/common/terminal.h"

namespace penstock::tools::k8s {
namespace {

constexpr const char* kVerifyExamples =
    "Examples:\n"
    "  penstock-k8s verify                             the node that this runs on\n"
    "  penstock-k8s verify --root /host                the same from a pod in which the node's /proc and /sys are "
    "below /host\n"
    "  penstock-k8s verify --root node-1 --root node-2 captured nodes\n"
    "  kubectl get nodes,pods,clusterpolicies,nvidiadrivers,pv,storageclass,configmaps -A -o yaml |\n"
    "    penstock-k8s verify --dump -                  what a cluster knows of its nodes, without a pod on them\n"
    "  penstock-k8s verify --read /data/file           4 KiB of it into a GPU, which proves the path or says which it "
    "took\n"
    "'open' means that nothing is seen in the way; only --read proves a path. 'off' is what a setting keeps off: this "
    "command's own PENSTOCK_... and CUFILE_... variables count as a program's on the node. This command was never run "
    "under a kubelet, or on a GPU node of a cluster.\n"
    "With --dump no path is ever open: the command reports what stands in the way, or else that evidence on the node "
    "is needed.\n"
    "Exit code: 0 a path is open or would be once it is switched on, proven with --read, or not closed by --dump; 1 "
    "none is, or the read took another way; 2 wrong usage; 77 with --read if there is no such GPU.";

constexpr std::size_t kReadSize = 4096;

struct VerifySettings {
  std::vector<std::string> roots;
  std::string dump;
  std::string file;
  unsigned gpu = 0;
  bool json = false;
};

NodeEvidence look_at(const std::string& root) {
  const core::Root opened = open_machine_root(root == "/" ? "" : root);
  const facts::Examination node = facts::examine(facts::read_machine(opened, root == "/" ? "" : root));
  const core::GdsEvidence& evidence = node.machine.evidence;
  const std::string product = evidence.product.empty() ? "" : " " + evidence.product;
  return {root,           evidence.vendor + product, evidence_of(node), first_counsel(node.whole),
          facts_of(node), adapters_of(node)};
}

// Open includes paths that only a setting keeps off.
bool is_any(Standing standing, const std::vector<NodeEvidence>& nodes) {
  for (const NodeEvidence& node : nodes) {
    for (const StorageEvidence& storage : node.storages) {
      for (const PathEvidence& path : storage.paths) {
        const bool is_open = standing == Standing::usable && path.is_once_set;
        if (path.standing == standing || is_open) return true;
      }
    }
  }
  return false;
}

void print_facts(const NodeEvidence& node) {
  Page page;
  for (const facts::Finding& one : node.facts) {
    page.wrap(fmt::format("  {}: {}: ", one.code, facts::state_name(one.state)), one.sentence);
    if (!one.remedy.empty()) page.wrap("    -> ", one.remedy);
  }
  for (const AdapterEvidence& one : node.adapters) {
    page.wrap(fmt::format("  {}: ", one.of),
              fmt::format("nearest is {} ({})", fmt::join(one.adapters, ", "), one.relation));
  }
  print("{}", Text(page.text()));
}

void print_for_people(const std::vector<NodeEvidence>& nodes, const char* without_storages) {
  for (const NodeEvidence& node : nodes) {
    print("{}{}\n", node.name == "/" ? "this node" : node.name, node.machine.empty() ? "" : " (" + node.machine + ")");
    print_facts(node);
    if (node.storages.empty()) print("  {}\n", without_storages);
    for (const StorageEvidence& storage : node.storages) {
      const std::string more = storage.alike == 0 ? "" : fmt::format(" and {} like it", storage.alike);
      print("  {}{} ({})\n", storage.mount_point, more, storage.type);
      Page page;
      for (const PathEvidence& path : storage.paths) {
        const std::string head = fmt::format("    {:<10}{}", path.path, standing_words(path.standing));
        if (path.sentence.empty()) page.wrap(head, "");
        else page.wrap(head + ": ", path.sentence + (path.rule.empty() ? "" : " [" + path.rule + "]"));
        if (!path.remedy.empty()) page.wrap("              -> ", path.remedy);
      }
      print("{}", Text(page.text()));
    }
    if (node.counsel.empty()) continue;
    Page page;
    page.wrap("  ", node.counsel);
    print("{}", Text(page.text()));
  }
}

// The key names of nodes and storages: "root" and "mount_point", in a dump "node" and "object".
Json rows_of(const std::vector<NodeEvidence>& nodes, const char* name, const char* place) {
  Json rows = Json::array();
  for (const NodeEvidence& node : nodes) {
    Json storages = Json::array();
    for (const StorageEvidence& storage : node.storages) {
      Json paths = Json::array();
      for (const PathEvidence& path : storage.paths) {
        paths.push_back({{"path", path.path},
                         {"standing", path.standing == Standing::usable ? "open" : standing_words(path.standing)},
                         {"proven", false},
                         {"rule", path.rule},
                         {"sentence", path.sentence},
                         {"remedy", path.remedy}});
      }
      storages.push_back(
          {{place, storage.mount_point}, {"alike", storage.alike}, {"type", storage.type}, {"paths", paths}});
    }
    Json facts_ = Json::array(), adapters = Json::array();
    for (const facts::Finding& one : node.facts) {
      facts_.push_back({{"code", one.code},
                        {"state", facts::state_name(one.state)},
                        {"sentence", one.sentence},
                        {"remedy", one.remedy}});
    }
    for (const AdapterEvidence& one : node.adapters) {
      adapters.push_back({{"of", one.of}, {"adapters", one.adapters}, {"relation", one.relation}});
    }
    rows.push_back({{name, node.name},
                    {"machine", node.machine},
                    {"facts", facts_},
                    {"adapters", adapters},
                    {"storages", storages}});
  }
  return rows;
}

void print_faults(const std::vector<DumpFault>& faults) {
  for (const DumpFault& fault : faults) {
    Page page;
    page.wrap(fault.object + ": ", fmt::format("{} [{}]", fault.sentence, fault.rule));
    page.wrap("  -> ", fault.remedy);
    print("{}", Text(page.text()));
  }
}

Json faults_json(const std::vector<DumpFault>& faults) {
  Json rows = Json::array();
  for (const DumpFault& fault : faults) {
    rows.push_back(
        {{"object", fault.object}, {"rule", fault.rule}, {"sentence", fault.sentence}, {"remedy", fault.remedy}});
  }
  return rows;
}

int look_at_dump(const VerifySettings& settings) {
  Cluster cluster;
  cluster.manifests = read_inputs({settings.dump}, kDumpBounds);
  const Manifest& manifest = cluster.manifests.front();
  if (!manifest.is_whole) throw Failure(fault_sentence(manifest), kUsage);
  look_through(cluster);
  const DumpEvidence evidence = judge_dump(cluster, manifest.file);
  if (settings.json) {
    print_json({{"schema", 1},
                {"nodes", rows_of(evidence.nodes, "node", "object")},
                {"configurations", faults_json(evidence.faults)},
                {"limits", kDumpLimits}});
  } else {
    print_for_people(evidence.nodes, "no GPU that the dump tells of");
    print_faults(evidence.faults);
    Page page;
    page.wrap("", kDumpLimits);
    print("{}", Text(page.text()));
  }
  return is_any(Standing::unknown, evidence.nodes) ? kSuccess : kFailed;
}

// Reads once as proof: the report names the path that moved the bytes.
int read_once(const VerifySettings& settings) {
  Session session = open_session({});
  check_gpu(session.raw(), settings.gpu);
  const OpenFile opened = open_file(settings.file, O_RDONLY | O_DIRECT);
  if (opened.size < kReadSize) throw Failure(fmt::format("{}: it has less than {} bytes", settings.file, kReadSize));
  const File file = require(session.file(opened.fd.get()), settings.file);
  const Arena memory = Arena::on_device(session.raw(), settings.gpu, kReadSize);
  const Outcome outcome = file.read(memory.data(), kReadSize, 0);
  require(outcome.status, settings.file);
  const auto& report = outcome.report;
  const bool is_direct = facts::is_direct_path(report.path);
  const std::string sentence = path_sentence(report.path, report.reason, report.refused_path);
  if (settings.json) {
    print_json({{"schema", 1},
                {"file", settings.file},
                {"proven", is_direct},
                {"device", device_json(session.raw(), settings.gpu)},
                {"path", path_json(report.path, report.reason, report.refused_path)}});
  } else {
    print("{}: {} bytes went by {}\n", settings.file, kReadSize, sentence);
    print("{}\n", device_line(session.raw(), settings.gpu));
  }
  return is_direct ? kSuccess : kFailed;
}

int verify(VerifySettings& settings) {
  if (!settings.file.empty()) return read_once(settings);
  if (!settings.dump.empty()) return look_at_dump(settings);
  if (settings.roots.empty()) settings.roots.emplace_back("/");
  std::vector<NodeEvidence> nodes;
  for (const std::string& root : settings.roots) nodes.push_back(look_at(root));
  if (settings.json) print_json({{"schema", 1}, {"nodes", rows_of(nodes, "root", "mount_point")}});
  else print_for_people(nodes, "no file system of a drive or of a server is mounted");
  return is_any(Standing::usable, nodes) ? kSuccess : kFailed;
}

}  // namespace

void add_verify(CommandLine& command) {
  auto settings = std::make_shared<VerifySettings>();
  Option root =
      command.option("--root", settings->roots, "A captured node, or where a node's /proc and /sys are mounted [/]")
          .value_name("DIR")
          .one_value_each();
  const Option read =
      command.option("--read", settings->file, "Read 4 KiB of FILE into a GPU, and tell the path").value_name("FILE");
  root.excludes(read);
  Option dump =
      command.option("--dump", settings->dump, "What kubectl printed of nodes, pods, policies and volumes, or -");
  dump.value_name("FILE");
  dump.excludes(root);
  dump.excludes(read);
  command.option("--gpu", settings->gpu, "The GPU for --read").default_shown();
  command.flag("--json", settings->json, "Print JSON");
  command.footer(kVerifyExamples);
  command.runs([settings] { return verify(*settings); });
}

}  // namespace penstock::tools::k8s
