// SPDX-License-Identifier: Apache-2.0

// Checks conflicts between the GPU Operator's objects, and keys without effect.
#include <fmt/format.h>

#include <string>

#include "facts/operator_versions.h"
#include "k8s/checks.h"

namespace penstock::tools::k8s {
namespace {

// A key of a ClusterPolicy's spec, or of the chart's values, that no controller reads from a release on.
struct DeadKey {
  const char* key;
  facts::Version since;
  const char* remedy;
};
constexpr DeadKey kDeadKeys[] = {
    {"operator.defaultRuntime", {26, 3, 0}, "Remove it: the runtime is found out."},
    {"operator.initContainer", {25, 10, 0}, "Remove it."},
    {"driver.useOpenKernelModules", {25, 3, 0}, "Write driver.kernelModuleType: open."},
    {"driver.licensingConfig.configMapName", {25, 10, 0}, "Write driver.licensingConfig.secretName."},
    {"gds.args", {22, 9, 0}, "Remove it: gds.env reaches the container."},
    {"gdrcopy.args", {22, 9, 0}, "Remove it: gdrcopy.env reaches the container."},
    {"cdi.default", {25, 10, 0}, "Remove it: cdi.enabled decides."},
    {"kataManager", {26, 3, 0}, "Remove it, and install Kata by kata-deploy."},
    {"psp", {22, 9, 0}, "Remove it; psa.enabled labels the namespace."},
};

// A value without effect, as charts write for every key.
bool is_idle(const Value& value) {
  if (value.is_map()) return value.members.empty() || value["enabled"].is_false();
  return value.is_list() ? value.members.empty() : value.is_false() || value.text.empty();
}

void check_dead_keys(const Cluster& cluster, const DriverSetup& driver, Findings& findings) {
  if (driver.is_nvidia_driver()) return;
  const facts::OperatorVersion* known = facts::operator_version(cluster.facts.operator_version);
  const auto release =
      known == nullptr ? facts::version_of(cluster.facts.operator_version) : facts::version_of(known->release);
  for (const DeadKey& dead : kDeadKeys) {
    const std::string key = driver.top_key(dead.key);
    if (is_idle(driver.top_value(dead.key)) || (release && *release < dead.since)) continue;
    findings.add("dead_key", *driver.object, place_of(*driver.object, key),
                 {fmt::format("nothing reads {} any more", key), dead.remedy});
  }
}

void check_nri(const DriverSetup& driver, Findings& findings) {
  const bool lacks = driver.top_value("cdi.enabled").is_false() || driver.top_value("toolkit.enabled").is_false();
  if (!driver.top_value("cdi.nriPluginEnabled").is_true() || !lacks) return;
  findings.add("nri_without_cdi", *driver.object, place_of(*driver.object, driver.top_key("cdi.nriPluginEnabled")),
               {"the NRI plugin needs CDI and the toolkit, and one of them is off"});
}

// Errors with which the chart itself fails.
void check_chart(const DriverSetup& driver, Findings& findings) {
  if (!driver.is_values()) return;
  const auto tell = [&](const char* key, const char* sentence, const char* remedy) {
    findings.add("chart_refuses", *driver.object, place_of(*driver.object, key), {sentence, remedy});
  };
  if (driver.top_value("gpuCluster.deployCR").is_true()) {
    if (driver.top_value("clusterPolicy.deployCR").is_true()) {
      tell("gpuCluster.deployCR", "a GPUCluster and a ClusterPolicy are not deployed together", "Deploy one of them.");
    }
    if (!driver.driver_value("nvidiaDriverCRD.enabled").is_true() && !driver.driver_value("enabled").is_false()) {
      tell("gpuCluster.deployCR", "a GPUCluster brings no driver", "Set driver.nvidiaDriverCRD.enabled: true.");
    }
  }
  const Value& config = driver.top_value("devicePlugin.config");
  if (config["create"].is_true() && (config["name"].text.empty() || config["data"].members.empty())) {
    tell("devicePlugin.config.create", "a configuration of the device plugin is to be made of nothing",
         "Give devicePlugin.config name and data.");
  }
}

bool is_openshift(const Cluster& cluster) {
  return cluster.facts.os.starts_with("rhcos") || cluster.facts.os.starts_with("openshift");
}

void check_openshift(const Cluster& cluster, const DriverSetup& driver, Findings& findings) {
  const bool is_policy = driver.object->kind == "ClusterPolicy";
  if (!is_policy || !is_openshift(cluster) || driver.top_value("operator.use_ocp_driver_toolkit").is_true()) return;
  findings.add("openshift_toolkit", *driver.object, place_of(*driver.object, "spec.operator"),
               {"on OpenShift kernel modules are compiled by the driver toolkit, which is not asked for"});
}

void check_one_policy(const Cluster& cluster, Findings& findings) {
  const auto& policies = cluster.of_kind("ClusterPolicy");
  for (std::size_t i = 1; i < policies.size(); ++i) {
    if (policies[i]->name == policies[0]->name) continue;
    findings.add("second_cluster_policy", *policies[i], place_of(*policies[i], "metadata.name"),
                 {fmt::format("there is a {} already, and the operator ignores a second one", policies[0]->title())});
  }
  for (const Object* gpu_cluster : cluster.of_kind("GPUCluster")) {
    if (policies.empty()) continue;
    findings.add("policy_and_gpu_cluster", *gpu_cluster, place_of(*gpu_cluster, "kind"),
                 {"a GPUCluster and a ClusterPolicy exclude each other"});
  }
}

// Checks which objects create the driver's pods: ClusterPolicy, or NVIDIADriver objects.
void check_who_drives(const Cluster& cluster, Findings& findings) {
  const Object* by_itself = nullptr;
  for (const Object* policy : cluster.of_kind("ClusterPolicy")) {
    const bool by_objects = (*policy)["spec.driver.useNvidiaDriverCRD"].is_true();
    if (!by_objects && by_itself == nullptr) by_itself = policy;
    if (!by_objects || !(*policy)["spec.gds.enabled"].is_true()) continue;
    findings.add("policy_gds_unused", *policy, place_of(*policy, "spec.gds.enabled"),
                 {"drivers come from NVIDIADriver objects here, and GPUDirect Storage with them"});
  }
  if (by_itself == nullptr) return;
  for (const Object* driver : cluster.of_kind("NVIDIADriver")) {
    findings.add("nvidiadriver_unused", *driver, place_of(*driver, "kind"),
                 {fmt::format("{} installs drivers by itself", by_itself->title())});
  }
}

// Files and variables that recipes wait for or set, but no version has.
void check_legends(const Object& object, const Value& value, Findings& findings) {
  for (const Member& member : value.members) {
    const Value& one = *member.value;
    if (one["name"].text == "WITH_GDS") {
      findings.add("with_gds", object, place_of(one, "name"), {"no release reads the variable WITH_GDS"});
    }
    if (member.key == "initContainers") {
      for (const Member& init : one.members) {
        if ((*init.value)["name"].text != "mofed-validation") continue;
        findings.add("mofed_validation", object, place_of(*init.value, "name"),
                     {"there is no mofed-validation container since v24.3.0"});
      }
    }
    check_legends(object, one, findings);
  }
}

}  // namespace

void check_policies(const Cluster& cluster, Findings& findings) {
  for (const DriverSetup& driver : cluster.drivers) {
    check_dead_keys(cluster, driver, findings);
    check_nri(driver, findings);
    check_chart(driver, findings);
    check_openshift(cluster, driver, findings);
  }
  check_one_policy(cluster, findings);
  check_who_drives(cluster, findings);
  for (const Object& object : cluster.objects) {
    if (object.form != Form::file) check_legends(object, *object.root, findings);
  }
}

}  // namespace penstock::tools::k8s
