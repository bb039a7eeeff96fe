// SPDX-License-Identifier: Apache-2.0

// Finds placeholders that `penstock-k8s render` and recipes leave for the user to replace.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "k8s/checks.h"
#include "k8s/patterns.h"
#include "settings/words.h"

namespace penstock::tools::k8s {
namespace {

constexpr std::string_view kHostname = "kubernetes.io/hostname";

void check_node_name(const Object& object, const Value& name, Findings& findings) {
  if (!name.is_text() || is_subdomain(name.text)) return;
  findings.add("placeholder", object, name.place,
               {fmt::format("no node is called '{}': names of nodes are small letters", core::shown(name.text)),
                "Write the node's name, as kubectl get nodes shows it."});
}

// Checks selectors and affinities anywhere in a pod or volume.
void check_node_names(const Object& object, const Value& value, Findings& findings) {
  if (value["key"].text == kHostname) {
    for (const Member& name : value["values"].members) check_node_name(object, *name.value, findings);
  }
  for (const Member& member : value.members) {
    if (member.key == kHostname) check_node_name(object, *member.value, findings);
    check_node_names(object, *member.value, findings);
  }
}

void check_image(const Pod& pod, const Value& container, Findings& findings) {
  const Value& image = container["image"];
  if (!image.is_text()) return;
  const std::string registry = image.text.substr(0, image.text.find('/'));
  const bool is_shouted = registry != image.text && !registry.empty() &&
                          std::all_of(registry.begin(), registry.end(),
                                      [](char letter) { return (letter >= 'A' && letter <= 'Z') || letter == '_'; });
  if (registry == "localhost" && registry != image.text && container["imagePullPolicy"].text != "Never") {
    findings.add("placeholder", *pod.object, image.place,
                 {fmt::format("'{}' is an image that each node would have to have by itself", core::shown(image.text)),
                  "Name a registry's, or say imagePullPolicy: Never where each node has it."});
  } else if (is_shouted) {
    findings.add("placeholder", *pod.object, image.place,
                 {fmt::format("'{}' is no registry's name", core::shown(registry)), "Write that of yours."});
  }
}

}  // namespace

void check_placeholders(const Cluster& cluster, Findings& findings) {
  for (const Pod& pod : cluster.pods) {
    if (!is_of_kubernetes(*pod.object)) continue;
    for (const Value* container : pod.containers()) check_image(pod, *container, findings);
    check_node_names(*pod.object, (*pod.spec)["nodeSelector"], findings);
    check_node_names(*pod.object, (*pod.spec)["affinity"], findings);
  }
  for (const Object* volume : cluster.of_kind("PersistentVolume")) {
    check_node_names(*volume, (*volume)["spec.nodeAffinity"], findings);
  }
}

}  // namespace penstock::tools::k8s
