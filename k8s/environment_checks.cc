// SPDX-License-Identifier: Apache-2.0

// Checks Penstock's variables in the env of containers, as the library does where a session opens with them, and
// whether a path that a container requires is switched on by them, and passes the nodes' kernel.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/printable.h"
#include "facts/process.h"
#include "k8s/checks.h"
#include "k8s/kernel_needs.h"
#include "k8s/nodes.h"
#include "penstock/penstock.h"
#include "settings/words.h"

namespace penstock::tools::k8s {
namespace {

// The value of a variable; "", which the library takes for unset, if a server takes it from elsewhere or composes it.
std::string value_of(const Value& variable) {
  const std::string& text = variable["value"].text;
  return text.find("$(") == std::string::npos ? text : "";
}

facts::Variables variables_of(const Value& container) {
  facts::Variables variables;
  for (const Member& member : container["env"].members) {
    const Value& one = *member.value;
    if (one["name"].text.starts_with(facts::kPrefix)) variables.emplace_back(one["name"].text, value_of(one));
  }
  return variables;
}

// The last variable of a name, which counts; null if it is not set.
const Value* variable_in(const Value& container, std::string_view name) {
  const Value* found = nullptr;
  for (const Member& member : container["env"].members) {
    if ((*member.value)["name"].text == name) found = member.value;
  }
  return found;
}

// The place of a variable's name or value.
Place place_in(const Value& container, std::string_view name, const char* key) {
  const Value* const variable = variable_in(container, name);
  return variable == nullptr ? container.place : place_of(*variable, key);
}

void tell(const Pod& pod, const Value& container, const core::Note& note, Findings& findings) {
  const std::size_t equals = note.place.find('=');
  const std::string_view name = std::string_view(note.place).substr(0, equals);
  const bool is_value = equals != std::string::npos;
  findings.add(is_value ? "penstock_value" : "penstock_name", *pod.object,
               place_in(container, name, is_value ? "value" : "name"),
               {core::printable(note.place + (is_value ? ": " : " ") + note.sentence), "",
                note.severity == core::Severity::error ? std::optional(Severity::error) : std::nullopt});
}

// True unless a server takes the value from elsewhere, or it switches the path on.
bool is_off(const Value* variable) {
  if (variable == nullptr) return true;
  return !(*variable)["valueFrom"].is_there() && !facts::switches_on((*variable)["value"].text);
}

// The kernels that a pod for a GPU may meet: those of all nodes with one. Where no node has the kernel that is known,
// it was given.
std::vector<std::string> kernels_for_gpus(const Cluster& cluster) {
  std::vector<std::string> all, of_gpus;
  for (const Object* object : cluster.of_kind("Node")) {
    const Node node = node_of(*object);
    all.push_back(node.kernel);
    if (node.has_gpu) of_gpus.push_back(node.kernel);
  }
  if (std::find(all.begin(), all.end(), cluster.facts.kernel) == all.end()) return {cluster.facts.kernel};
  return of_gpus.empty() ? all : of_gpus;
}

// A path is impossible only where no node has a kernel for it.
void check_required_kernel(const std::vector<std::string>& kernels, const Pod& pod, const Value& container,
                           Findings& findings) {
  const std::optional<RequiredPath> required = required_path(container);
  if (!required) return;
  std::optional<facts::Finding> stop;
  for (const std::string& kernel : kernels) {
    stop = kernel_stop(path_required_by(container), kernel);
    if (!stop) return;
  }
  findings.add("required_path_needs", *pod.object, required->place,
               {core::printable(fmt::format("{} is required, and {}", required->name, stop->sentence)), stop->remedy});
}

// True if the container has a volume as a block device, or its arguments name a device.
bool has_raw_drive(const Value& container) {
  const std::vector<const Value*> words = words_of(container);
  return !container["volumeDevices"].members.empty() || std::any_of(words.begin(), words.end(), [](const Value* word) {
    const std::string_view text = word->text;
    const bool is_for_words = text.starts_with("/dev/std") || text.starts_with("/dev/fd") || text == "/dev/null";
    return text.starts_with("/dev/") && !is_for_words && !text.starts_with("/dev/shm");
  });
}

// A map of a ConfigMap's or Secret's variables may have the switch.
void check_required_switch(const Pod& pod, const Value& container, Findings& findings) {
  const std::optional<RequiredPath> required = required_path(container);
  if (!required || !container["envFrom"].members.empty()) return;
  for (const facts::PathSwitch& one : facts::path_switches()) {
    if (required->name != one.path || !is_off(variable_in(container, one.variable))) continue;
    if (one.is_for_files && has_raw_drive(container)) continue;
    findings.add("required_path_off", *pod.object, required->place,
                 {fmt::format("{} is required, and is off without {}={}", one.path, one.variable, one.value),
                  fmt::format("Set {}={} in env, or require another path.", one.variable, one.value)});
  }
}

}  // namespace

std::vector<const Value*> words_of(const Value& container) {
  std::vector<const Value*> words;
  for (const char* list : {"command", "args"}) {
    for (const Member& word : container[list].members) words.push_back(word.value);
  }
  return words;
}

// A word may be a shell's line: "penstock bench --require p2pdma FILE".
std::optional<RequiredPath> required_path(const Value& container) {
  constexpr std::string_view kOption = "--require";
  bool is_next = false;
  std::string name;
  for (const Value* const word : words_of(container)) {
    core::any_word(word->text, [&](std::string_view part) {
      if (is_next) name = part;
      is_next = part == kOption;
      if (part.starts_with("--require=")) name = part.substr(kOption.size() + 1);
      return !name.empty();
    });
    const auto is_end = [](unsigned char c) { return std::isalnum(c) == 0 && c != '_'; };  // Such as ; or a quote.
    name.erase(name.begin(), std::find_if_not(name.begin(), name.end(), is_end));
    name.erase(std::find_if(name.begin(), name.end(), is_end), name.end());
    if (!name.empty()) return RequiredPath{name, word->place};
  }
  const Value* const variable = variable_in(container, "PENSTOCK_REQUIRE");
  if (variable == nullptr) return std::nullopt;
  const Value& value = (*variable)["value"];
  return RequiredPath{value.text, value.place};
}

int path_required_by(const Value& container) {
  const std::optional<RequiredPath> required = required_path(container);
  std::int32_t path = -1;
  if (required) penstock_path_by_name(required->name.c_str(), &path);
  return path;
}

void check_environment(const Cluster& cluster, Findings& findings) {
  const std::vector<std::string> kernels = kernels_for_gpus(cluster);
  for (const Pod& pod : cluster.pods) {
    for (const Value* container : pod.containers()) {
      check_required_switch(pod, *container, findings);
      check_required_kernel(kernels, pod, *container, findings);
      const facts::Variables variables = variables_of(*container);
      if (variables.empty()) continue;  // Most containers: asking the library takes longer.
      for (const core::Note& note : facts::notes_on(variables)) tell(pod, *container, note, findings);
      for (const auto& [name, value] : facts::sorted_by_use(variables).unknown) {
        if (!facts::nearest_setting(name).empty()) continue;  // The library has told of it.
        findings.add("penstock_name", *pod.object, place_in(*container, name, "name"),
                     {core::shown(name) + " is not a variable of Penstock", "", Severity::note});
      }
    }
  }
}

}  // namespace penstock::tools::k8s
