// SPDX-License-Identifier: Apache-2.0

#include "facts/peer_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace penstock::facts {
namespace {

auto obstruction_of(const PeerPair& pair) {
  const auto stops =
      std::count_if(pair.findings.begin(), pair.findings.end(), [](const core::Finding& one) { return one.stops(); });
  return std::tuple(stops, pair.findings.size(), pair.write_findings.size(), pair.distance);
}

constexpr unsigned kUnseen = 1000;

// Counts the bridges between the two; a way through a processor is farther than any other.
unsigned steps_between(const core::PciDevice& peer, const core::PciDevice& drive) {
  if (peer.address == drive.address) return 0;
  const auto [mine, theirs] =
      std::mismatch(peer.bridges.begin(), peer.bridges.end(), drive.bridges.begin(), drive.bridges.end());
  const auto bridges = static_cast<unsigned>((peer.bridges.end() - mine) + (drive.bridges.end() - theirs));
  switch (core::pci_relation(peer, drive)) {
    case core::PciRelation::same_switch: return 1 + bridges;
    case core::PciRelation::same_host_bridge: return 100 + bridges;
    case core::PciRelation::different_host_bridges: break;
  }
  return (peer.numa_node == drive.numa_node ? 200 : 300) + bridges;
}

unsigned distance_to(const Machine& machine, const core::PciDevice& peer, const core::BlockDevice& storage) {
  unsigned farthest = 0;
  for (const core::BlockDevice& below : storage.slaves) {
    farthest = std::max(farthest, distance_to(machine, peer, below));
  }
  if (!storage.slaves.empty()) return farthest;
  const core::PciDevice* drive = machine.device(storage.pci_address);
  return drive == nullptr ? kUnseen : steps_between(peer, *drive);
}

}  // namespace

std::vector<PeerPair> peer_pairs(const Machine& machine) {
  std::vector<PeerPair> pairs;
  const core::Findings kernel = core::kernel_findings(machine);
  for (const core::PciDevice* peer : machine.peers()) {
    core::Findings own = kernel;
    core::append(own, core::peer_findings(machine, peer->address));
    for (const core::FileSystem& file_system : machine.file_systems) {
      PeerPair pair{peer, &file_system, own, file_system.write_findings};
      core::append(pair.findings, file_system.findings);
      if (file_system.stack) {
        core::append(pair.findings, core::bus_findings(machine, peer->address, *file_system.stack));
        pair.distance = distance_to(machine, *peer, *file_system.stack);
      } else {
        pair.distance = kUnseen;
      }
      pairs.push_back(std::move(pair));
    }
  }
  return pairs;
}

const PeerPair* best_pair(std::span<const PeerPair> pairs, const core::FileSystem* place) {
  const PeerPair* best = nullptr;
  for (const PeerPair& pair : pairs) {
    if (place != nullptr && pair.file_system != place) continue;
    if (best == nullptr || obstruction_of(pair) < obstruction_of(*best)) best = &pair;
  }
  return best;
}

std::string peer_text(const core::PciDevice& peer) {
  return (peer.is_gpu() ? "GPU " : peer.is_nvme() ? "drive " : "device ") + peer.address;
}

std::string pair_text(const PeerPair& pair) {
  return peer_text(*pair.peer) + " and " + pair.file_system->mount.mount_point;
}

}  // namespace penstock::facts
