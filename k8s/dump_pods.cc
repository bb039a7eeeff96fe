// SPDX-License-Identifier: Apache-2.0

#include "k8s/dump_pods.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "k8s/rules.h"
#include "settings/words.h"
#include "tools/common/log_causes.h"
#include "tools/common/log_findings.h"

namespace penstock::tools::k8s {
namespace {

constexpr std::string_view kNvidiaFsContainer = "nvidia-fs-ctr";

constexpr std::string_view kPeermemContainer = "nvidia-peermem-ctr";

bool has_container(const Object& pod, std::string_view name) {
  const auto& containers = pod["spec.containers"].members;
  return std::any_of(containers.begin(), containers.end(),
                     [&](const Member& one) { return (*one.value)["name"].text == name; });
}

bool is_drivers(const Object& pod) {
  const Value& labels = pod["metadata.labels"];
  const Member* component = labels.member("app.kubernetes.io/component");
  const Member* app = labels.member("app");
  return (component != nullptr && component->value->text == "nvidia-driver") ||
         (app != nullptr && app->value->text.starts_with("nvidia-driver-daemonset"));
}

PathEvidence driver_evidence(const char* rule, Standing standing, std::string sentence, std::string remedy = "") {
  return {"", standing, rule, std::move(sentence), remedy.empty() ? find_rule(rule)->remedy : std::move(remedy)};
}

// "waits with CrashLoopBackOff, ended with exit code 127, started again 14 times"; "" for one that runs and is ready.
std::string trouble_of(const Value& status) {
  const Value& waiting = status["state.waiting"];
  const Value& ended = status["state.terminated"];
  std::vector<std::string> parts;
  if (status["ready"].is_true()) return "";
  if (waiting.is_map()) parts.push_back("waits with " + core::shown(waiting["reason"].text));
  for (const Value* end : {&ended, &status["lastState.terminated"]}) {
    const std::string& code = (*end)["exitCode"].text;
    if (!code.empty() && code != "0") parts.push_back("ended with exit code " + core::shown(code));
  }
  if (status["state.running"].is_map()) parts.emplace_back("runs and is not ready");
  if (parts.empty()) return "";
  const std::string& restarts = status["restartCount"].text;
  if (!restarts.empty() && restarts != "0") parts.push_back(fmt::format("was started again {} times", restarts));
  return fmt::format("{}", fmt::join(parts, ", "));
}

// A container that has just started proves nothing.
bool is_beginning(const Value& status) {
  const std::string& reason = status["state.waiting.reason"].text;
  const bool has_failed = status["lastState.terminated"].is_map() || status["state.terminated"].is_map();
  return !has_failed && (status["state.running"].is_map() || reason == "PodInitializing" ||
                         reason == "ContainerCreating" || reason.empty());
}

const LogCause* cause_in(const Value& status, const std::string& name) {
  for (const char* key : {"state.waiting", "state.terminated", "lastState.terminated"}) {
    const Value& state = status[key];
    const LogCause* cause = cause_of(name + " " + state["reason"].text + " " + state["message"].text);
    if (cause != nullptr) return cause;
  }
  return nullptr;
}

PathEvidence container_evidence(const char* rule, const Object& pod, const Value& status) {
  const std::string trouble = trouble_of(status);
  if (trouble.empty()) return {};
  const std::string name = status["name"].text;
  std::string sentence = fmt::format("container {} of {} {}", core::shown(name), core::shown(pod.name), trouble);
  if (!status["image"].text.empty()) sentence += fmt::format(" (image {})", core::shown(status["image"].text));
  if (is_beginning(status)) return driver_evidence(rule, Standing::unknown, sentence, "look again when it has started");
  const LogCause* cause = cause_in(status, name);
  if (cause != nullptr) return driver_evidence(rule, Standing::closed, sentence + ": " + cause->meaning, cause->remedy);
  return driver_evidence(rule, Standing::closed, sentence,
                         fmt::format("kubectl logs -n {} {} -c {} --previous | penstock-k8s explain-log",
                                     core::shown(pod.space), core::shown(pod.name), core::shown(name)));
}

PathEvidence against_init(const Object& pod) {
  for (const Member& member : pod["status.initContainerStatuses"].members) {
    const Value& status = *member.value;
    const bool is_done = status["state.terminated.exitCode"].text == "0";
    if (is_done || status["ready"].is_true()) continue;
    PathEvidence evidence = container_evidence("driver_pod", pod, status);
    if (!evidence.rule.empty()) return evidence;
  }
  return {};
}

}  // namespace

DriverPods::DriverPods(const Cluster& dump) {
  for (const Object* pod : dump.of_kind("Pod")) {
    has_any_pod_ = true;
    if (is_drivers(*pod)) of_nodes_[(*pod)["spec.nodeName"].text].push_back(pod);
  }
}

std::vector<const Object*> DriverPods::with_peermem() const {
  std::vector<const Object*> all;
  for (const auto& [node, pods] : of_nodes_) {
    std::copy_if(pods.begin(), pods.end(), std::back_inserter(all),
                 [](const Object* pod) { return has_container(*pod, kPeermemContainer); });
  }
  return all;
}

PathEvidence DriverPods::against_driver(const std::string& node) const {
  const auto found = of_nodes_.find(node);
  if (found == of_nodes_.end()) {
    return driver_evidence("driver_pod", Standing::closed,
                           "the operator installs drivers, and the node has no pod of one",
                           "see which taint, label or selector keeps the driver's DaemonSet from the node");
  }
  for (const Object* pod : found->second) {
    if (PathEvidence evidence = against_init(*pod); !evidence.rule.empty()) return evidence;
    for (const Member& member : (*pod)["status.containerStatuses"].members) {
      if ((*member.value)["name"].text != "nvidia-driver-ctr") continue;
      if (PathEvidence evidence = container_evidence("driver_pod", *pod, *member.value); !evidence.rule.empty()) {
        return evidence;
      }
    }
  }
  return {};
}

PathEvidence DriverPods::against_nvidia_fs(const std::string& node) const {
  const auto found = of_nodes_.find(node);
  if (found == of_nodes_.end()) return {};
  for (const Object* pod : found->second) {
    if (!has_container(*pod, kNvidiaFsContainer)) {
      return driver_evidence("gds_container_missing", Standing::closed,
                             fmt::format("{} has no container {}: it is older than what turns it on",
                                         core::shown(pod->name), kNvidiaFsContainer));
    }
    for (const Member& member : (*pod)["status.containerStatuses"].members) {
      if ((*member.value)["name"].text == kNvidiaFsContainer)
        return container_evidence("gds_container", *pod, *member.value);
    }
  }
  return {};
}

}  // namespace penstock::tools::k8s
