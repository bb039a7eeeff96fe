// SPDX-License-Identifier: Apache-2.0

// What must be deployed so that pods have one path to one kind of storage, from few answers; or the rule by which it
// cannot work. Pure. Source of what is in the objects, and of what is refused: the rules, and the definitions of the
// operators' resources.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace penstock::tools::k8s {

// What the user answers. Words are those of the command's options.
struct Answers {
  std::string path = "bounce";  // nvidia-fs, p2pdma, bounce
  std::string os;               // ubuntu22.04, ..., rhcos; "" if it was not told
  std::string kernel;           // "6.8.0-1051-nvidia"; "" for the one the OS came with
  std::string storage =
      "xfs";  // xfs, ext4, lvm, luks, nfs, nfs-rdma: of the nodes' own NVMe drives, but for the last two
  std::string operator_version;  // "" for the newest
  std::string driver_version;    // "" for the operator's own
  std::string as = "";           // helm, clusterpolicy, nvidiadriver; "" by openshift
  std::string runtime;           // containerd-2.0; "" if it was not told
  std::string image = "localhost/penstock:latest";
  std::string name_space = "gpu-storage";  // Of the workload.
  std::string nfs_server;
  bool openshift = false;
  bool strict_iommu = false;
  bool nvme_in_use = false;  // By the nodes' system.
};

struct Rendered {
  std::string name;  // "storage-class": of the file.
  std::string why;   // A sentence, for a comment above it.
  nlohmann::ordered_json object;
};

struct Refusal {
  std::string rule;
  std::string sentence;
  std::string remedy;
};

struct Deployment {
  std::vector<Rendered> objects;  // Empty where something is refused.
  std::vector<Refusal> refusals;
  std::vector<std::string> notes;  // What no object can do, and what cannot be proven before.
};

Deployment plan_deployment(const Answers& answers);
std::vector<Refusal> refusals_of(const Answers& answers);          // The same, without making any object.
std::vector<Refusal> refusals_of_storage(const Answers& answers);  // Only those about the storage.

}  // namespace penstock::tools::k8s
