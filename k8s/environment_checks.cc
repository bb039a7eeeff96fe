// SPDX-License-Identifier: Apache-2.0

// Checks Penstock's variables in the env of containers, as the library does where a session opens with them.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/printable.h"
#include "facts/process.h"
#include "k8s/checks.h"
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

// The place of a variable's name or value. The last variable of a name counts.
Place place_in(const Value& container, std::string_view name, const char* key) {
  Place place = container.place;
  for (const Member& member : container["env"].members) {
    if ((*member.value)["name"].text == name) place = place_of(*member.value, key);
  }
  return place;
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

}  // namespace

void check_environment(const Cluster& cluster, Findings& findings) {
  for (const Pod& pod : cluster.pods) {
    for (const Value* container : pod.containers()) {
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
