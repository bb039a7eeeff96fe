// SPDX-License-Identifier: Apache-2.0

// The place of a GPU in its machine, and its consequences for memory and threads: bounce buffers are on the GPU's NUMA
// node, and workers run on that node's CPUs, as far as they are allowed there and unless the user wants it otherwise
// (placement.h). Uses only /sys and plain system calls. If nothing is known, or a call is refused, nothing is placed.
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

constexpr int kNodesMax = 1024;  // No kernel is built for more.

struct Locality {
  int node = -1;  // -1 if unknown.
  CpuSet cpus;    // Empty if unknown.
};

// `pci_address` is "0000:17:00.0", or empty for a stand-in; `root` is "" for the machine itself.
Locality locality_of(const std::string& root, const std::string& pci_address);

// The node for the device's memory (an empty address: no device's), by the user's placement.
int node_for(const Placement& placement, const std::string& root, const std::string& pci_address);

// Asks the kernel to prefer this node for the mapping's pages, of which none exists yet. Does nothing if the process
// has a memory policy (numactl).
void prefer_node(void* memory, std::size_t size, int node);

// Keeps one thread near the device that it works for. Only that thread uses it. The thread never runs where it was not
// allowed to, even if the user allows other CPUs later.
class ThreadPlace {
 public:
  // The placement must outlive this object.
  explicit ThreadPlace(const Placement& placement, std::string root = "")
      : placement_(placement), root_(std::move(root)) {}
  // Moves the thread to the CPUs that the user named, if any, and otherwise to the device's node. Moves it back to
  // where it was allowed if the address is empty, its node unknown, or no CPU of that node allowed. Costs nothing while
  // the device is the same.
  void stay_near(const std::string& pci_address);

 private:
  struct Known {
    std::string pci_address;
    CpuSet cpus;
  };
  const CpuSet& cpus_near(const std::string& pci_address);

  const Placement& placement_;
  const std::string root_;
  std::string current_;  // The address of the device.
  std::vector<Known> known_;
  bool asked_ = false;
  bool placed_ = false;  // This object moved the thread: to `placed_at_`, from `allowed_`.
  CpuSet allowed_;
  CpuSet placed_at_;
};

}  // namespace penstock::core
