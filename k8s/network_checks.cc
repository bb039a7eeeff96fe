// SPDX-License-Identifier: Apache-2.0

// Checks the Network Operator's driver together with the GPU Operator's: which waits for which, and NFS over RDMA.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "k8s/checks.h"
#include "k8s/nodes.h"
#include "settings/words.h"

namespace penstock::tools::k8s {
namespace {

using Names = std::set<std::string, std::less<>>;

const Value& variable_of(const Value& container, std::string_view name) {
  for (const Member& variable : container["env"].members) {
    if ((*variable.value)["name"].text == name) return *variable.value;
  }
  return kNothing;
}
bool is_on(const Value& container, std::string_view name) {
  return variable_of(container, name)["value"].text == "true";
}

const Object* with_ofed(const Cluster& cluster) {
  for (const Object* policy : nic_policies(cluster)) {
    if ((*policy)["spec.ofedDriver"].is_there()) return policy;
  }
  return nullptr;
}

// Of the nodes with a GPU, where there are any and each tells of its adapters.
bool no_node_has_adapter(const Cluster& cluster) {
  bool has_gpu_node = false;
  for (const Object* object : cluster.of_kind("Node")) {
    const Node node = node_of(*object);
    if (node.has_gpu && node.has_adapter != false) return false;
    has_gpu_node = has_gpu_node || node.has_gpu;
  }
  return has_gpu_node;
}

void check_rdma(const Cluster& cluster, const DriverSetup& driver, const Object* ofed, Findings& findings) {
  if (!driver.driver_value("rdma.enabled").is_true()) return;
  if (no_node_has_adapter(cluster)) {
    findings.add(
        "rdma_without_adapter", *driver.object, place_of(*driver.object, driver.driver_key("rdma.enabled")),
        {"no node with a GPU here has an adapter of NVIDIA's (label pci-15b3), so nvidia_peermem serves nobody"});
  }
  const bool by_host = driver.driver_value("rdma.useHostMofed").is_true();
  const Place place = place_of(*driver.object, driver.driver_key(by_host ? "rdma.useHostMofed" : "rdma.enabled"));
  if (by_host && ofed != nullptr) {
    findings.add(
        "two_ofed_drivers", *driver.object, place,
        {fmt::format("the driver is told to use the host's OFED, but {} installs another one", ofed->title())});
  }
  if (by_host || ofed != nullptr) return;
  const bool is_known = !nic_policies(cluster).empty();
  Findings::Text text{
      is_known ? "no policy of the network operator here has an ofedDriver, for which the driver's pod waits for ever"
               : "the driver's pod waits for ever where no OFED driver comes"};
  if (!is_known) text.severity = Severity::warning;
  findings.add("rdma_without_ofed", *driver.object, place, std::move(text));
}

bool names_nvme(const Cluster& cluster) {
  for (const Object& object : cluster.objects) {
    if (object.kind != "PersistentVolume" && object.kind != "StorageClass") continue;
    if (has_part(object["spec.local.path"].text, "nvme") || has_part(object["spec.hostPath.path"].text, "nvme"))
      return true;
    if (object.kind == "StorageClass" && has_part(object.name, "nvme")) return true;
  }
  return false;
}

// A volume or class that is mounted by NFS over RDMA.
const Object* with_nfs_over_rdma(const Cluster& cluster) {
  for (const Object& object : cluster.objects) {
    const Value& options = object.kind == "StorageClass" ? object["mountOptions"] : object["spec.mountOptions"];
    for (const Member& option : options.members) {
      if (option.value->text == "proto=rdma" || option.value->text == "rdma") return &object;
    }
  }
  return nullptr;
}

void check_nfs(const Object& policy, bool has_nvme, const Object* volume, Findings& findings) {
  const Value& ofed = policy["spec.ofedDriver"];
  if (!ofed.is_there()) return;
  const Place place = variable_of(ofed, "ENABLE_NFSRDMA").place;
  const bool is_enabled = is_on(ofed, "ENABLE_NFSRDMA");
  if (is_enabled) {
    Findings::Text text{has_nvme
                            ? "with ENABLE_NFSRDMA the driver does not load where NVMe is in use, and volumes here are"
                            : "with ENABLE_NFSRDMA the driver does not load on a node whose NVMe drives are in use"};
    if (has_nvme) text.severity = Severity::error;
    findings.add("nfsrdma_with_nvme", policy, place, std::move(text));
    if (!is_on(ofed, "UNLOAD_STORAGE_MODULES")) {
      findings.add("nfsrdma_modules", policy, place,
                   {"the container stops itself where a storage module of the host is loaded"});
    }
  } else if (volume != nullptr) {
    findings.add("nfsrdma_off", policy, place_of(policy, "spec.ofedDriver"),
                 {fmt::format("{} mounts by NFS over RDMA, which this driver is built without", volume->title())});
  }
  if (variable_of(ofed, "ENABLE_NFSRDMA_NO_NVME").is_there()) {
    findings.add("nfsrdma_no_nvme", policy, variable_of(ofed, "ENABLE_NFSRDMA_NO_NVME").place,
                 {"no release reads ENABLE_NFSRDMA_NO_NVME"});
  }
}

// Collects the names of the shared devices; reports faults in the text.
void check_devices(const Object& policy, Names& names, Findings& findings) {
  const Value& config = policy["spec.rdmaSharedDevicePlugin.config"];
  if (!config.is_text()) return;
  const auto json = nlohmann::json::parse(config.text, nullptr, false);
  const bool has_list = json.is_object() && json.contains("configList") && json["configList"].is_array();
  if (!has_list) {
    findings.add("rdma_device_config", policy, place_of(policy, "spec.rdmaSharedDevicePlugin.config"),
                 {json.is_discarded() ? "the configuration of the device plugin is no JSON"
                                      : "the configuration of the device plugin has no configList"});
    return;
  }
  for (const auto& one : json["configList"]) {
    if (one.is_object() && one.contains("resourceName") && one["resourceName"].is_string()) {
      names.insert("rdma/" + one["resourceName"].get<std::string>());
    }
  }
}

void check_resources(const Cluster& cluster, const Names& names, Findings& findings) {
  for (const Pod& pod : cluster.pods) {
    for (const Value* container : pod.containers()) {
      for (const Member& resource : (*container)["resources.limits"].members) {
        if (!resource.key.starts_with("rdma/") || names.contains(resource.key)) continue;
        findings.add("rdma_resource", *pod.object, resource.place,
                     {fmt::format("no device plugin here offers {}", core::shown(resource.key)),
                      fmt::format("Among those offered: {}.", core::shown(*names.begin()))});
      }
    }
  }
}

}  // namespace

void check_network(const Cluster& cluster, Findings& findings) {
  const Object* ofed = with_ofed(cluster);
  for (const DriverSetup& driver : cluster.drivers) check_rdma(cluster, driver, ofed, findings);
  const bool has_nvme = names_nvme(cluster);
  const Object* volume = with_nfs_over_rdma(cluster);
  Names names;
  for (const Object* policy : nic_policies(cluster)) {
    check_nfs(*policy, has_nvme, volume, findings);
    check_devices(*policy, names, findings);
  }
  if (!names.empty()) check_resources(cluster, names, findings);
}

}  // namespace penstock::tools::k8s
