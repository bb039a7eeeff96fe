// SPDX-License-Identifier: Apache-2.0

#include "device/locality.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/number_text.h"

namespace penstock::core {
namespace {

constexpr std::size_t kKnownMax = 64;

// Checked because the text becomes part of a path.
bool is_pci_address(const std::string& text) {
  return text.size() <= 16 && text.find(':') != std::string::npos &&
         text.find_first_not_of("0123456789abcdefABCDEF:.") == std::string::npos &&
         text.find("..") == std::string::npos;
}

int parse_node(const std::string& text) {
  const int node = parse_number<int>(text).value_or(-1);
  return node >= 0 && node < kNodesMax ? node : -1;
}

bool process_has_policy() {
  int mode = MPOL_DEFAULT;
  return ::syscall(SYS_get_mempolicy, &mode, nullptr, 0, nullptr, 0) != 0 || mode != MPOL_DEFAULT;
}

}  // namespace

Locality locality_of(const std::string& root, const std::string& pci_address) {
  if (!is_pci_address(pci_address)) return {};
  const std::string folder = root + "/sys/bus/pci/devices/" + pci_address;
  const int node = parse_node(read_first_line(folder + "/numa_node"));
  if (node < 0) return {};
  return {node, parse_cpu_list(read_first_line(folder + "/local_cpulist"))};
}

int node_for(const Placement& placement, const std::string& root, const std::string& pci_address) {
  return placement.by == Placement::By::device ? locality_of(root, pci_address).node : placement.node;
}

void prefer_node(void* memory, std::size_t size, int node) {
  if (node < 0 || node >= kNodesMax || process_has_policy()) return;
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  unsigned long nodes[kNodesMax / kBits] = {};
  nodes[static_cast<std::size_t>(node) / kBits] = 1ul << (static_cast<std::size_t>(node) % kBits);
  // The kernel reads one bit less than maxnode says.
  (void)::syscall(SYS_mbind, memory, size, MPOL_PREFERRED, nodes, kNodesMax + 1, 0);
}

const CpuSet& ThreadPlace::cpus_near(const std::string& pci_address) {
  const auto is_it = [&](const Known& known) { return known.pci_address == pci_address; };
  const auto found = std::find_if(known_.begin(), known_.end(), is_it);
  if (found != known_.end()) return found->cpus;
  if (known_.size() == kKnownMax) known_.clear();
  known_.push_back({pci_address, locality_of(root_, pci_address).cpus});
  return known_.back().cpus;
}

void ThreadPlace::stay_near(const std::string& pci_address) {
  const bool is_settled = placement_.by == Placement::By::device ? pci_address == current_ : asked_;
  if (is_settled) return;
  asked_ = true;
  current_ = pci_address;
  const CpuSet now = allowed_cpus();
  // If the thread's CPUs have changed, something else moved it.
  if (!placed_ || now != placed_at_) allowed_ = now;
  CpuSet wanted = placement_.cpus & allowed_;
  if (placement_.by == Placement::By::device && !pci_address.empty()) wanted = cpus_near(pci_address) & allowed_;
  if (wanted.none()) wanted = allowed_;
  placed_ = wanted == now || allow_cpus(wanted);
  placed_at_ = wanted;
}

}  // namespace penstock::core
