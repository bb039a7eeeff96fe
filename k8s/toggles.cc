// SPDX-License-Identifier: Apache-2.0

#include "k8s/toggles.h"

#include <fmt/format.h>

#include "facts/matrix.h"
#include "facts/operator_versions.h"

namespace penstock::tools::k8s {
namespace {

constexpr const char* kRdma = "driver.rdma.enabled";
constexpr const char* kHostOfed = "driver.rdma.useHostMofed";
constexpr const char* kGds = "gds.enabled";
constexpr const char* kPlugin = "rdmaSharedDevicePlugin";

// Why a NIC cannot register GPU memory by dma-buf on the node; "" if it can, or if nothing says otherwise.
std::string without_dmabuf(const Node& node) {
  const auto kernel = facts::version_of(node.kernel);
  const auto driver = facts::version_of(node.driver);
  const facts::Version least = {static_cast<int>(facts::kDmaBufKernel.major),
                                static_cast<int>(facts::kDmaBufKernel.minor), 0};
  if (kernel && *kernel < least) return "Linux " + node.kernel;
  if (driver && *driver < facts::kDmaBufDriver) return "driver " + node.driver;
  return "";
}

Toggle rdma(const Node& node, const std::string& storage) {
  if (node.has_host_driver) return {kRdma, false, "the node brings its driver itself, and nvidia_peermem with it"};
  if (!node.has_adapter) {
    return {kRdma, std::nullopt,
            "no label of Node Feature Discovery tells whether the node has an adapter of NVIDIA's"};
  }
  if (!*node.has_adapter) {
    return {kRdma, false, "the node has no adapter of NVIDIA's, which nvidia_peermem would be for"};
  }
  if (storage == "nfs-rdma") {
    return {kRdma, true,
            "nvidia-fs for NFS over RDMA is built against the adapter's driver, so the pod waits for that"};
  }
  const std::string old = without_dmabuf(node);
  if (!old.empty()) {
    return {kRdma, true, old + " has no DMA-BUF for adapters, so GPUDirect RDMA needs nvidia_peermem"};
  }
  return {kRdma, false,
          "DMA-BUF does GPUDirect RDMA with the open kernel modules, and local drives need neither; true only for "
          "programs that ask for nvidia_peermem"};
}

Toggle host_ofed(const Node& node, const Toggle& rdma) {
  if (rdma.on == false) return {kHostOfed, false, std::string("it is read only with ") + kRdma};
  if (node.has_operator_ofed) return {kHostOfed, false, "the network operator installs the adapter's driver"};
  if (node.is_dgx) return {kHostOfed, true, "DGX systems bring the adapter's driver themselves"};
  return {kHostOfed, std::nullopt,
          "true where OFED is installed on the node (ofed_info -s shows it); else a NicClusterPolicy brings it"};
}

Toggle gds(const Node& node, const Choice& choice) {
  if (choice.path == "nvidia-fs") {
    if (!node.has_host_driver) return {kGds, true, "the path is nvidia-fs, whose module the operator builds and loads"};
    return {kGds, false, "the driver is the node's own, so the operator loads no nvidia-fs: load it on the node"};
  }
  if (choice.path == "p2pdma")
    return {kGds, false, "p2pdma needs no nvidia-fs, and gds gives all adapters to GPU pods"};
  const bool is_refused = choice.refusals.size() > 1;
  return {kGds, false,
          is_refused ? "the node cannot have nvidia-fs: " + choice.refusals[1].rule : "the path is bounce"};
}

Toggle plugin(const Node& node, const std::string& storage) {
  if (node.has_adapter == false) return {kPlugin, false, "the node has no adapter of NVIDIA's"};
  const char* const who = storage == "nfs-rdma" ? "the kernel mounts NFS over RDMA, and pods need no adapter for it"
                                                : "local drives need no adapter";
  return {kPlugin, false,
          fmt::format("{}; true for programs that use one themselves (NCCL, UCX, WekaFS), with or without driver.rdma; "
                      "'penstock-k8s verify' on the node names the nearest to each GPU and drive",
                      who)};
}

}  // namespace

std::vector<Toggle> toggles_of(const Node& node, const Choice& choice, const std::string& storage) {
  if (!node.has_gpu) return {};
  const Toggle first = rdma(node, storage);
  return {first, host_ofed(node, first), gds(node, choice), plugin(node, storage)};
}

}  // namespace penstock::tools::k8s
