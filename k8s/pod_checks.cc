// SPDX-License-Identifier: Apache-2.0

// Checks pods that use a GPU: their privileges, devices and memory.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "facts/operator_versions.h"
#include "k8s/checks.h"
#include "settings/words.h"

namespace penstock::tools::k8s {
namespace {

bool adds(const Value& container, std::string_view capability) {
  const auto& added = container["securityContext.capabilities.add"].members;
  return std::any_of(added.begin(), added.end(), [&](const Member& one) { return one.value->text == capability; });
}

bool is_not_root(const Pod& pod, const Value& container) {
  const Value& user = setting_of(pod, container, "runAsUser");
  return setting_of(pod, container, "runAsNonRoot").is_true() || (user.kind == Kind::integer && user.integer != 0);
}

bool has_rdma_device(const Value& container) {
  const auto& limits = container["resources.limits"].members;
  return std::any_of(limits.begin(), limits.end(), [](const Member& one) { return one.key.starts_with("rdma/"); });
}

void check_rights(const Pod& pod, const Value& container, Findings& findings) {
  const Place place = place_of(container, "securityContext");
  if (container["securityContext.privileged"].is_true()) {
    findings.add("workload_privileged", *pod.object, place_of(container, "securityContext.privileged"),
                 {"neither nvidia-fs nor P2PDMA asks a workload to be privileged"});
  }
  if (adds(container, "SYS_ADMIN")) {
    findings.add("workload_sys_admin", *pod.object, place_of(container, "securityContext.capabilities.add"),
                 {"no path of GPUDirect Storage asks a workload for SYS_ADMIN"});
  }
  if (adds(container, "IPC_LOCK") && is_not_root(pod, container)) {
    findings.add("ipc_lock_of_nobody", *pod.object, place_of(container, "securityContext.capabilities.add"),
                 {"IPC_LOCK has effect for root alone, and this container runs as another user"});
  } else if (has_rdma_device(container) && !adds(container, "IPC_LOCK")) {
    findings.add("memlock", *pod.object, place.line > 0 ? place : container.place,
                 {"RDMA locks memory, and the container has no more of it than its runtime's LimitMEMLOCK"});
  }
}

void check_profile_form(const Pod& pod, const Value& context, Findings& findings) {
  const Value& profile = context["seccompProfile"];
  if (!profile.is_map()) return;
  const bool is_local = profile["type"].text == "Localhost";
  if (is_local == profile["localhostProfile"].is_there()) return;
  findings.add("seccomp_profile_form", *pod.object, place_of(context, "seccompProfile"),
               {is_local ? "a profile of type Localhost must name its file: localhostProfile"
                         : "localhostProfile goes with type Localhost alone"});
}

void check_io_uring(const Cluster& cluster, const Pod& pod, const Value& container, Findings& findings) {
  if (!asks_for_io_uring(pod, container)) return;
  const Value& type = setting_of(pod, container, "seccompProfile.type");
  if (type.text == "Localhost" || type.text == "Unconfined") return;
  const auto allowed = facts::allows_io_uring(cluster.facts.runtime);
  if (allowed == true) return;
  const Place place = type.is_there() ? type.place : container.place;
  if (!type.is_there()) {
    findings.add(
        "io_uring_blocked", *pod.object, place,
        {"whether io_uring is allowed depends on the kubelet's seccompDefault and on the runtime", "", Severity::note});
  } else if (!allowed) {
    findings.add("io_uring_blocked", *pod.object, place,
                 {"whether RuntimeDefault allows io_uring depends on the container runtime",
                  "Name the runtime with --runtime.", Severity::note});
  } else {
    findings.add("io_uring_blocked", *pod.object, place,
                 {fmt::format("RuntimeDefault of {} blocks io_uring", core::shown(cluster.facts.runtime))});
  }
}

void check_devices(const Pod& pod, const Value& container, bool has_gpu, Findings& findings) {
  for (const Member& variable : container["env"].members) {
    const Value& one = *variable.value;
    if (one["name"].text != "NVIDIA_GDS" || has_gpu) continue;
    findings.add("gds_without_gpu", *pod.object, place_of(one, "name"),
                 {"a pod that asks for no nvidia.com/gpu gets no device injected, whatever NVIDIA_GDS says"});
  }
}

// Reports once per volume that a memory volume is used as a drive.
void check_memory_volumes(const Pod& pod, Findings& findings) {
  std::multimap<std::string, std::string> mounts;  // Mount paths, by the volume's name.
  for (const Value* container : pod.containers()) {
    for (const Member& mount : (*container)["volumeMounts"].members) {
      mounts.emplace((*mount.value)["name"].text, (*mount.value)["mountPath"].text);
    }
  }
  for (const Member& volume : (*pod.spec)["volumes"].members) {
    const Value& one = *volume.value;
    if (one["emptyDir.medium"].text != "Memory") continue;
    std::string names = one["name"].text;
    const auto [first, last] = mounts.equal_range(names);
    for (auto mount = first; mount != last; ++mount) names += " " + mount->second;
    const bool is_shm = has_part(names, "/dev/shm");
    if (is_shm || !(has_part(names, "nvme") || has_part(names, "ssd") || has_part(names, "gds"))) continue;
    findings.add("memory_is_no_drive", *pod.object, place_of(one, "emptyDir.medium"),
                 {fmt::format("the volume '{}' is host memory (tmpfs), and no drive", core::shown(one["name"].text))});
  }
}

std::set<std::string> volumes_of(const Pod& pod) {
  std::set<std::string> volumes;
  for (const Member& volume : (*pod.spec)["volumes"].members) volumes.insert((*volume.value)["name"].text);
  for (const Member& claim : (*pod.object)["spec.volumeClaimTemplates"].members) {
    volumes.insert((*claim.value)["metadata.name"].text);
  }
  return volumes;
}

void check_mounts(const Pod& pod, const Value& container, const std::set<std::string>& volumes, Findings& findings) {
  for (const char* list : {"volumeMounts", "volumeDevices"}) {
    for (const Member& mount : container[list].members) {
      const Value& one = *mount.value;
      // A container without an image is a patch; its pod has the volume.
      if (container["image"].is_there() && !volumes.contains(one["name"].text)) {
        findings.add("mount_of_nothing", *pod.object, place_of(one, "name"),
                     {fmt::format("there is no volume '{}' in this pod", core::shown(one["name"].text))});
      }
      const bool is_privileged = container["securityContext.privileged"].is_true();
      if (one["mountPropagation"].text != "Bidirectional" || is_privileged) continue;
      findings.add("mount_propagation", *pod.object, place_of(one, "mountPropagation"),
                   {"Bidirectional is for privileged containers alone"});
    }
  }
}

// Warns about selecting a node by its kernel's version alone.
void check_kernel_labels(const Object& object, const Value& value, Findings& findings) {
  constexpr std::string_view kLabel = "feature.node.kubernetes.io/kernel-version";
  for (const Member& member : value.members) {
    if (member.key.starts_with(kLabel) || (member.key == "key" && member.value->text.starts_with(kLabel))) {
      findings.add("kernel_version_alone", object, member.place,
                   {"a kernel's version says nothing of whether its nvme, or P2PDMA, reaches a GPU"});
    }
    check_kernel_labels(object, *member.value, findings);
  }
}

}  // namespace

const Value& setting_of(const Pod& pod, const Value& container, const std::string& key) {
  const Value& own = container["securityContext"][key];
  return own.is_there() ? own : (*pod.spec)["securityContext"][key];
}

bool asks_for_io_uring(const Pod& pod, const Value& container) {
  if ((*pod.metadata)["annotations"].member("penstock.io/io-uring") != nullptr) return true;
  for (const Member& variable : container["env"].members) {
    if ((*variable.value)["name"].text == "PENSTOCK_IO_URING" && (*variable.value)["value"].text != "off") return true;
  }
  bool found = false;
  for (const char* key : {"command", "args"}) {
    each_text(container[key], [&](const Value& text) { found = found || has_part(text.text, "io_uring"); });
  }
  return found;
}

void check_pods(const Cluster& cluster, Findings& findings) {
  for (const Pod& pod : cluster.pods) {
    const bool has_gpu = pod.asks_for_gpu(), uses_gds = pod.uses_gds();
    const std::set<std::string> volumes = volumes_of(pod);
    check_profile_form(pod, (*pod.spec)["securityContext"], findings);
    for (const Value* container : pod.containers()) {
      check_mounts(pod, *container, volumes, findings);
      check_profile_form(pod, (*container)["securityContext"], findings);
      check_io_uring(cluster, pod, *container, findings);
      if (has_gpu || uses_gds) check_rights(pod, *container, findings);
      check_devices(pod, *container, has_gpu, findings);
    }
    check_memory_volumes(pod, findings);
    if (has_gpu && (*pod.spec)["hostUsers"].is_false()) {
      findings.add("host_users", *pod.object, place_of(*pod.spec, "hostUsers"),
                   {"hostUsers: false does not work with the CDI hook that brings the GPU's devices"});
    }
    if (uses_gds) check_kernel_labels(*pod.object, *pod.spec, findings);
  }
  for (const Object* driver : cluster.of_kind("NVIDIADriver")) check_kernel_labels(*driver, *driver->root, findings);
}

}  // namespace penstock::tools::k8s
