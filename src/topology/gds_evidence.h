// SPDX-License-Identifier: Apache-2.0

// Evidence of GPUDirect Storage in a node's kernel, beyond what platform.h reads: the functions by which nvidia-fs
// hooks into storage drivers, the loaded modules, the parameters of NVIDIA's driver, and the machine's maker.
//
// For programs that judge nodes. It only reads, and judges nothing: a loaded nvidia-fs proves nothing without a hook in
// the storage driver. Needs no privilege.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "topology/kernel_symbols.h"
#include "topology/root.h"
#include "topology/tristate.h"

namespace penstock::core {

// A function that nvidia-fs looks for when it is opened: "nvme_v1_register_nvfs_dma_ops".
struct NvfsHook {
  std::string driver;  // "nvme", "nvme_rdma", "lustre", ...
  int version = 0;     // The version in its name; 0 if it has none.
  std::string module;  // The module that has it; "" for the kernel itself.
  friend bool operator==(const NvfsHook&, const NvfsHook&) = default;
};

struct KernelModule {
  std::string name;
  std::string version;   // "" if it shows none.
  bool is_live = false;  // True if it has started, and is not being unloaded.
};

struct GdsEvidence {
  std::string vendor;                        // The maker of the machine: "Amazon EC2".
  std::string product;                       // "p5.48xlarge"
  Tristate has_symbols = Tristate::unknown;  // no: the kernel lists no symbols, so missing hooks mean nothing.
  std::vector<NvfsHook> hooks;
  std::vector<KernelModule> modules;                     // The loaded modules among those that GPUDirect Storage needs.
  std::map<std::string, std::string> driver_parameters;  // The parameters of NVIDIA's driver, by name.

  const KernelModule* module(const std::string& name) const;
  bool has_hook(const std::string& driver) const;
};
GdsEvidence read_gds_evidence(const Root& root, const KernelSymbols& symbols);

}  // namespace penstock::core
