// SPDX-License-Identifier: Apache-2.0

#include "k8s/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "base/edit_distance.h"
#include "k8s/shape.h"
#include "settings/words.h"

namespace penstock::tools::k8s {
namespace {

constexpr int kSearchDepthMax = 6;

// The key of a shape that a misspelt name probably means; "" for none.
std::string_view near_key(const Shape& shape, std::string_view name) {
  constexpr std::size_t kLongest = 60;
  std::string_view best;
  if (name.size() > kLongest) return best;
  std::size_t least = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (const ShapeKey& key : shape.keys) {
    const std::size_t distance = core::edit_distance(name, key.name);
    if (distance < least) {
      least = distance;
      best = key.name;
    }
  }
  return best;
}

// Another place below a shape where a key has this name: "rdma.useHostMofed".
std::string deeper_key(const Shape& shape, std::string_view name, int depth = 0) {
  for (const ShapeKey& key : shape.keys) {
    if (key.shape == nullptr || depth == kSearchDepthMax) continue;
    const std::string head = std::string(key.name) + ".";
    if (key.shape->find(name) != nullptr) return head + std::string(name);
    const std::string below = deeper_key(*key.shape, name, depth + 1);
    if (!below.empty()) return head + below;
  }
  return "";
}

// All places below a shape where a key has this name, until there are two.
void add_places(const Shape& shape, std::string_view name, const std::string& head, std::vector<std::string>& places) {
  for (const ShapeKey& key : shape.keys) {
    if (places.size() > 1) return;
    const std::string whole = head + std::string(key.name);
    if (key.name == name) places.push_back(whole);
    if (key.shape != nullptr && std::count(whole.begin(), whole.end(), '.') < kSearchDepthMax) {
      add_places(*key.shape, name, whole + ".", places);
    }
  }
}

bool is_int32(std::int64_t number) { return number >= INT32_MIN && number <= INT32_MAX; }

std::string shown_value(const Value& value) {
  if (value.is_list() || value.is_map() || !value.is_there()) return kind_name(value.kind);
  return fmt::format("{} '{}'", value.is_text() ? "the text" : kind_name(value.kind), core::shown(value.text));
}

const char* expected_name(const ShapeKey& key) {
  constexpr const char* kNames[] = {"text",     "true or false",          "a whole number", "a whole number",
                                    "a number", "a whole number or text", "a map",          "anything"};
  return kNames[static_cast<std::size_t>(key.kind)];
}

bool fits_kind(const ShapeKey& key, const Value& value) {
  switch (key.kind) {
    case ShapeKind::text: return value.is_text();
    case ShapeKind::boolean: return value.kind == Kind::boolean;
    case ShapeKind::int32:
    case ShapeKind::int64: return value.kind == Kind::integer;
    case ShapeKind::number: return value.kind == Kind::integer || value.kind == Kind::number;
    case ShapeKind::int_or_text: return value.kind == Kind::integer || value.is_text();
    case ShapeKind::object: return value.is_map();
    case ShapeKind::any: return true;
  }
  return false;
}

std::size_t letters_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

// A wrong key that recipes circulate, with its rule and remedy.
struct Misconception {
  std::string_view place, key;
  const char* rule;    // "": the rule for unknown keys.
  const char* remedy;  // "": the rule's remedy.
};
constexpr Misconception kMisconceptions[] = {
    {"spec", "mofed", "mofed_key", ""},
    {"", "mofed", "mofed_key", ""},
    {"spec.driver", "useHostMofed", "host_mofed_place", "Write spec.driver.rdma.useHostMofed."},
    {"spec", "useHostMofed", "host_mofed_place", "Write spec.driver.rdma.useHostMofed; of an NVIDIADriver spec.rdma."},
    {"driver", "useHostMofed", "host_mofed_place", "Write driver.rdma.useHostMofed."},
    {"spec", "gpuDirectStorage", "", "Write gds."},
    {"driver", "useNvidiaDriverCRD", "", "In Helm values it is driver.nvidiaDriverCRD.enabled."},
    {"driver.upgradePolicy", "podDeletion", "", "In Helm values it is driver.upgradePolicy.gpuPodDeletion."},
};

class Judge {
 public:
  // is_open: there may be keys that the shape does not have.
  Judge(const Object& object, const Shape& root, bool is_open, Findings& findings)
      : object_(object), root_(root), is_open_(is_open), findings_(findings) {}
  void all(const Value& value, const std::string& path = "") { map(value, root_, path); }

 private:
  void map(const Value& value, const Shape& shape, const std::string& path) {
    for (const Member& member : value.members) {
      if (findings_.is_full()) return;
      const ShapeKey* key = shape.find(member.key);
      if (key == nullptr) unknown(member, shape, path);
      else if (member.value->is_there()) within(*member.value, *key, key->around, path + member.key, member.place);
    }
    if (object_.form == Form::values) return;  // The chart fills in missing keys.
    std::vector<std::string_view> missing;
    for (const ShapeKey& key : shape.keys) {
      if (key.is_required && !key.has_default && !value[key.name].is_there()) missing.push_back(key.name);
    }
    if (missing.empty()) return;
    findings_.add("missing_key", object_, value.place,
                  {fmt::format("{} lacks {}", shown_path(path), fmt::join(missing, ", "))});
  }

  // The prefix of a map's keys in messages: "spec.gds.".
  std::string shown_path(const std::string& path) const {
    if (!path.empty()) return path.substr(0, path.size() - 1);
    return object_.form == Form::values ? "the chart" : object_.kind;
  }

  void unknown(const Member& member, const Shape& shape, const std::string& path) {
    const std::string_view near = near_key(shape, member.key);
    const std::string deeper = near.empty() ? deeper_key(shape, member.key) : "";
    const bool is_values = object_.form == Form::values;
    const char* rule = is_values ? "unknown_value" : "unknown_key";
    Findings::Text text{fmt::format("{} has no key '{}'", shown_path(path), core::shown(member.key))};
    const Misconception* known = misconception(member.key, path);
    if (known != nullptr) {
      text.remedy = known->remedy;
      if (*known->rule != '\0') rule = known->rule;
    } else if (!near.empty()) {
      text.remedy = fmt::format("Write '{}'.", near);
    } else if (!deeper.empty()) {
      text.remedy = fmt::format("Its place is {}{}.", path, deeper);
    } else if (const std::string elsewhere = only_place(member.key); !elsewhere.empty()) {
      text.remedy = fmt::format("Its place is {}.", elsewhere);
    } else if (is_open_) {
      text.severity = Severity::warning;
    }
    findings_.add(rule, object_, member.place, std::move(text));
  }

  // "" if there is none, or several.
  std::string only_place(std::string_view name) const {
    std::vector<std::string> places;
    add_places(root_, name, "", places);
    return places.size() == 1 ? places[0] : "";
  }

  static const Misconception* misconception(std::string_view key, std::string_view path) {
    const std::string_view place = path.substr(0, path.size() - (path.empty() ? 0 : 1));
    const auto* found = std::find_if(std::begin(kMisconceptions), std::end(kMisconceptions),
                                     [&](const Misconception& one) { return one.place == place && one.key == key; });
    return found == std::end(kMisconceptions) ? nullptr : found;
  }

  // `around`: the lists and maps that still enclose the value, the outermost last.
  void within(const Value& value, const ShapeKey& key, std::string_view around, const std::string& path, Place place) {
    if (around.empty()) return leaf(value, key, path, place);
    const bool is_list = around.ends_with("[]");
    if (is_list ? !value.is_list() : !value.is_map()) {
      findings_.add("wrong_type", object_, place,
                    {fmt::format("{} must be {}, not {}", path, is_list ? "a list" : "a map", shown_value(value))});
      return;
    }
    const std::string_view inner = around.substr(0, around.size() - 2);
    for (std::size_t i = 0; i < value.members.size(); ++i) {
      const Member& member = value.members[i];
      if (!is_list && !member.value->is_there()) continue;
      within(*member.value, key, inner, is_list ? fmt::format("{}[{}]", path, i) : path + "." + core::shown(member.key),
             member.place);
    }
  }

  void leaf(const Value& value, const ShapeKey& key, const std::string& path, Place place) {
    if (!fits_kind(key, value)) {
      const bool needs_quotes = key.kind == ShapeKind::text && !value.is_list() && !value.is_map() && value.is_there();
      findings_.add("wrong_type", object_, place,
                    {fmt::format("{} must be {}, not {}", path, expected_name(key), shown_value(value)),
                     needs_quotes ? fmt::format("Write it in quotes: \"{}\".", core::shown(value.text)) : ""});
      return;
    }
    if (key.kind == ShapeKind::object) map(value, *key.shape, path + ".");
    else if (value.is_text()) text(value, key, path, place);
    else if (value.kind == Kind::integer) number(value, key, path, place);
  }

  void text(const Value& value, const ShapeKey& key, const std::string& path, Place place) {
    std::string expected;
    if (!key.choices.empty() && std::find(key.choices.begin(), key.choices.end(), value.text) == key.choices.end()) {
      expected = fmt::format("one of {}", fmt::join(key.choices, ", "));
    } else if (key.pattern != nullptr && !key.pattern->matches(value.text)) {
      expected = key.pattern->meaning;
    } else if (letters_of(value.text) < key.shortest.value_or(0)) {
      expected = fmt::format("at least {} letters long", *key.shortest);
    } else if (letters_of(value.text) > key.longest.value_or(SIZE_MAX)) {
      expected = fmt::format("at most {} letters long", *key.longest);
    }
    if (expected.empty()) return;
    findings_.add("wrong_value", object_, place,
                  {fmt::format("{} must be {}, not '{}'", path, expected, core::shown(value.text))});
  }

  void number(const Value& value, const ShapeKey& key, const std::string& path, Place place) {
    const bool is_low = value.integer < key.least.value_or(INT64_MIN);
    const bool is_high = value.integer > key.most.value_or(INT64_MAX);
    const bool is_wide = key.kind == ShapeKind::int32 && !is_int32(value.integer);
    if (!is_low && !is_high && !is_wide) return;
    const std::string expected = is_low    ? fmt::format("{} or more", *key.least)
                                 : is_high ? fmt::format("{} or less", *key.most)
                                           : "a number of 32 bits";
    findings_.add("out_of_range", object_, place,
                  {fmt::format("{} must be {}, not {}", path, expected, value.integer)});
  }

  const Object& object_;
  const Shape& root_;
  const bool is_open_;
  Findings& findings_;
};

void judge_metadata(const Object& object, const Shape& shape, Findings& findings) {
  const Value& metadata = object["metadata"];
  if (!metadata.is_map()) {
    findings.add("missing_key", object, place_of(object, "metadata"), {"metadata lacks name"});
    return;
  }
  Judge(object, shape, false, findings).all(metadata, "metadata.");
  if (!metadata["name"].is_there() && !metadata["generateName"].is_there()) {
    findings.add("missing_key", object, place_of(object, "metadata"), {"metadata lacks name"});
  }
  if (is_operator_kind(object.kind) && metadata["namespace"].is_text() && !metadata["namespace"].text.empty()) {
    findings.add("namespace_of_cluster", object, place_of(object, "metadata.namespace"),
                 {fmt::format("a {} is of the whole cluster, and of no namespace", object.kind)});
  }
  for (const Member& label : metadata["labels"].members) {
    if (is_label_key(label.key) && (!label.value->is_text() || is_label_value(label.value->text))) continue;
    findings.add("wrong_value", object, label.place,
                 {fmt::format("'{}' is no label with a value that Kubernetes takes", core::shown(label.key)),
                  "Up to 63 letters, digits, '-', '_' and '.', with a letter or digit at either end."});
  }
}

// Checks the expressions (CEL) of the definitions.
void judge_expressions(const Object& object, Findings& findings) {
  if (object.kind == "GPUCluster" && !object.name.empty() && object.name != "gpu-cluster") {
    findings.add("gpu_cluster_name", object, place_of(object, "metadata.name"),
                 {fmt::format("a GPUCluster is called gpu-cluster, not '{}'", core::shown(object.name))});
  }
  if (object.kind == "NVIDIADriver" && object["spec.default"].is_true() &&
      !object["spec.nodeSelector"].members.empty()) {
    findings.add("default_driver_selector", object, place_of(object, "spec.nodeSelector"),
                 {"a default NVIDIADriver must not have a nodeSelector"});
  }
}

// Read when first needed.
class Tables {
 public:
  explicit Tables(std::string_view version) : version_(version) {}
  const Shapes& gpu() { return read(gpu_, kGpuOperatorShapes, version_); }
  const Shapes& network() { return read(network_, kNetworkOperatorShapes, ""); }
  const Shapes& metadata() { return read(metadata_, kMetadataShapes, ""); }
  const Shapes& pods() { return read(pods_, kPodShapes, ""); }
  const Shapes& values() {
    if (!values_) values_.emplace(kGpuOperatorShapes, version_).add(kGpuOperatorValues);
    return *values_;
  }

 private:
  static const Shapes& read(std::optional<Shapes>& shapes, std::string_view table, std::string_view version) {
    if (!shapes) shapes.emplace(table, version);
    return *shapes;
  }
  const std::string_view version_;
  std::optional<Shapes> gpu_, network_, metadata_, pods_, values_;
};

void judge_resource(const Object& object, Tables& tables, Findings& findings) {
  if (is_of_kubernetes(object)) judge_metadata(object, *tables.metadata().find("metadata", "v1"), findings);
  if (!is_operator_kind(object.kind)) return;
  const Shapes& shapes = object.api_version.starts_with("mellanox.com/") ? tables.network() : tables.gpu();
  const Shape* shape = shapes.find(object.kind, object.api_version);
  if (shape == nullptr) {
    findings.add("unknown_kind", object, place_of(object, "kind"),
                 {fmt::format("{} {} is not known in release {}", core::shown(object.api_version), object.kind,
                              shapes.version())});
    return;
  }
  judge_metadata(object, *tables.metadata().find("metadata", "v1"), findings);
  Value top = *object.root;
  std::erase_if(top.members, [](const Member& member) {
    return member.key == "apiVersion" || member.key == "kind" || member.key == "metadata" || member.key == "status";
  });
  Judge(object, *shape, false, findings).all(top);
  // If the release has no such key, that was reported already.
  const ShapeKey* spec = shape->find("spec");
  const bool knows_default = spec != nullptr && spec->shape != nullptr && spec->shape->find("default") != nullptr;
  if (object.kind != "NVIDIADriver" || knows_default) judge_expressions(object, findings);
}

void judge_pod(const Pod& pod, Tables& tables, Findings& findings) {
  if (!is_of_kubernetes(*pod.object)) return;
  const char* path = pod.object->kind == "Pod"       ? "spec."
                     : pod.object->kind == "CronJob" ? "spec.jobTemplate.spec.template.spec."
                                                     : "spec.template.spec.";
  // Newer releases of Kubernetes have more keys.
  Judge(*pod.object, *tables.pods().find("pod", "v1"), true, findings).all(*pod.spec, path);
}

}  // namespace

void judge_all(const Cluster& cluster, Findings& findings) {
  Tables tables(cluster.facts.operator_version);
  for (const Object& object : cluster.objects) {
    if (object.form == Form::resource) judge_resource(object, tables, findings);
    if (object.form != Form::values) continue;
    const Shape& policy = *tables.values().find("ClusterPolicy", "nvidia.com/v1");
    // A parent chart may have its own values in the same file.
    Judge(object, *policy.find("spec")->shape, true, findings).all(*object.root);
  }
  for (const Pod& pod : cluster.pods) judge_pod(pod, tables, findings);
}

}  // namespace penstock::tools::k8s
