// SPDX-License-Identifier: Apache-2.0

// The input of a lint: objects of all files, Helm values, and the known facts of the nodes. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "k8s/manifest.h"

namespace penstock::tools::k8s {

enum class Form : std::uint8_t {
  file,      // A whole file, for findings before its form is known.
  resource,  // An object with an apiVersion and a kind.
  values,    // Values of the gpu-operator's Helm chart.
  cufile,    // A cufile.json file.
};

constexpr const char* kReleaseLabel = "app.kubernetes.io/version";  // By it a rendered chart tells its release.

struct Object {
  const Manifest* manifest = nullptr;
  Form form = Form::file;
  const Value* root = &kNothing;
  std::string api_version;
  std::string kind;
  std::string name;
  std::string space;  // The namespace; "" if none is given.

  const Value& operator[](std::string_view keys) const { return (*root)[keys]; }
  std::string title() const;  // "DaemonSet reader"; "" for a file.
};

std::string label_of(const Object& object, std::string_view name);  // "" without the label.

// The place of a key, or of its nearest existing parent.
Place place_of(const Value& map, std::string_view keys);
inline Place place_of(const Object& object, std::string_view keys) { return place_of(*object.root, keys); }

// Facts of the machines, from the user or from Node objects; "" if unknown.
struct Facts {
  std::string operator_version;
  std::string os;       // "ubuntu24.04", "rocky9", "rhcos4.18"
  std::string runtime;  // "containerd-2.1", "cri-o", "docker-25"
  std::string kernel;   // "6.8.0-51-generic"
};

// A pod or a pod template.
struct Pod {
  const Object* object = nullptr;
  const Value* metadata = &kNothing;
  const Value* spec = &kNothing;

  std::vector<const Value*> containers() const;  // All containers, init containers first.
  bool asks_for_gpu() const;
  bool uses_gds() const;  // True if NVIDIA_GDS, cuFile's variables or configuration, or its programs show it.
};

// A driver as ClusterPolicy, NVIDIADriver or Helm values describe it.
struct DriverSetup {
  const Object* object = nullptr;
  std::string driver;  // The path of the driver's keys: "spec.driver", "spec", "driver".
  std::string top;     // The path of gds and gdrcopy: "spec", "".

  const Value& driver_value(std::string_view keys) const { return (*object)[driver_key(keys)]; }
  const Value& top_value(std::string_view keys) const { return (*object)[top_key(keys)]; }
  std::string driver_key(std::string_view keys) const { return joined(driver, keys); }
  std::string top_key(std::string_view keys) const { return joined(top, keys); }
  bool is_values() const { return object->form == Form::values; }
  bool is_nvidia_driver() const { return object->kind == "NVIDIADriver"; }
  bool has_gds() const { return top_value("gds.enabled").is_true(); }

 private:
  static std::string joined(const std::string& head, std::string_view keys) {
    return head.empty() ? std::string(keys) : head + "." + std::string(keys);
  }
};

struct Cluster {
  std::deque<Manifest> manifests;
  std::deque<Object> files;    // One entry per manifest.
  std::deque<Object> objects;  // All readable objects.
  Facts facts;
  const Object* release_source = nullptr;  // The object whose label told facts.operator_version; null for an option.
  std::vector<Pod> pods;
  std::vector<DriverSetup> drivers;

  const std::vector<const Object*>& of_kind(std::string_view kind) const;
  const Object* find(std::string_view kind, std::string_view name) const;  // The first match; null if there is none.
  bool has_gds() const;                                                    // True if any driver has it on.
  bool concerns_gds() const;                                               // True if also a pod uses it.

  // Index by kind, and by "KIND NAME": a hundred thousand pods may each look their namespace up.
  std::map<std::string, std::vector<const Object*>, std::less<>> by_kind;
  std::unordered_map<std::string, const Object*> by_name;
};

// The kinds of the operators, by their own API groups alone: Kyverno has a ClusterPolicy, too.
bool is_operator_kind(std::string_view kind);
// The policies of the network operator: of the whole cluster, and of groups of nodes.
std::vector<const Object*> nic_policies(const Cluster& cluster);

// Fills in everything but manifests and facts; adds facts from Node objects and a chart's labels.
void look_through(Cluster& cluster);
void look_at_objects(Cluster& cluster);  // The same for existing objects, whose manifests are elsewhere.

// Converts the node's own texts: "Ubuntu 24.04.1 LTS" to ubuntu24.04, others to their letters and digits;
// "containerd://2.1.4" to containerd-2.1.4.
std::string os_of_image(std::string_view image);
std::string runtime_of(std::string text);
// A node's system as the operator takes it for its images: by the labels of Node Feature Discovery, else by its own
// text. OpenShift's CoreOS may call itself RHEL there.
std::string os_of_node(const Object& node);
// True if the text names another system than Linux, or none.
bool is_other_system(std::string_view os);

// Visits each text in a value, and in the members of lists and maps.
template <typename Visit>
void each_text(const Value& value, Visit visit) {
  if (value.is_text()) visit(value);
  for (const Member& member : value.members) each_text(*member.value, visit);
}

// True for Kubernetes' own API groups; objects of other groups may only look like a pod.
bool is_of_kubernetes(const Object& object);

bool has_part(std::string_view text, std::string_view part);  // Case-insensitive.

}  // namespace penstock::tools::k8s
