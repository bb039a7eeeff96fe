// SPDX-License-Identifier: Apache-2.0

#include "k8s/clouds.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>

namespace penstock::tools::k8s {
namespace {

struct Row {
  std::string_view scheme;    // The beginning of spec.providerID.
  std::string_view label;     // The beginning of a label that it gives its nodes; "" for none.
  std::string_view physical;  // The part of an instance type's name that only physical machines have; "" for none.
  const char* name;
  const char* page;
};
constexpr Row kRows[] = {
    {"aws://", "eks.amazonaws.com/", ".metal", "EKS", "docs/guide/kubernetes-eks.md"},
    {"gce://", "cloud.google.com/gke-", "", "GKE", "docs/guide/kubernetes-gke.md"},
    {"azure://", "kubernetes.azure.com/", "", "AKS", "docs/guide/kubernetes-aks.md"},
    {"ocid1.instance.", "oci.oraclecloud.com/", "BM.", "OKE", "docs/guide/kubernetes-oke.md"},
    {"digitalocean://", "", "", "DigitalOcean", ""},
    {"linode://", "", "", "Linode", ""},
    {"vultr://", "", "", "Vultr", ""},
    {"vsphere://", "", "", "vSphere", ""},
};

// Labels of clouds whose value is the GPU's name, with what stands before it.
struct GpuLabel {
  std::string_view label, before;
};
constexpr GpuLabel kGpuLabels[] = {{"cloud.google.com/gke-accelerator", "nvidia-"},
                                   {"k8s.amazonaws.com/accelerator", "nvidia-"},
                                   {"karpenter.k8s.aws/instance-gpu-name", ""}};

bool is_of(const Row& row, const Object& node) {
  if (node["spec.providerID"].text.starts_with(row.scheme)) return true;
  const auto& labels = node["metadata.labels"].members;
  return !row.label.empty() && std::any_of(labels.begin(), labels.end(),
                                           [&](const Member& label) { return label.key.starts_with(row.label); });
}

}  // namespace

Cloud cloud_of(const Object& node) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& one) { return is_of(one, node); });
  if (row == std::end(kRows)) return {"", "", false};
  const std::string type = label_of(node, "node.kubernetes.io/instance-type");
  const bool is_physical = !row->physical.empty() && type.find(row->physical) != std::string::npos;
  return {row->name, row->page, !is_physical};
}

std::string gpu_of_cloud(const Object& node) {
  for (const GpuLabel& one : kGpuLabels) {
    std::string name = label_of(node, one.label);
    if (name.empty()) continue;
    if (name.starts_with(one.before)) name.erase(0, one.before.size());
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char letter) { return static_cast<char>(std::toupper(static_cast<unsigned char>(letter))); });
    return name;
  }
  return "";
}

}  // namespace penstock::tools::k8s
