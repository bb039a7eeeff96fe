// SPDX-License-Identifier: Apache-2.0

// What objects mean together, beyond what an API server judges. Each is told by a rule of the table; what a manifest
// does not tell of its nodes is asked of the facts, and where nobody knows, a note says what it depends on.
#pragma once

#include "k8s/findings.h"
#include "k8s/objects.h"

namespace penstock::tools::k8s {

void check_drivers(const Cluster& cluster, Findings& findings);   // GPUDirect Storage as the GPU Operator installs it.
void check_policies(const Cluster& cluster, Findings& findings);  // The operator's objects among each other.
void check_modules(const Cluster& cluster, Findings& findings);   // Module parameters, and P2PDMA by them.
bool turns_on_p2pdma(const Cluster& cluster, const DriverSetup& driver);  // By the parameters that are at hand.
void check_network(const Cluster& cluster, Findings& findings);           // OFED, NFS over RDMA.
void check_storage(const Cluster& cluster, Findings& findings);           // StorageClasses, volumes, mount options.
void check_volume(const Object& object, Severity severity, Findings& findings);  // Of these one.
std::string storage_of(const Object& object);  // "nfs", "nfs-rdma", else the file system that it names; "" for none.
void check_pods(const Cluster& cluster, Findings& findings);  // Workloads: rights, devices, memory.
void check_pod_security(const Cluster& cluster, Findings& findings);
void check_quantities(const Cluster& cluster, Findings& findings);    // Amounts, by Kubernetes' grammar and bounds.
void check_placeholders(const Cluster& cluster, Findings& findings);  // NODE, REGISTRY/..., localhost/...
void check_gdsio(const Cluster& cluster, Findings& findings);         // Flags of benchmarks.
void check_selectors(const Cluster& cluster, Findings& findings);
void check_cufile(const Cluster& cluster, Findings& findings);  // cufile.json, by itself and in ConfigMaps.

inline void check_all(const Cluster& cluster, Findings& findings) {
  for (const auto check :
       {check_drivers, check_policies, check_modules, check_network, check_storage, check_pods, check_pod_security,
        check_quantities, check_placeholders, check_gdsio, check_selectors, check_cufile}) {
    check(cluster, findings);
  }
}

}  // namespace penstock::tools::k8s
