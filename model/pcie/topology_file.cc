// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/topology_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <unordered_map>

#include "model/pcie/machine_builder.h"
#include "model/pcie/topology_fields.h"

namespace penstock::model {
namespace {

constexpr std::size_t kTopologyBytesMax = std::size_t{32} << 20;
constexpr double kCountMax = 1e9;
constexpr double kBytesMax = 1e15;

class Reader {
 public:
  Reader(std::string name, const PcieConstants& constants) : name_(std::move(name)), constants_(constants) {}

  TopologyFile read(const YAML::Node& document) {
    if (!document.IsMap()) fail(document, "a topology is a map with 'nodes'");
    allow(document,
          {"name", "nodes", "streams", "arbitration", "iommu", "burst_bytes", "seed", "stage_depth", "ordering"});
    file_.machine.source = name_;
    file_.machine.name = document["name"] ? text(document["name"]) : name_;
    read_nodes(document["nodes"], document);
    check_machine(file_.machine);
    read_rules(document);
    if (document["streams"]) read_streams(document["streams"]);
    return std::move(file_);
  }

 private:
  [[noreturn]] void fail(const YAML::Node& at, const std::string& what) const {
    throw InputError(fmt::format("{}:{}: {}", name_, at.Mark().line + 1, what));
  }

  void allow(const YAML::Node& map, const std::set<std::string>& keys) const {
    for (const auto& entry : map) {
      const std::string key = text(entry.first);
      if (keys.count(key) == 0) fail(entry.first, fmt::format("'{}' is not known here", key));
    }
  }

  std::string text(const YAML::Node& node) const {
    if (!node.IsScalar()) fail(node, "a word is expected here");
    return node.Scalar();
  }

  double number(const YAML::Node& node, const std::string& key) const {
    double value = 0;
    if (!node.IsScalar() || !YAML::convert<double>::decode(node, value) || !std::isfinite(value)) {
      fail(node, fmt::format("{} must be a number, not '{}'", key, node.IsScalar() ? node.Scalar() : "a list or map"));
    }
    if (value < 0) fail(node, fmt::format("{} must not be below 0", key));
    return value;
  }

  double count(const YAML::Node& node, const std::string& key, double most) const {
    const double value = number(node, key);
    if (value != std::floor(value) || value > most) {
      fail(node, fmt::format("{} must be a whole number up to {:g}", key, most));
    }
    return value;
  }

  unsigned small_count(const YAML::Node& node, const std::string& key) const {
    return static_cast<unsigned>(count(node, key, kCountMax));
  }

  template <typename Choice, std::size_t kSize>
  Choice choice(const YAML::Node& node, const std::array<std::string_view, kSize>& words) const {
    const std::string word = text(node);
    for (std::size_t i = 0; i < kSize; ++i) {
      if (words[i] == word) return static_cast<Choice>(i);
    }
    fail(node, fmt::format("'{}' is none of {}", word, fmt::join(words, ", ")));
  }

  bool truth(const YAML::Node& node) const {
    bool value = false;
    if (!YAML::convert<bool>::decode(node, value)) fail(node, "true or false is expected here");
    return value;
  }

  void read_nodes(const YAML::Node& list, const YAML::Node& document) {
    if (!list || !list.IsSequence()) fail(list ? list : document, "'nodes' must be a list");
    if (list.size() > kNodesMax) fail(list, "there are too many nodes");
    for (const YAML::Node& entry : list) file_.machine.nodes.push_back(read_node(entry));
    std::unordered_map<std::string_view, int> indices;
    for (const Node& node : file_.machine.nodes) indices.emplace(node.name, static_cast<int>(indices.size()));
    for (std::size_t i = 0; i < list.size(); ++i) join(list[i], indices, file_.machine.nodes[i]);
  }

  void join(const YAML::Node& entry, const std::unordered_map<std::string_view, int>& indices, Node& node) const {
    const auto named = [&](const char* key) {
      if (!entry[key]) return kNone;
      const auto found = indices.find(text(entry[key]));
      if (found == indices.end()) fail(entry[key], fmt::format("there is no node '{}'", text(entry[key])));
      return found->second;
    };
    node.parent = named("parent");
    node.fabric = named("fabric");
  }

  Node read_node(const YAML::Node& entry) const {
    if (!entry.IsMap()) fail(entry, "a node is a map with 'name' and 'kind'");
    if (!entry["name"]) fail(entry, "a node has no 'name'");
    if (!entry["kind"]) fail(entry, "a node has no 'kind'");
    Node node;
    node.line = entry.Mark().line + 1;
    node.name = text(entry["name"]);
    node.kind = read_kind(entry["kind"]);
    check_keys(entry, node);
    if (entry["host"]) node.host = text(entry["host"]);
    read_link(entry, node.link);
    if (node.kind == NodeKind::drive && node.link.generation != 0) set_drive_defaults(node, constants_);
    if (node.kind == NodeKind::root) set_root_defaults(node, constants_);
    for (const NodeNumber& field : kNodeNumbers) {
      if (entry[field.key]) node.*field.value = number(entry[field.key], field.key) * field.unit;
    }
    for (const NodeCount& field : kNodeCounts) {
      if (entry[field.key]) node.*field.value = small_count(entry[field.key], field.key);
    }
    return node;
  }

  void read_link(const YAML::Node& entry, PcieLink& link) const {
    for (const LinkCount& field : kLinkCounts) {
      if (entry[field.key]) link.*field.value = small_count(entry[field.key], field.key);
    }
    for (const LinkNumber& field : kLinkNumbers) {
      if (entry[field.key]) link.*field.value = number(entry[field.key], field.key) * field.unit;
    }
  }

  NodeKind read_kind(const YAML::Node& node) const {
    const std::string word = text(node);
    for (unsigned i = 0; i <= static_cast<unsigned>(NodeKind::fabric); ++i) {
      if (word == node_kind_name(static_cast<NodeKind>(i))) return static_cast<NodeKind>(i);
    }
    fail(node, fmt::format("'{}' is none of root, switch, gpu, drive, nic, fabric", word));
  }

  void check_keys(const YAML::Node& entry, const Node& node) const {
    std::set<std::string> keys = {"name", "kind", "parent"};
    const unsigned kind = kind_bit(node.kind);
    if ((kind & kRoot) != 0) keys.insert("host");
    if ((kind & kNic) != 0) keys.insert("fabric");
    for (const NodeNumber& field : kNodeNumbers) {
      if ((field.kinds & kind) != 0) keys.insert(field.key);
    }
    for (const NodeCount& field : kNodeCounts) {
      if ((field.kinds & kind) != 0) keys.insert(field.key);
    }
    for (const LinkNumber& field : kLinkNumbers) {
      if ((kOnPcie & kind) != 0) keys.insert(field.key);
    }
    for (const LinkCount& field : kLinkCounts) {
      if ((kOnPcie & kind) != 0) keys.insert(field.key);
    }
    allow(entry, keys);
  }

  void read_rules(const YAML::Node& document) {
    Workload& workload = file_.workload;
    if (const YAML::Node node = document["arbitration"])
      workload.arbitration = choice<Arbitration>(node, kArbitrationWords);
    if (const YAML::Node node = document["iommu"]) workload.iommu = choice<IommuMode>(node, kIommuWords);
    if (const YAML::Node node = document["ordering"]) workload.ordering = choice<Ordering>(node, kOrderingWords);
    if (const YAML::Node node = document["stage_depth"]) workload.stage_depth = stage_depths(node);
    if (const YAML::Node node = document["burst_bytes"]) workload.burst_bytes = bytes(node, "burst_bytes");
    if (const YAML::Node node = document["seed"]) workload.seed = bytes(node, "seed");
  }

  // Reads one depth for all stages of a pipeline, or one for each.
  std::array<unsigned, 4> stage_depths(const YAML::Node& node) const {
    std::array<unsigned, 4> depths{};
    if (!node.IsSequence()) {
      depths.fill(small_count(node, "stage_depth"));
      return depths;
    }
    if (node.size() != depths.size()) fail(node, "'stage_depth' is a number, or a list of four");
    for (std::size_t i = 0; i < depths.size(); ++i) depths.at(i) = small_count(node[i], "stage_depth");
    return depths;
  }

  std::uint64_t bytes(const YAML::Node& node, const char* key) const {
    return static_cast<std::uint64_t>(count(node, key, kBytesMax));
  }

  void read_streams(const YAML::Node& list) {
    if (!list.IsSequence()) fail(list, "'streams' must be a list");
    if (list.size() > kStreamsMax) fail(list, "there are too many streams");
    for (const YAML::Node& entry : list) file_.workload.streams.push_back(read_stream(entry));
    check_workload(file_.workload, name_);
  }

  Stream read_stream(const YAML::Node& entry) const {
    if (!entry.IsMap()) fail(entry, "a stream is a map with 'stores' and 'gpu'");
    allow(entry, {"name", "stores", "gpu", "write", "through", "path", "fence", "io_bytes", "total_bytes", "depth",
                  "weight", "arrivals_per_second", "start_us", "request_us"});
    if (!entry["gpu"]) fail(entry, "a stream has no 'gpu'");
    if (!entry["stores"] || !entry["stores"].IsSequence()) fail(entry, "a stream has no list 'stores'");
    Stream stream;
    stream.line = entry.Mark().line + 1;
    stream.gpu = text(entry["gpu"]);
    stream.name = entry["name"] ? text(entry["name"]) : stream.gpu;
    for (const YAML::Node& store : entry["stores"]) stream.stores.push_back(text(store));
    if (const YAML::Node node = entry["write"]) stream.is_write = truth(node);
    if (const YAML::Node node = entry["through"]) stream.through = text(node);
    if (const YAML::Node node = entry["path"]) stream.path = choice<PathKind>(node, kPathWords);
    if (const YAML::Node node = entry["fence"]) stream.fence = choice<FenceKind>(node, kFenceWords);
    if (const YAML::Node node = entry["io_bytes"]) stream.io_bytes = bytes(node, "io_bytes");
    if (const YAML::Node node = entry["total_bytes"]) stream.total_bytes = bytes(node, "total_bytes");
    if (const YAML::Node node = entry["depth"]) stream.depth = small_count(node, "depth");
    if (const YAML::Node node = entry["weight"]) stream.weight = number(node, "weight");
    if (const YAML::Node node = entry["arrivals_per_second"]) {
      stream.arrivals_per_second = number(node, "arrivals_per_second");
    }
    if (const YAML::Node node = entry["start_us"]) stream.start_seconds = number(node, "start_us") * kMicrosecond;
    if (const YAML::Node node = entry["request_us"]) stream.request_seconds = number(node, "request_us") * kMicrosecond;
    return stream;
  }

  std::string name_;
  const PcieConstants& constants_;
  TopologyFile file_;
};

void write_node(const Machine& machine, const Node& node, YAML::Emitter& out) {
  out << YAML::Flow << YAML::BeginMap;
  const auto put = [&](const char* key, const auto& value) { out << YAML::Key << key << YAML::Value << value; };
  put("name", node.name);
  put("kind", std::string(node_kind_name(node.kind)));
  if (node.parent != kNone) put("parent", machine.node(node.parent).name);
  if (node.fabric != kNone) put("fabric", machine.node(node.fabric).name);
  if (!node.host.empty()) put("host", node.host);
  const unsigned kind = kind_bit(node.kind);
  if (node.link.generation != 0) {
    for (const LinkCount& field : kLinkCounts) {
      if (node.link.*field.value != 0) put(field.key, node.link.*field.value);
    }
    for (const LinkNumber& field : kLinkNumbers) {
      if (node.link.*field.value != 0) put(field.key, node.link.*field.value / field.unit);
    }
  }
  for (const NodeNumber& field : kNodeNumbers) {
    // For a root and a drive 0 means unlimited, and a missing key means the default, so zeros are written.
    const bool is_said = node.*field.value != 0 || (kind & (kRoot | kDrive)) != 0;
    if ((field.kinds & kind) != 0 && is_said) put(field.key, node.*field.value / field.unit);
  }
  for (const NodeCount& field : kNodeCounts) {
    if ((field.kinds & kind) != 0) put(field.key, node.*field.value);
  }
  out << YAML::EndMap;
}

}  // namespace

std::string read_input_file(const std::string& path, std::size_t size_max) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) throw InputError(path + ": is no file that can be read");
  const auto size = std::filesystem::file_size(path, error);
  if (error || size > size_max) throw InputError(path + ": is too large");
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) throw InputError(path + ": cannot be read");
  return text.str();
}

TopologyFile parse_topology(const std::string& text, const std::string& name, const PcieConstants& constants) {
  YAML::Node document;
  try {
    document = YAML::Load(text);
    return Reader(name, constants).read(document);
  } catch (const YAML::Exception& error) {
    throw InputError(fmt::format("{}:{}: {}", name, error.mark.line + 1, error.msg));
  }
}

TopologyFile read_topology_file(const std::string& path, const PcieConstants& constants) {
  return parse_topology(read_input_file(path, kTopologyBytesMax), path, constants);
}

std::string write_topology(const Machine& machine) {
  YAML::Emitter out;
  out.SetDoublePrecision(std::numeric_limits<double>::digits10);
  out << YAML::BeginMap << YAML::Key << "name" << YAML::Value << machine.name;
  out << YAML::Key << "nodes" << YAML::Value << YAML::BeginSeq;
  for (const Node& node : machine.nodes) write_node(machine, node, out);
  out << YAML::EndSeq << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

}  // namespace penstock::model
