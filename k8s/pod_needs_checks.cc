// SPDX-License-Identifier: Apache-2.0

// Checks whether pods that read files into a GPU's memory ask for what that needs: a GPU, a volume, io_uring, memory.
// These are the last checks, so that their notes take no place of an error.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "facts/operator_versions.h"
#include "facts/outlook.h"
#include "facts/process.h"
#include "k8s/checks.h"
#include "k8s/quantity.h"
#include "settings/names.h"
#include "settings/table.h"
#include "settings/words.h"

namespace penstock::tools::k8s {
namespace {

bool has_variable(const Value& container, std::string_view begin) {
  const auto& variables = container["env"].members;
  return std::any_of(variables.begin(), variables.end(),
                     [&](const Member& one) { return (*one.value)["name"].text.starts_with(begin); });
}

// True if a pod chooses nodes with GPUs, or has settings of Penstock's or cuFile's.
bool expects_gpu(const Pod& pod) {
  const auto& labels = (*pod.spec)["nodeSelector"].members;
  const auto& tolerations = (*pod.spec)["tolerations"].members;
  const auto containers = pod.containers();
  return pod.uses_gds() ||
         std::any_of(labels.begin(), labels.end(),
                     [](const Member& one) { return one.key.starts_with("nvidia.com/gpu"); }) ||
         std::any_of(tolerations.begin(), tolerations.end(),
                     [](const Member& one) { return (*one.value)["key"].text == "nvidia.com/gpu"; }) ||
         std::any_of(containers.begin(), containers.end(),
                     [](const Value* one) { return has_variable(*one, "PENSTOCK_"); });
}

// `penstock check --require PATH` asks about a machine, and reads no file.
bool only_checks(const Value& container) {
  const std::vector<const Value*> words = words_of(container);
  return std::any_of(words.begin(), words.end(), [](const Value* word) { return word->text == "check"; });
}

// True if a container of the pod fails where its bytes do not go around host memory.
bool requires_direct_path(const Pod& pod) {
  const auto containers = pod.containers();
  return std::any_of(containers.begin(), containers.end(), [](const Value* one) {
    return facts::is_direct_path(path_required_by(*one)) && !only_checks(*one);
  });
}

// A node may also give a GPU to a container that asks for none, by NVIDIA_VISIBLE_DEVICES.
void check_gpu(const Pod& pod, Findings& findings) {
  const auto containers = pod.containers();
  // The rule gds_without_gpu says it of these.
  if (std::any_of(containers.begin(), containers.end(),
                  [](const Value* one) { return has_variable(*one, "NVIDIA_GDS"); })) {
    return;
  }
  findings.add("no_gpu_asked", *pod.object, pod.spec->place,
               {"no container has nvidia.com/gpu in resources.limits: files would be read into host memory", "",
                requires_direct_path(pod) ? std::optional(Severity::warning) : std::nullopt});
}

// Volumes of a StatefulSet's own claims are seen by their mounts alone.
void check_volumes(const Pod& pod, Findings& findings) {
  const auto containers = pod.containers();
  const bool has_any = !(*pod.spec)["volumes"].members.empty() ||
                       std::any_of(containers.begin(), containers.end(), [](const Value* one) {
                         return !(*one)["volumeMounts"].members.empty() || !(*one)["volumeDevices"].members.empty();
                       });
  if (has_any) return;
  findings.add("no_volume", *pod.object, pod.spec->place,
               {"the pod has no volume: its files lie on the container's overlay, which hides the drive, so that no "
                "direct path serves them",
                "", requires_direct_path(pod) ? std::optional(Severity::error) : std::nullopt});
}

// Notes what is known of io_uring for a container that may use it, and does without it where it is blocked.
void check_ring(const Cluster& cluster, const Pod& pod, const Value& container, Findings& findings) {
  const Value& type = setting_of(pod, container, "seccompProfile.type");
  if (type.text == "Localhost" || type.text == "Unconfined" || asks_for_io_uring(pod, container)) return;
  const auto allowed = facts::allows_io_uring(cluster.facts.runtime);
  if (allowed == true) return;
  std::string sentence =
      "no seccompProfile is named: where the kubelet has seccompDefault, the runtime's own applies, ";
  if (type.is_there()) sentence = "seccompProfile is the runtime's own, ";
  sentence += allowed == false ? fmt::format("and that of {} blocks io_uring", core::shown(cluster.facts.runtime))
                               : "which blocks io_uring in Docker, and in containerd from 2.0 on";
  findings.add("io_uring_blocked", *pod.object, type.is_there() ? type.place : container.place,
               {sentence + "; preadv2 stands in: the same bytes for more CPU time", "", Severity::note});
}

long double gpus_of(const Value& container) {
  const Member* gpus = container["resources.limits"].member("nvidia.com/gpu");
  const auto number = gpus == nullptr ? std::nullopt : quantity_of(*gpus->value);
  return number ? number->amount : 0;
}

// MiB that Penstock may pin for each GPU, unless a setting says otherwise.
long double bounce_mib() {
  return static_cast<long double>(std::stoll(std::string(core::own_setting("bounce_mib")->row().initial)));
}

// A pod that misses its GPU is judged as if it had one.
void check_memory(const Pod& pod, const Value& container, Findings& findings) {
  const auto limit = quantity_of(container["resources.limits.memory"]);
  const long double gpus = pod.asks_for_gpu() ? gpus_of(container) : 1;
  const long double mib = gpus * bounce_mib();
  if (mib == 0 || has_variable(container, "PENSTOCK_BOUNCE_MIB")) return;
  if (!limit || limit->amount <= 0 || limit->amount >= mib * (1 << 20)) return;
  findings.add("memory_limit", *pod.object, place_of(container, "resources.limits.memory"),
               {fmt::format("the limit is less than the {:.0f} MiB of host memory that Penstock may pin for {}",
                            static_cast<double>(mib), pod.asks_for_gpu() ? "its GPUs" : "one GPU")});
}

}  // namespace

void check_pod_needs(const Cluster& cluster, Findings& findings) {
  for (const Pod& pod : cluster.pods) {
    const bool has_gpu = pod.asks_for_gpu();
    // A pod that comes alone is the one that the question is about. A process on each node serves, and asks for none.
    const bool is_of_each_node = pod.object->kind == "DaemonSet" && !pod.uses_gds();
    const bool is_asked_about = !is_of_each_node && (expects_gpu(pod) || cluster.pods.size() == 1);
    if (!has_gpu && !is_asked_about) continue;
    if (!has_gpu) check_gpu(pod, findings);
    if (has_gpu || expects_gpu(pod)) check_volumes(pod, findings);
    for (const Value* container : pod.containers()) {
      check_ring(cluster, pod, *container, findings);
      check_memory(pod, *container, findings);
    }
  }
}

}  // namespace penstock::tools::k8s
