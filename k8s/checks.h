// SPDX-License-Identifier: Apache-2.0

// The checks across objects, beyond an API server's. Each finding has a rule of the table. Facts about nodes that the
// manifests lack come from the given facts; if they are unknown, a note says what the result depends on.
#pragma once

#include <optional>
#include <string>

#include "k8s/findings.h"
#include "k8s/objects.h"

namespace penstock::tools::k8s {

void check_drivers(const Cluster& cluster, Findings& findings);   // GPUDirect Storage installed by the GPU Operator.
void check_policies(const Cluster& cluster, Findings& findings);  // Conflicts between the operator's objects.
void check_modules(const Cluster& cluster, Findings& findings);   // Module parameters, and P2PDMA through them.
// Whether the known parameters turn P2PDMA on.
bool turns_on_p2pdma(const Cluster& cluster, const DriverSetup& driver);
void check_network(const Cluster& cluster, Findings& findings);  // OFED, NFS over RDMA.
void check_storage(const Cluster& cluster, Findings& findings);  // StorageClasses, volumes, mount options.
void check_volume(const Object& object, Severity severity, Findings& findings);  // Checks one volume.
std::string storage_of(const Object& object);  // "nfs", "nfs-rdma", or the file system that it names; "" for none.
void check_pods(const Cluster& cluster, Findings& findings);  // Workloads: privileges, devices, memory.
// A container's setting, which overrides its pod's.
const Value& setting_of(const Pod& pod, const Value& container, const std::string& key);
std::vector<const Value*> words_of(const Value& container);  // Its command and arguments, as one list.
struct RequiredPath {
  std::string name;
  Place place;
};
// By the container's arguments or its environment.
std::optional<RequiredPath> required_path(const Value& container);
int path_required_by(const Value& container);                      // Its number (penstock_path); -1 for none.
bool asks_for_io_uring(const Pod& pod, const Value& container);    // True if it is to fail, or to measure, without it.
void check_pod_needs(const Cluster& cluster, Findings& findings);  // What those that read files need.
void check_environment(const Cluster& cluster, Findings& findings);  // Penstock's variables in the env of containers.
void check_pod_security(const Cluster& cluster, Findings& findings);
void check_quantities(const Cluster& cluster, Findings& findings);    // Amounts, by Kubernetes' grammar and bounds.
void check_placeholders(const Cluster& cluster, Findings& findings);  // NODE, REGISTRY/..., localhost/...
void check_gdsio(const Cluster& cluster, Findings& findings);         // Flags of gdsio benchmarks.
void check_selectors(const Cluster& cluster, Findings& findings);
void check_cufile(const Cluster& cluster, Findings& findings);  // cufile.json, alone and in ConfigMaps.

inline void check_all(const Cluster& cluster, Findings& findings) {
  for (const auto check : {check_drivers, check_policies, check_modules, check_network, check_storage, check_pods,
                           check_environment, check_pod_security, check_quantities, check_placeholders, check_gdsio,
                           check_selectors, check_cufile, check_pod_needs}) {
    check(cluster, findings);
  }
}

}  // namespace penstock::tools::k8s
