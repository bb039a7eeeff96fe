// SPDX-License-Identifier: Apache-2.0

// Compares the Pod Security level that a pod needs, by the standard's list, with the level that its namespace enforces.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "k8s/checks.h"
#include "settings/words.h"

namespace penstock::tools::k8s {
namespace {

using Words = std::vector<std::string>;

template <std::size_t kSize>
bool is_among(std::string_view word, const std::string_view (&words)[kSize]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

constexpr std::string_view kCapabilities[] = {"AUDIT_WRITE", "CHOWN",      "DAC_OVERRIDE",    "FOWNER", "FSETID",
                                              "KILL",        "MKNOD",      "SETFCAP",         "SETGID", "SETPCAP",
                                              "SETUID",      "SYS_CHROOT", "NET_BIND_SERVICE"};
constexpr std::string_view kSysctls[] = {
    "kernel.shm_rmid_forced",       "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies",      "net.ipv4.ping_group_range",    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",  "net.ipv4.tcp_fin_timeout",     "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes"};
constexpr std::string_view kLinuxTypes[] = {"", "container_t", "container_init_t", "container_kvm_t",
                                            "container_engine_t"};
constexpr std::string_view kVolumes[] = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"};

void add_of_context(const Value& context, Words& reasons) {
  if (context["seccompProfile.type"].text == "Unconfined") reasons.push_back("seccomp Unconfined");
  if (context["appArmorProfile.type"].text == "Unconfined") reasons.push_back("AppArmor Unconfined");
  if (context["windowsOptions.hostProcess"].is_true()) reasons.push_back("hostProcess");
  const Value& linux_options = context["seLinuxOptions"];
  if (!is_among(linux_options["type"].text, kLinuxTypes) || !linux_options["user"].text.empty() ||
      !linux_options["role"].text.empty()) {
    reasons.push_back("seLinuxOptions");
  }
}

void add_of_container(const Value& container, Words& reasons) {
  const Value& context = container["securityContext"];
  if (context["privileged"].is_true()) reasons.push_back("privileged");
  for (const Member& capability : context["capabilities.add"].members) {
    if (!is_among(capability.value->text, kCapabilities)) reasons.push_back("capability " + capability.value->text);
  }
  for (const Member& port : container["ports"].members) {
    if ((*port.value)["hostPort"].integer != 0) reasons.push_back("hostPort");
  }
  const Value& proc = context["procMount"];
  if (proc.is_there() && proc.text != "Default") reasons.push_back("procMount");
  add_of_context(context, reasons);
}

// The settings of a pod that a namespace of level baseline forbids.
Words above_baseline(const Pod& pod) {
  Words reasons;
  for (const char* key : {"hostNetwork", "hostPID", "hostIPC"}) {
    if ((*pod.spec)[key].is_true()) reasons.push_back(key);
  }
  for (const Member& volume : (*pod.spec)["volumes"].members) {
    const Value& host = (*volume.value)["hostPath"];
    if (host.is_there()) reasons.push_back("hostPath " + host["path"].text);
  }
  for (const Member& one : (*pod.spec)["securityContext.sysctls"].members) {
    if (!is_among((*one.value)["name"].text, kSysctls)) reasons.push_back("sysctl " + (*one.value)["name"].text);
  }
  add_of_context((*pod.spec)["securityContext"], reasons);
  for (const Value* container : pod.containers()) add_of_container(*container, reasons);
  return reasons;
}

void add_strict_container(const Pod& pod, const Value& container, Words& reasons) {
  const Value& own = container["securityContext"];
  const Value& of_pod = (*pod.spec)["securityContext"];
  const auto in_force = [&](const char* key) -> const Value& { return own[key].is_there() ? own[key] : of_pod[key]; };
  if (!own["allowPrivilegeEscalation"].is_false()) reasons.push_back("allowPrivilegeEscalation is not false");
  if (!in_force("runAsNonRoot").is_true()) reasons.push_back("runAsNonRoot is not true");
  const Value& user = in_force("runAsUser");
  if (user.kind == Kind::integer && user.integer == 0) reasons.push_back("runAsUser 0");
  const std::string& profile = in_force("seccompProfile")["type"].text;
  if (profile != "RuntimeDefault" && profile != "Localhost") reasons.push_back("no seccompProfile");
  const auto& dropped = own["capabilities.drop"].members;
  const bool drops_all =
      std::any_of(dropped.begin(), dropped.end(), [](const Member& one) { return one.value->text == "ALL"; });
  if (!drops_all) reasons.push_back("capabilities.drop lacks ALL");
  for (const Member& capability : own["capabilities.add"].members) {
    if (capability.value->text != "NET_BIND_SERVICE") reasons.push_back("capability " + capability.value->text);
  }
}

// The settings of a pod that a namespace of level restricted forbids.
Words above_restricted(const Pod& pod) {
  Words reasons = above_baseline(pod);
  for (const Member& volume : (*pod.spec)["volumes"].members) {
    for (const Member& source : volume.value->members) {
      const bool is_source = source.key != "name" && source.key != "hostPath";
      if (is_source && !is_among(source.key, kVolumes)) reasons.push_back("volume " + source.key);
    }
  }
  for (const Value* container : pod.containers()) add_strict_container(pod, *container, reasons);
  return reasons;
}

std::string joined(Words reasons) {
  constexpr std::size_t kShownMax = 12;
  std::sort(reasons.begin(), reasons.end());
  reasons.erase(std::unique(reasons.begin(), reasons.end()), reasons.end());
  const std::size_t number = reasons.size();
  reasons.resize(std::min(number, kShownMax));
  for (std::string& reason : reasons) reason = core::shown(reason);
  return fmt::format("{}{}", fmt::join(reasons, ", "), number > kShownMax ? " and more" : "");
}

std::string level_of(const Cluster& cluster, const std::string& space) {
  const Object* found = cluster.find("Namespace", space.empty() ? "default" : space);
  if (found == nullptr) return "";
  const Member* label = (*found)["metadata.labels"].member("pod-security.kubernetes.io/enforce");
  return label == nullptr ? "" : label->value->text;
}

// A hostPath has another remedy if it brings devices than if it brings data.
std::string remedy_for_baseline(const Pod& pod) {
  bool has_device = false, has_data = false;
  for (const Member& volume : (*pod.spec)["volumes"].members) {
    const Value& host = (*volume.value)["hostPath"];
    const std::string path = host["path"].text + "/";
    const bool is_device = path.starts_with("/dev/") || path.starts_with("/sys/") || path.starts_with("/run/");
    has_device = has_device || (host.is_there() && is_device);
    has_data = has_data || (host.is_there() && !is_device);
  }
  std::string remedy = "Label its namespace pod-security.kubernetes.io/enforce: privileged, or do without";
  if (has_device) remedy += "; CDI brings devices without hostPath";
  if (has_data) remedy += "; a PersistentVolumeClaim of a local volume brings the same data without hostPath";
  return remedy + ".";
}

void check_operators_namespaces(const Cluster& cluster, Findings& findings) {
  for (const Object* space : cluster.of_kind("Namespace")) {
    if (space->name != "gpu-operator" && space->name != "nvidia-gpu-operator" &&
        space->name != "nvidia-network-operator") {
      continue;
    }
    const std::string level = level_of(cluster, space->name);
    if (level != "baseline" && level != "restricted") continue;
    findings.add(
        "pod_security_refused", *space, place_of(*space, "metadata.labels"),
        {fmt::format("the drivers' pods are privileged, and level {} refuses them", level),
         "Label the namespace pod-security.kubernetes.io/enforce: privileged; the chart does by psa.enabled."});
  }
}

}  // namespace

void check_pod_security(const Cluster& cluster, Findings& findings) {
  check_operators_namespaces(cluster, findings);
  for (const Pod& pod : cluster.pods) {
    const std::string level = level_of(cluster, pod.object->space);
    const Words baseline = above_baseline(pod);
    const Words refused = level == "restricted" ? above_restricted(pod) : level == "baseline" ? baseline : Words{};
    if (!refused.empty()) {
      findings.add("pod_security_refused", *pod.object, pod.spec->place,
                   {fmt::format("its namespace enforces level {}, which refuses: {}", level, joined(refused))});
    } else if (!baseline.empty() && level.empty() && (pod.asks_for_gpu() || pod.uses_gds())) {
      findings.add("pod_security_level", *pod.object, pod.spec->place,
                   {fmt::format("it needs a namespace of level privileged, for: {}", joined(baseline)),
                    remedy_for_baseline(pod)});
    }
  }
}

}  // namespace penstock::tools::k8s
