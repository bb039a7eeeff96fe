// SPDX-License-Identifier: Apache-2.0

// Plans a deployment that gives pods one path to one kind of storage, from a few answers; or returns the rule that
// forbids it. Pure. Its sources are the rules, and the definitions of the operators' resources.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace penstock::tools::k8s {

// The user's answers, in the words of the command's options.
struct Answers {
  std::string path = "bounce";   // nvidia-fs, p2pdma, bounce
  std::string os;                // ubuntu22.04, ..., rhcos; "" if unknown
  std::string kernel;            // "6.8.0-1051-nvidia"; "" for the OS's own
  std::string storage = "xfs";   // xfs, ext4, lvm, luks (on the nodes' own NVMe drives), nfs, nfs-rdma
  std::string operator_version;  // "" for the newest
  std::string driver_version;    // "" for the operator's own
  std::string as = "";           // helm, clusterpolicy, nvidiadriver; "": chosen by `openshift`
  std::string runtime;           // containerd-2.0; "" if unknown
  std::string image = "localhost/penstock:latest";
  std::string name_space = "gpu-storage";  // Namespace of the workload.
  std::string nfs_server;
  std::string gpu;    // "NVIDIA-H100-80GB-HBM3"; "" if unknown.
  std::string cloud;  // "EKS", of a cloud's virtual machines; "" for other machines.
  const char* cloud_page = "";
  bool has_host_driver = false;  // The nodes bring NVIDIA's driver themselves: the operator installs none.
  bool has_libcufile = false;    // The image has NVIDIA's library.
  bool openshift = false;
  bool strict_iommu = false;
  bool nvme_in_use = false;  // The nodes' system uses the NVMe drives.
};

struct Rendered {
  std::string name;  // Name of the file: "storage-class".
  std::string why;   // A sentence, for a comment above it.
  nlohmann::ordered_json object;
};

struct Refusal {
  std::string rule;
  std::string sentence;
  std::string remedy;
};

struct Deployment {
  std::vector<Rendered> objects;  // Empty if there are refusals.
  std::vector<Refusal> refusals;
  std::vector<std::string> notes;  // Steps that no object can do, and facts that cannot be proven in advance.
};

Deployment plan_deployment(const Answers& answers);
std::vector<Refusal> refusals_of(const Answers& answers);          // Only the refusals, without making any object.
std::vector<Refusal> refusals_of_storage(const Answers& answers);  // Only those about the storage.

}  // namespace penstock::tools::k8s
