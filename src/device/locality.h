// SPDX-License-Identifier: Apache-2.0

// Where a GPU is in its machine, and what that means for memory and threads: bounce buffers lie on its NUMA node, and
// workers run on that node's CPUs, so far as they are allowed there, and unless the user wants it otherwise
// (placement.h). From /sys alone, and by plain system calls. Where
// nothing is known, or something is refused, nothing is placed.
//
// The GPU's node counts and not the drive's: copied bytes pass a bounce buffer once from storage and once to the GPU,
// the CPU's part is copying out of the page cache, wherever that lies, and a GPU that fetches from another node loses
// more than a drive does.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/cpus.h"
#include "device/placement.h"

namespace penstock::core {

constexpr int kNodesMax = 1024;  // Kernels are built for no more.

struct Locality {
  int node = -1;  // -1 where unknown.
  CpuSet cpus;    // Empty where unknown.
};

// `pci_address` is "0000:17:00.0", or empty for a stand-in; `root` is "" for the machine itself.
Locality locality_of(const std::string& root, const std::string& pci_address);

// Returns the node that memory for the device (empty: for none) is to lie on, by the user's placement.
int node_for(const Placement& placement, const std::string& root, const std::string& pci_address);

// Asks the kernel to take pages of the mapping, none of which exists yet, from the node where it has any. Where the
// process was given a memory policy (numactl), that one holds.
void prefer_node(void* memory, std::size_t size, int node);

// Keeps one thread near the device it works for. Used by that thread alone, which never runs where it was not allowed
// to: also when the user allows other CPUs later on.
class ThreadPlace {
 public:
  // The placement lives as long as this.
  explicit ThreadPlace(const Placement& placement, std::string root = "")
      : placement_(placement), root_(std::move(root)) {}
  // Goes to the device's node; back to wherever it was allowed where the address is empty, its node unknown, or no CPU
  // of that node allowed. To the CPUs that the user named, where there are any. Costs nothing while the device is the
  // same.
  void stay_near(const std::string& pci_address);

 private:
  struct Known {
    std::string pci_address;
    CpuSet cpus;
  };
  const CpuSet& cpus_near(const std::string& pci_address);

  const Placement& placement_;
  const std::string root_;
  std::string current_;  // The device's address.
  std::vector<Known> known_;
  bool asked_ = false;
  bool placed_ = false;  // The thread is where we put it: `placed_at_`, out of `allowed_`.
  CpuSet allowed_;
  CpuSet placed_at_;
};

}  // namespace penstock::core
