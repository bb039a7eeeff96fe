// SPDX-License-Identifier: Apache-2.0

#include "k8s/objects.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

#include "settings/names.h"
#include "settings/words.h"

namespace penstock::tools::k8s {
namespace {

constexpr std::size_t kSearchDepthMax = 12;

// Values that hardly any chart has except gpu-operator's, and values that others may have, too.
constexpr std::string_view kOwnValues[] = {"ccManager",
                                           "clusterPolicy",
                                           "dcgm",
                                           "dcgmExporter",
                                           "devicePlugin",
                                           "gdrcopy",
                                           "gds",
                                           "gfd",
                                           "migManager",
                                           "nodeStatusExporter",
                                           "driver.rdma",
                                           "sandboxWorkloads",
                                           "driver.usePrecompiled",
                                           "driver.nvidiaDriverCRD",
                                           "driver.kernelModuleType"};
constexpr std::string_view kSharedValues[] = {"driver", "mig", "operator", "toolkit", "validator"};

bool looks_like_values(const Value& root, std::string_view file) {
  if (!root.is_map() || root.member("apiVersion") != nullptr) return false;
  const auto is_there = [&](std::string_view key) { return root[key].is_there(); };
  const auto own = std::count_if(std::begin(kOwnValues), std::end(kOwnValues), is_there);
  const auto shared = std::count_if(std::begin(kSharedValues), std::end(kSharedValues), is_there);
  const bool is_named_so = has_part(file.substr(file.find_last_of('/') + 1), "values");
  return is_named_so ? own > 0 || shared > 1 : own > 0 && own + shared > 1;
}

bool looks_like_cufile(const Value& root) {
  if (!root.is_map() || root.member("apiVersion") != nullptr) return false;
  return std::any_of(root.members.begin(), root.members.end(), [](const Member& member) {
    return member.value->is_map() && core::is_section(member.key) &&
           (member.key == "properties" || member.key == "fs" || member.key == "execution" || member.key == "logging");
  });
}

// Other products have kinds with the same names: Kyverno has a ClusterPolicy.
std::string kind_of(const Value& root) {
  const std::string &kind = root["kind"].text, &api_version = root["apiVersion"].text;
  const bool is_operators = api_version.starts_with("nvidia.com/") || api_version.starts_with("mellanox.com/");
  return is_operator_kind(kind) && !is_operators ? api_version + " " + kind : kind;
}

void add_object(Cluster& cluster, const Manifest& manifest, const Value& root) {
  Object object{.manifest = &manifest, .root = &root};
  object.api_version = root["apiVersion"].text;
  object.kind = kind_of(root);
  object.name = root["metadata.name"].text;
  object.space = root["metadata.namespace"].text;
  if (object.kind.ends_with("List") && root["items"].is_list()) {
    for (const Member& item : root["items"].members) add_object(cluster, manifest, *item.value);
    return;
  }
  if (looks_like_values(root, manifest.file)) {
    object.form = Form::values;
  } else if (root["gpu-operator"].is_map() && root.member("apiVersion") == nullptr) {
    object.form = Form::values;  // Values of a parent chart of the operator's.
    object.root = &root["gpu-operator"];
  } else if (looks_like_cufile(root)) {
    object.form = Form::cufile;
  } else if (root.is_map() && root["apiVersion"].is_text() && root["kind"].is_text()) {
    object.form = Form::resource;
  }
  cluster.objects.push_back(object);
}

// Finds every pod spec: in known kinds, and in others' kinds that contain one.
void find_pods(Cluster& cluster, const Object& object, const Value& value, std::size_t depth) {
  if (depth > kSearchDepthMax) return;
  if (value["spec.containers"].is_list()) {
    cluster.pods.push_back({&object, &value["metadata"], &value["spec"]});
    return;
  }
  for (const Member& member : value.members) {
    if (member.value->is_map() || member.value->is_list()) find_pods(cluster, object, *member.value, depth + 1);
  }
}

void add_driver(Cluster& cluster, const Object& object) {
  if (object.form == Form::values) cluster.drivers.push_back({&object, "driver", ""});
  else if (object.kind == "ClusterPolicy") cluster.drivers.push_back({&object, "spec.driver", "spec"});
  else if (object.kind == "NVIDIADriver") cluster.drivers.push_back({&object, "spec", "spec"});
}

// A rendered chart names its release.
void learn_release(Cluster& cluster, const Object& policy) {
  const Value& labels = policy["metadata.labels"];
  const Member* version = labels.member(kReleaseLabel);
  const Member* part = labels.member("app.kubernetes.io/name");
  const bool is_charts = part != nullptr && part->value->text == "gpu-operator";
  if (!cluster.facts.operator_version.empty() || !is_charts || version == nullptr) return;
  cluster.facts.operator_version = version->value->text;
  cluster.release_source = &policy;
}

void learn(Facts& facts, const Object& node) {
  const Value& info = node["status.nodeInfo"];
  const auto take = [](std::string& fact, std::string fresh) {
    if (fact.empty()) fact = std::move(fresh);
  };
  take(facts.os, os_of_node(node));
  take(facts.kernel, info["kernelVersion"].text);
  take(facts.runtime, runtime_of(info["containerRuntimeVersion"].text));
}

bool says_gds(const Value& container) {
  for (const Member& variable : container["env"].members) {
    const std::string& name = (*variable.value)["name"].text;
    if (name == "NVIDIA_GDS" || name.starts_with("CUFILE_")) return true;
  }
  bool found = false;
  for (const char* key : {"command", "args"}) {
    each_text(container[key], [&](const Value& text) {
      found = found || has_part(text.text, "gdsio") || has_part(text.text, "gdscheck") || has_part(text.text, "cufile");
    });
  }
  for (const Member& mount : container["volumeMounts"].members) {
    found = found || has_part((*mount.value)["mountPath"].text, "cufile");
  }
  return found;
}

}  // namespace

std::string os_of_image(std::string_view image) {
  struct Row {
    std::string_view begin;
    std::string_view name;
    int numbers;  // How many numbers of the version count.
  };
  static constexpr Row kRows[] = {{"Ubuntu ", "ubuntu", 2},
                                  {"Red Hat Enterprise Linux CoreOS ", "rhcos", 1},
                                  {"Red Hat Enterprise Linux ", "rhel", 1},
                                  {"Rocky Linux ", "rocky", 1},
                                  {"Debian GNU/Linux ", "debian", 1},
                                  {"SUSE Linux Enterprise Server ", "sles", 1},
                                  {"Amazon Linux ", "amzn", 1},
                                  {"Azure Linux ", "azurelinux", 1},
                                  {"Container-Optimized OS", "cos", 1},
                                  {"Oracle Linux Server ", "ol", 1}};
  // NVIDIA's own system, and Ubuntu's release that it is made of.
  static constexpr std::pair<std::string_view, std::string_view> kDgx[] = {
      {"DGX OS 5", "ubuntu20.04"}, {"DGX OS 6", "ubuntu22.04"}, {"DGX OS 7", "ubuntu24.04"}};
  for (const auto& [begin, name] : kDgx) {
    if (image.starts_with(begin)) return std::string(name);
  }
  for (const Row& row : kRows) {
    if (!image.starts_with(row.begin)) continue;
    const std::string_view rest = image.substr(row.begin.size());
    std::size_t end = 0;
    int dots = 0;
    while (end < rest.size() && (std::isdigit(static_cast<unsigned char>(rest[end])) != 0 || rest[end] == '.')) {
      if (rest[end] == '.' && ++dots >= row.numbers) break;
      ++end;
    }
    return std::string(row.name) + std::string(rest.substr(0, end));
  }
  std::string os;
  for (const char letter : image) {
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0) os += static_cast<char>(std::tolower(letter));
    if (os.size() > 1 && letter == ' ' && std::isdigit(static_cast<unsigned char>(os.back())) != 0) break;
  }
  return os;
}

bool is_other_system(std::string_view os) {
  static constexpr std::string_view kNames[] = {"darwin", "freebsd", "macos", "windows"};
  const bool has_name = !os.empty() && os.front() >= 'a' && os.front() <= 'z';
  return !has_name ||
         std::any_of(std::begin(kNames), std::end(kNames), [&](auto name) { return os.starts_with(name); });
}

std::string label_of(const Object& node, std::string_view name) {
  const Member* label = node["metadata.labels"].member(name);
  return label == nullptr ? "" : label->value->text;
}

std::string os_of_node(const Object& node) {
  std::string by_image = os_of_image(node["status.nodeInfo.osImage"].text);
  const std::string id = label_of(node, "feature.node.kubernetes.io/system-os_release.ID");
  if (id.empty() || by_image.starts_with("rhcos")) return by_image;
  std::string version = label_of(node, "feature.node.kubernetes.io/system-os_release.VERSION_ID");
  if (id != "ubuntu") version = version.substr(0, version.find('.'));
  return id + version;
}

std::string runtime_of(std::string text) {
  if (const std::size_t at = text.find("://"); at != std::string::npos) text.replace(at, 3, "-");
  return text;
}

bool is_of_kubernetes(const Object& object) {
  return object.api_version == "v1" || object.api_version == "apps/v1" || object.api_version == "batch/v1";
}

bool has_part(std::string_view text, std::string_view part) {
  const auto small = [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter | 0x20) : letter;
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(),
                     [&](char one, char other) { return small(one) == small(other); }) != text.end();
}

std::string Object::title() const {
  if (form == Form::values) return "Helm values";
  if (form != Form::resource) return "";
  return core::shown(kind) + (name.empty() ? "" : " " + core::shown(name));
}

Place place_of(const Value& map, std::string_view keys) {
  Place place = map.place;
  const Value* at = &map;
  while (!keys.empty()) {
    const std::size_t point = std::min(keys.find('.'), keys.size());
    const Member* found = at->member(keys.substr(0, point));
    if (found == nullptr) break;
    place = found->place;
    at = found->value;
    keys.remove_prefix(std::min(point + 1, keys.size()));
  }
  return place;
}

std::vector<const Value*> Pod::containers() const {
  std::vector<const Value*> all;
  for (const char* list : {"initContainers", "containers"}) {
    for (const Member& member : (*spec)[list].members) all.push_back(member.value);
  }
  return all;
}

bool Pod::asks_for_gpu() const {
  for (const Value* container : containers()) {
    for (const char* list : {"resources.limits", "resources.requests"}) {
      for (const Member& resource : (*container)[list].members) {
        if (resource.key.starts_with("nvidia.com/")) return true;
      }
    }
    if ((*container)["resources.claims"].is_list()) return true;
  }
  return false;
}

bool Pod::uses_gds() const {
  const std::vector<const Value*> all = containers();
  return std::any_of(all.begin(), all.end(), [](const Value* one) { return says_gds(*one); });
}

const std::vector<const Object*>& Cluster::of_kind(std::string_view kind) const {
  static const std::vector<const Object*> kNone;
  const auto found = by_kind.find(kind);
  return found == by_kind.end() ? kNone : found->second;
}

const Object* Cluster::find(std::string_view kind, std::string_view name) const {
  const auto found = by_name.find(std::string(kind) + " " + std::string(name));
  return found == by_name.end() ? nullptr : found->second;
}

bool Cluster::concerns_gds() const {
  return has_gds() || std::any_of(pods.begin(), pods.end(), [](const Pod& pod) { return pod.uses_gds(); });
}

bool Cluster::has_gds() const {
  return std::any_of(drivers.begin(), drivers.end(), [](const DriverSetup& driver) { return driver.has_gds(); });
}

bool is_operator_kind(std::string_view kind) {
  constexpr std::string_view kKinds[] = {"ClusterPolicy", "NVIDIADriver", "GPUCluster", "NicClusterPolicy",
                                         "NicNodePolicy"};
  return std::find(std::begin(kKinds), std::end(kKinds), kind) != std::end(kKinds);
}

std::vector<const Object*> nic_policies(const Cluster& cluster) {
  std::vector<const Object*> all = cluster.of_kind("NicClusterPolicy");
  const auto& of_nodes = cluster.of_kind("NicNodePolicy");
  all.insert(all.end(), of_nodes.begin(), of_nodes.end());
  return all;
}

void look_through(Cluster& cluster) {
  for (const Manifest& manifest : cluster.manifests) {
    cluster.files.push_back({.manifest = &manifest});
    for (const Value* document : manifest.documents) add_object(cluster, manifest, *document);
  }
  look_at_objects(cluster);
}

void look_at_objects(Cluster& cluster) {
  for (const Object& object : cluster.objects) {
    cluster.by_kind[object.kind].push_back(&object);
    cluster.by_name.emplace(object.kind + " " + object.name, &object);
    add_driver(cluster, object);
    if (object.form != Form::resource) continue;
    if (object.kind == "Node") learn(cluster.facts, object);
    if (object.kind == "ClusterPolicy") learn_release(cluster, object);
    if (object.kind != "CustomResourceDefinition") find_pods(cluster, object, *object.root, 0);
  }
}

}  // namespace penstock::tools::k8s
