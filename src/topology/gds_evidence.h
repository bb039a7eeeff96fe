// SPDX-License-Identifier: Apache-2.0

// The evidence of GPUDirect Storage in a node's kernel, beyond what platform.h reads: by which functions storage
// drivers let nvidia-fs in, which of the modules are loaded, how NVIDIA's driver is set, who made the machine.
//
// For programs that judge nodes. It reads, and judges nothing: a loaded nvidia-fs proves nothing without a hook in
// the storage driver. Needs no privilege; reading the kernel's symbols takes up to tens of milliseconds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "topology/root.h"
#include "topology/tristate.h"

namespace penstock::core {

// A function that nvidia-fs looks for when it is opened: "nvme_v1_register_nvfs_dma_ops".
struct NvfsHook {
  std::string driver;  // "nvme", "nvme_rdma", "lustre", ...
  int version = 0;     // The one in its name; 0 where it has none.
  std::string module;  // Which has it; "" for the kernel itself.
  friend bool operator==(const NvfsHook&, const NvfsHook&) = default;
};

struct KernelModule {
  std::string name;
  std::string version;   // "" if it tells none.
  bool is_live = false;  // It has started, and is not on its way out.
};

struct GdsEvidence {
  std::string vendor;                        // The machine's: "Amazon EC2".
  std::string product;                       // "p5.48xlarge"
  Tristate has_symbols = Tristate::unknown;  // no: the kernel lists none, so that missing hooks mean nothing.
  std::vector<NvfsHook> hooks;
  std::vector<KernelModule> modules;                     // The loaded ones that GPUDirect Storage needs.
  std::map<std::string, std::string> driver_parameters;  // NVIDIA's driver's, by name.

  const KernelModule* module(const std::string& name) const;
  bool has_hook(const std::string& driver) const;
};
GdsEvidence read_gds_evidence(const Root& root);

}  // namespace penstock::core
