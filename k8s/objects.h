// SPDX-License-Identifier: Apache-2.0

// What a lint looks at together: objects of all files, Helm values, and what is known of the nodes. Pure.
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
  file,      // As a whole: for what is said of it before it is known what it is.
  resource,  // Has an apiVersion and a kind.
  values,    // Of the gpu-operator's Helm chart.
  cufile,    // A cufile.json by itself.
};

struct Object {
  const Manifest* manifest = nullptr;
  Form form = Form::file;
  const Value* root = &kNothing;
  std::string api_version;
  std::string kind;
  std::string name;
  std::string space;  // The namespace; "" where none is said.

  const Value& operator[](std::string_view keys) const { return (*root)[keys]; }
  std::string title() const;  // "DaemonSet reader"; "" for a file.
};

// The place of a key, or of the nearest one above it that is there.
Place place_of(const Value& map, std::string_view keys);
inline Place place_of(const Object& object, std::string_view keys) { return place_of(*object.root, keys); }

// What the user said of the machines, or Node objects do; "" where nothing is known.
struct Facts {
  std::string operator_version;
  std::string os;       // "ubuntu24.04", "rocky9", "rhcos4.18"
  std::string runtime;  // "containerd-2.1", "cri-o", "docker-25"
  std::string kernel;   // "6.8.0-51-generic"
};

// A pod, or the template of one.
struct Pod {
  const Object* object = nullptr;
  const Value* metadata = &kNothing;
  const Value* spec = &kNothing;

  std::vector<const Value*> containers() const;  // All of them: first those of init.
  bool asks_for_gpu() const;
  bool uses_gds() const;  // Says so: by NVIDIA_GDS, cuFile's variables or configuration, or programs that it runs.
};

// A driver as ClusterPolicy, NVIDIADriver or Helm values describe it.
struct DriverSetup {
  const Object* object = nullptr;
  std::string driver;  // Where its keys are: "spec.driver", "spec", "driver".
  std::string top;     // Where gds and gdrcopy are: "spec", "".

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
  std::deque<Object> files;    // One for each manifest.
  std::deque<Object> objects;  // All that could be read.
  Facts facts;
  std::vector<Pod> pods;
  std::vector<DriverSetup> drivers;

  const std::vector<const Object*>& of_kind(std::string_view kind) const;
  const Object* find(std::string_view kind, std::string_view name) const;  // The first; null where there is none.
  bool has_gds() const;                                                    // Whether any driver here has it on.
  bool concerns_gds() const;                                               // Or a pod uses it.

  // By kind, and by "KIND NAME": a hundred thousand pods may each ask for their namespace.
  std::map<std::string, std::vector<const Object*>, std::less<>> by_kind;
  std::unordered_map<std::string, const Object*> by_name;
};

// Fills in all but manifests and facts; adds what Node objects and a chart's labels say to the facts.
void look_through(Cluster& cluster);
void look_at_objects(Cluster& cluster);  // The same of objects that are there already, whose manifests lie elsewhere.

// As nodes tell of themselves: "Ubuntu 24.04.1 LTS" is ubuntu24.04, of others their letters and digits;
// "containerd://2.1.4" is containerd-2.1.4.
std::string os_of_image(std::string_view image);
std::string runtime_of(std::string text);

// Each text in a value, and of a list's or map's all that are in it.
template <typename Visit>
void each_text(const Value& value, Visit visit) {
  if (value.is_text()) visit(value);
  for (const Member& member : value.members) each_text(*member.value, visit);
}

// Of its own groups: what others have may look like a pod, and be none.
bool is_of_kubernetes(const Object& object);

bool has_part(std::string_view text, std::string_view part);  // In letters of either case.

}  // namespace penstock::tools::k8s
