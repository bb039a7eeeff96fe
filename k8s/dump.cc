// SPDX-License-Identifier: Apache-2.0

#include "k8s/dump.h"

#include <fmt/format.h>

#include <algorithm>

#include "facts/finding.h"
#include "facts/peer_pairs.h"
#include "k8s/checks.h"
#include "k8s/dump_pods.h"
#include "k8s/nodes.h"
#include "settings/words.h"
#include "tools/common/failure.h"

namespace penstock::tools::k8s {

const char* const kDumpLimits =
    "A dump shows no kernel symbols, IOMMU, PCI topology or real mounts, so it opens no path. On the node "
    "'penstock-k8s verify' sees them, in a pod with --root /host; 'penstock-k8s verify --read FILE' proves a path.";

namespace {

enum Paths : unsigned { kP2pdma = 1, kNvidiaFs = 2, kBoth = 3 };

// Lint rules for a driver's setup or a volume, and the path that each closes; in order of precedence.
struct Stop {
  std::string_view rule;
  unsigned paths;
  Standing standing;
};
constexpr Stop kStops[] = {
    {"rdma_without_ofed", kBoth, Standing::closed},
    {"gds_precompiled", kNvidiaFs, Standing::closed},
    {"nvidiadriver_auto", kNvidiaFs, Standing::closed},
    {"gds_image_parts", kNvidiaFs, Standing::closed},
    {"gds_image_missing", kNvidiaFs, Standing::closed},
    {"gds_version_suffix", kNvidiaFs, Standing::closed},
    {"gds_version_of_cuda", kNvidiaFs, Standing::closed},
    {"gds_versions", kNvidiaFs, Standing::unknown},
    {"gds_os", kNvidiaFs, Standing::closed},
    {"gds_proprietary_modules", kNvidiaFs, Standing::closed},
    {"gds_virtual_machines", kNvidiaFs, Standing::unknown},
    {"gds_without_injection", kNvidiaFs, Standing::closed},
    {"gds_compiler", kNvidiaFs, Standing::unknown},
    {"gds_driver_off", kNvidiaFs, Standing::unknown},
    {"registry_quotes", kP2pdma, Standing::closed},
    {"module_config_file", kP2pdma, Standing::unknown},
    {"p2pdma_registry", kP2pdma, Standing::closed},
    {"p2pdma_needs", kP2pdma, Standing::closed},
    {"storage_encrypted", kBoth, Standing::closed},
    {"storage_mapper", kBoth, Standing::closed},
    {"storage_no_direct", kBoth, Standing::closed},
    {"nfs_by_tcp", kBoth, Standing::closed},
    {"ext4_journal", kBoth, Standing::closed},
    {"ext4_ordered", kNvidiaFs, Standing::closed},
};

using Evidence = std::vector<PathEvidence>;

void add(Evidence& all, const char* path, PathEvidence one) {
  if (one.rule.empty()) return;
  one.path = path;
  all.push_back(std::move(one));
}

void add_findings(Evidence& all, const char* path, unsigned which, const Findings& findings) {
  const std::vector<Finding> found = findings.in_order();
  for (const Stop& stop : kStops) {
    if ((stop.paths & which) == 0) continue;
    for (const Finding& one : found) {
      if (one.rule->id != stop.rule || one.severity == Severity::note) continue;
      const Standing standing = one.severity == Severity::error ? Standing::closed : stop.standing;
      add(all, path, {"", standing, one.rule->id, fmt::format("{}: {}", one.object, one.sentence), one.remedy});
    }
  }
}

// Returns the first evidence that closes the path, else the first that makes it doubtful.
PathEvidence first_of(const char* path, const Evidence& all) {
  const auto closed =
      std::find_if(all.begin(), all.end(), [](const PathEvidence& one) { return one.standing == Standing::closed; });
  if (closed != all.end()) return *closed;
  if (!all.empty()) return all.front();
  return {path, Standing::unknown, "", "the dump shows nothing in its way", ""};
}

class DumpJudge {
 public:
  explicit DumpJudge(const Cluster& dump) : dump_(dump), pods_(dump) {
    for (const Object& object : dump.objects) {
      if (object.kind == "StorageClass" || object.kind == "PersistentVolume") storages_.push_back(&object);
    }
  }

  NodeEvidence judge(const Object& object) const {
    Node node = node_of(object);
    NodeEvidence evidence{node.name, machine_of(node), {}};
    if (!node.has_gpu) return evidence;
    Cluster cluster;  // The facts of this node for the cluster's checks.
    take_setups(object, node, cluster);
    if (node.driver.empty() && !cluster.drivers.empty()) node.driver = cluster.drivers[0].driver_value("version").text;
    Findings findings;
    check_drivers(cluster, findings);
    check_modules(cluster, findings);
    if (is_labelled(object, "feature.node.kubernetes.io/pci-15b3.present")) check_network(cluster, findings);
    for (const Object* storage : storages_) {
      if (is_reached(*storage, object)) add_storage(evidence, judge_storage(object, node, cluster, findings, storage));
    }
    if (evidence.storages.empty()) evidence.storages.push_back(judge_storage(object, node, cluster, findings, nullptr));
    return evidence;
  }

 private:
  static std::string machine_of(const Node& node) {
    std::string text = node.has_gpu ? (node.gpu.empty() ? "a GPU" : node.gpu) : "no GPU";
    for (const std::string& part : {node.os, node.kernel, node.driver.empty() ? "" : "driver " + node.driver}) {
      if (!part.empty()) text += ", " + part;
    }
    return text;
  }

  static bool is_labelled(const Object& node, std::string_view name, std::string_view value = "true") {
    const Member* label = node["metadata.labels"].member(name);
    return label != nullptr && label->value->text == value;
  }

  static bool selects(const Value& selector, const Object& node) {
    return std::all_of(selector.members.begin(), selector.members.end(),
                       [&](const Member& one) { return is_labelled(node, one.key, one.value->text); });
  }

  // A cluster may have thousands of volumes: those with equal evidence are merged.
  static void add_storage(NodeEvidence& node, StorageEvidence one) {
    const auto same_path = [](const PathEvidence& a, const PathEvidence& b) {
      return a.rule == b.rule && a.standing == b.standing;
    };
    const auto found = std::find_if(node.storages.begin(), node.storages.end(), [&](const StorageEvidence& other) {
      return one.mount_point.starts_with("PersistentVolume ") && other.mount_point.starts_with("PersistentVolume ") &&
             one.type == other.type &&
             std::equal(one.paths.begin(), one.paths.end(), other.paths.begin(), other.paths.end(), same_path);
    });
    if (found == node.storages.end()) node.storages.push_back(std::move(one));
    else ++found->alike;
  }

  // Checks nodeAffinity; a volume or class without one is reachable from every node.
  static bool is_reached(const Object& storage, const Object& node) {
    const auto& terms = storage["spec.nodeAffinity.required.nodeSelectorTerms"].members;
    const auto holds = [&](const Member& expression) {
      const Value& one = *expression.value;
      const auto& values = one["values"].members;
      return one["operator"].text != "In" || std::any_of(values.begin(), values.end(), [&](const Member& value) {
               return is_labelled(node, one["key"].text, value.value->text);
             });
    };
    return terms.empty() || std::any_of(terms.begin(), terms.end(), [&](const Member& term) {
             const auto& expressions = (*term.value)["matchExpressions"].members;
             return std::all_of(expressions.begin(), expressions.end(), holds);
           });
  }

  bool is_by_objects() const {
    const auto& policies = dump_.of_kind("ClusterPolicy");
    return policies.empty() || (*policies[0])["spec.driver.useNvidiaDriverCRD"].is_true();
  }

  // Collects the objects that configure the node's driver: ClusterPolicy, or the NVIDIADriver that selects the node.
  void take_setups(const Object& object, const Node& node, Cluster& cluster) const {
    cluster.facts = {dump_.facts.operator_version, node.os, node.runtime, node.kernel};
    for (const char* kind : {"GPUCluster", "NicClusterPolicy", "NicNodePolicy"}) {
      for (const Object* one : dump_.of_kind(kind)) cluster.objects.push_back(*one);
    }
    if (!is_by_objects()) cluster.objects.push_back(*dump_.of_kind("ClusterPolicy")[0]);
    for (const Object* driver : dump_.of_kind("NVIDIADriver")) {
      if (is_by_objects() && selects((*driver)["spec.nodeSelector"], object)) cluster.objects.push_back(*driver);
    }
    for (const Object* map : dump_.of_kind("ConfigMap")) {
      if ((*map)["data"].member("nvidia.conf") != nullptr) cluster.objects.push_back(*map);
    }
    look_at_objects(cluster);
  }

  StorageEvidence judge_storage(const Object& object, const Node& node, const Cluster& cluster,
                                const Findings& findings, const Object* storage) const {
    Findings of_storage;
    std::string type;
    if (storage != nullptr) {
      check_volume(*storage, Severity::warning, of_storage);
      type = storage_of(*storage);
    }
    Evidence p2pdma, nvidia_fs;
    add_driver(p2pdma, "p2pdma", cluster, node);
    add_findings(p2pdma, "p2pdma", kP2pdma, findings);
    add_p2pdma(p2pdma, node, cluster, type);
    add_findings(p2pdma, "p2pdma", kP2pdma, of_storage);
    add_findings(nvidia_fs, "nvidia-fs", kNvidiaFs, findings);
    add_driver(nvidia_fs, "nvidia-fs", cluster, node);
    add_nvidia_fs(nvidia_fs, object, node, cluster, type);
    add_findings(nvidia_fs, "nvidia-fs", kNvidiaFs, of_storage);
    return {storage == nullptr ? "any storage" : storage->title(),
            type.empty() ? "unknown file system" : type,
            {first_of("p2pdma", p2pdma), first_of("nvidia-fs", nvidia_fs)}};
  }

  // Adds the findings about the driver's setup, and the state of its pods.
  void add_driver(Evidence& all, const char* path, const Cluster& cluster, const Node& node) const {
    for (const DriverSetup& driver : cluster.drivers) {
      for (const Member& member : (*driver.object)["status.conditions"].members) {
        const Value& condition = *member.value;
        if (condition["reason"].text != "ReconcileFailed" || condition["status"].text == "False") continue;
        add(all, path,
            {"", Standing::closed, "operator_refuses",
             fmt::format("{}: {}", driver.object->title(), core::shown(condition["message"].text)),
             "penstock-k8s lint names what is wrong in it"});
      }
    }
    const bool installs = std::any_of(cluster.drivers.begin(), cluster.drivers.end(), [](const DriverSetup& driver) {
      return !driver.driver_value("enabled").is_false();
    });
    if (installs && pods_.has_any_pod()) add(all, path, pods_.against_driver(node.name));
  }

  static void add_refusals(Evidence& all, const char* path, const Node& node, const std::string& type,
                           std::string_view in_doubt) {
    for (const Refusal& refusal : refusals_of(node, path, type.starts_with("nfs") ? type : "xfs", "SERVER:/EXPORT")) {
      const Standing standing = refusal.rule == in_doubt ? Standing::unknown : Standing::closed;
      add(all, path, {"", standing, refusal.rule, refusal.sentence, refusal.remedy});
    }
    if (const std::optional<Refusal> against = reported_against(node, path)) {
      add(all, path, {"", *node.reported_of(path).standing, against->rule, against->sentence, against->remedy});
    }
  }

  static void add_p2pdma(Evidence& all, const Node& node, const Cluster& cluster, const std::string& type) {
    add_refusals(all, "p2pdma", node, type, "");
    for (const DriverSetup& driver : cluster.drivers) {
      if (driver.driver_value("enabled").is_false() || turns_on_p2pdma(cluster, driver)) continue;
      const auto& text = core::obstacle_text(core::Obstacle::bar_write_combined);
      const bool is_named = driver.driver_value("kernelModuleConfig.name").is_there();
      add(all, "p2pdma",
          {"", is_named ? Standing::unknown : Standing::closed, text.code,
           fmt::format("{} gives the driver no parameters for P2PDMA{}", driver.object->title(),
                       is_named ? " that the dump shows" : ""),
           "driver.kernelModuleConfig: penstock-k8s render --path p2pdma makes it"});
    }
  }

  void add_nvidia_fs(Evidence& all, const Object& object, const Node& node, const Cluster& cluster,
                     const std::string& type) const {
    const bool is_told = node.nvidia_fs.standing.has_value() || is_labelled(object, "nvidia.com/gds.capable");
    if (cluster.has_gds()) {
      if (pods_.has_any_pod()) add(all, "nvidia-fs", pods_.against_nvidia_fs(node.name));
    } else if (!is_told) {
      const bool is_host_s = cluster.drivers.empty() || cluster.drivers[0].driver_value("enabled").is_false();
      add(all, "nvidia-fs",
          {"", is_host_s ? Standing::unknown : Standing::closed, "gds_not_loaded",
           is_host_s ? "no object installs nvidia-fs, and no label tells of its module"
                     : "nothing turns on gds for the node",
           find_rule("gds_not_loaded")->remedy});
    }
    add_refusals(all, "nvidia-fs", node, type, "gds_local_nvme");
  }

  const Cluster& dump_;
  DriverPods pods_;
  std::vector<const Object*> storages_;
};

}  // namespace

DumpEvidence judge_dump(const Cluster& dump, const std::string& file) {
  DumpEvidence evidence;
  const DumpJudge judge(dump);
  for (const Object* node : dump.of_kind("Node")) evidence.nodes.push_back(judge.judge(*node));
  if (evidence.nodes.empty()) {
    throw Failure(file +
                      ": there is no Node in it; give what 'kubectl get nodes,pods,clusterpolicies,nvidiadrivers,pv,"
                      "storageclass,configmaps -A -o yaml' printed",
                  kUsage);
  }
  const bool asks_for_peermem = std::any_of(dump.drivers.begin(), dump.drivers.end(), [](const DriverSetup& driver) {
    return driver.driver_value("rdma.enabled").is_true();
  });
  for (const Object* pod : DriverPods(dump).with_peermem()) {
    if (asks_for_peermem || dump.drivers.empty()) break;
    const Rule* const rule = find_rule("peermem_left");
    evidence.faults.push_back({pod->title(), rule->id, rule->meaning, rule->remedy});
  }
  Findings findings;
  check_cufile(dump, findings);
  for (const Finding& one : findings.in_order()) {
    if (one.severity == Severity::note) continue;
    evidence.faults.push_back({one.object, one.rule->id, one.sentence, one.remedy});
  }
  return evidence;
}

}  // namespace penstock::tools::k8s
