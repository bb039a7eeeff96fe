// SPDX-License-Identifier: Apache-2.0

// Finds selectors that select nothing: labels from recipes that no pod has, and workloads that do not select their own
// pods.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_set>

#include "k8s/checks.h"
#include "settings/words.h"

namespace penstock::tools::k8s {
namespace {

using Labels = std::unordered_set<std::string>;  // Labels of all pods: "app=reader".

struct Legend {
  std::string_view app;
  const char* remedy;
};
constexpr Legend kLegends[] = {
    {"nvidia-fs-ctr", "Select app.kubernetes.io/component=nvidia-driver, and the container nvidia-fs-ctr in it."},
    {"nvidia-fs", "Select app.kubernetes.io/component=nvidia-driver, and the container nvidia-fs-ctr in it."},
    {"mofed-ubuntu", "Its label is app=mofed-<os><version>-<hash>: select nvidia.com/ofed-driver, or the container."},
};

const Legend* legend_of(std::string_view app) {
  const auto* found =
      std::find_if(std::begin(kLegends), std::end(kLegends), [&](const Legend& legend) { return legend.app == app; });
  return found == std::end(kLegends) ? nullptr : found;
}

void tell(const Object& object, Place place, const Legend& legend, Findings& findings) {
  findings.add("selector_of_legend", object, place,
               {fmt::format("no pod of the operators has the label app={}", legend.app), legend.remedy});
}

// Finds labels such as "app=nvidia-fs-ctr" in a script.
void check_text(const Labels& labels, const Object& object, const Value& text, Findings& findings) {
  for (std::size_t at = text.text.find("app="); at != std::string::npos; at = text.text.find("app=", at + 1)) {
    const std::string_view rest = std::string_view(text.text).substr(at + 4);
    const std::string_view app = rest.substr(0, rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz-0123456789"));
    const Legend* legend = legend_of(app);
    if (legend == nullptr || labels.contains("app=" + std::string(app))) continue;
    const auto lines = std::count(text.text.begin(), text.text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    const int below = text.is_block ? static_cast<int>(lines) + 1 : 0;
    tell(object, {text.place.line + below, below > 0 ? 1 : text.place.column}, *legend, findings);
    return;  // One finding per text is enough.
  }
}

void check_legends(const Labels& labels, const Object& object, const Value& value, Findings& findings) {
  for (const Member& member : value.members) {
    if (member.key == "matchLabels" || member.key == "selector") {
      const Value& app = (*member.value)["app"];
      const Legend* legend = app.is_text() ? legend_of(app.text) : nullptr;
      if (legend != nullptr && !labels.contains("app=" + app.text))
        tell(object, place_of(*member.value, "app"), *legend, findings);
    }
    if (member.value->is_text()) check_text(labels, object, *member.value, findings);
    check_legends(labels, object, *member.value, findings);
  }
}

void check_own_pods(const Object& object, Findings& findings) {
  const Value& labels = object["spec.template.metadata.labels"];
  for (const Member& wanted : object["spec.selector.matchLabels"].members) {
    const Member* label = labels.member(wanted.key);
    if (label != nullptr && label->value->text == wanted.value->text) continue;
    findings.add("selector_of_others", object, wanted.place,
                 {fmt::format("it selects pods by {}={}, and its own template has no such label",
                              core::shown(wanted.key), core::shown(wanted.value->text))});
  }
}

void check_service(const Labels& labels, const Object& object, Findings& findings) {
  const Value& selector = object[object.kind == "Service" ? "spec.selector" : "spec.selector.matchLabels"];
  if (selector.members.empty() || labels.empty()) return;
  const bool finds = std::all_of(selector.members.begin(), selector.members.end(), [&](const Member& wanted) {
    return labels.contains(wanted.key + "=" + wanted.value->text);
  });
  if (finds) return;
  findings.add("selector_of_nothing", object, place_of(object, "spec.selector"),
               {"no pod among these files has the labels that it selects"});
}

}  // namespace

void check_selectors(const Cluster& cluster, Findings& findings) {
  Labels labels;
  for (const Pod& pod : cluster.pods) {
    for (const Member& label : (*pod.metadata)["labels"].members) labels.insert(label.key + "=" + label.value->text);
  }
  for (const Object& object : cluster.objects) {
    if (object.form != Form::resource) continue;
    check_legends(labels, object, *object.root, findings);
    if (object["spec.template.spec"].is_there()) check_own_pods(object, findings);
    if (object.kind == "Service" || object.kind == "PodMonitor") check_service(labels, object, findings);
  }
}

}  // namespace penstock::tools::k8s
