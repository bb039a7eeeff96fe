// SPDX-License-Identifier: Apache-2.0

#include "tools/common/peer_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace penstock::tools {
namespace {

constexpr unsigned kPeersMax = 16;  // For people; JSON has them all.

auto obstruction_of(const PeerPair& pair) {
  const auto stops =
      std::count_if(pair.findings.begin(), pair.findings.end(), [](const core::Finding& one) { return one.stops(); });
  return std::tuple(stops, pair.findings.size(), pair.write_findings.size(), pair.distance);
}

constexpr unsigned kUnseen = 1000;

// Bridges to pass; what passes a processor is farther than whatever does not.
unsigned distance_between(const core::PciDevice& peer, const core::PciDevice& drive) {
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
  return drive == nullptr ? kUnseen : distance_between(peer, *drive);
}

// Memory is never a drive's, and a row for each would be too many.
bool is_worth_a_row(const PeerPair& pair) {
  return std::none_of(pair.findings.begin(), pair.findings.end(),
                      [](const core::Finding& one) { return one.obstacle == core::Obstacle::memory; });
}

// One row for all file systems that a device shares its own obstacles with, and one for each that has more.
void print_peer(Page& page, std::span<const PeerPair> pairs, std::size_t shared, std::set<std::string>& told) {
  constexpr const char* kRow = "    {:<11} ";
  const PeerPair* plain = nullptr;
  std::string places;
  for (const PeerPair& pair : pairs) {
    if (pair.findings.size() != shared || !pair.write_findings.empty()) continue;
    plain = &pair;
    places += (places.empty() ? "" : ", ") + pair.file_system->mount.mount_point;
  }
  if (plain != nullptr) page.wrap(fmt::format(kRow, state_text(*plain)), places);
  for (const PeerPair& pair : pairs) {
    if (!is_worth_a_row(pair) || (pair.findings.size() == shared && pair.write_findings.empty())) continue;
    page.wrap(fmt::format(kRow, state_text(pair)), pair.file_system->mount.mount_point);
    const auto first = pair.findings.begin() + static_cast<std::ptrdiff_t>(shared);
    print_findings(page, core::Findings(first, pair.findings.end()), "      ", told);
    print_findings(page, pair.write_findings, "      ", told);
  }
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

const PeerPair* best_pair(const std::vector<PeerPair>& pairs) {
  const auto best = std::min_element(pairs.begin(), pairs.end(), [](const PeerPair& one, const PeerPair& other) {
    return obstruction_of(one) < obstruction_of(other);
  });
  return best == pairs.end() ? nullptr : &*best;
}

std::string peer_text(const core::PciDevice& peer) {
  return (peer.is_gpu() ? "GPU " : peer.is_nvme() ? "drive " : "device ") + peer.address;
}

std::string pair_text(const PeerPair& pair) {
  return peer_text(*pair.peer) + " and " + pair.file_system->mount.mount_point;
}

const char* state_text(const PeerPair& pair) {
  if (!pair.can_read()) return "closed";
  if (!pair.can_write()) return "reads only";
  return pair.findings.empty() && pair.write_findings.empty() ? "open" : "perhaps";
}

void print_findings(Page& page, const core::Findings& findings, const char* indent, std::set<std::string>& told) {
  for (const core::Finding& one : findings) {
    const char* doubt = one.certainty == core::Certainty::possible ? "?" : "";
    page.wrap(fmt::format("{}{:<26} ", indent, std::string(one.code()) + doubt), one.sentence());
    if (told.insert(one.code()).second) page.wrap(fmt::format("{}{:<26} -> ", indent, ""), one.remedy());
  }
}

void print_pairs(Page& page, const Machine& machine, std::span<const PeerPair> pairs) {
  page.section("Device memory and storage: what stands in p2pdma's way (?: only its self-test can tell)");
  std::set<std::string> told;
  const core::Findings kernel = core::kernel_findings(machine);
  print_findings(page, kernel, "  ", told);
  if (pairs.empty()) page.wrap("  ", "no device here offers its memory to a drive");
  for (unsigned peers = 0; !pairs.empty(); ++peers) {
    const core::PciDevice& peer = *pairs[0].peer;
    const auto last = std::find_if(pairs.begin(), pairs.end(), [&](auto& pair) { return pair.peer != &peer; });
    const auto own = pairs.subspan(0, static_cast<std::size_t>(last - pairs.begin()));
    if (peers == kPeersMax) return page.wrap("  ", "and more devices; --json lists them");
    const core::Findings findings = core::peer_findings(machine, peer.address);
    page.wrap("  ", peer_text(peer));
    print_findings(page, findings, "    ", told);
    print_peer(page, own, kernel.size() + findings.size(), told);
    pairs = pairs.subspan(own.size());
  }
}

Json findings_json(const core::Findings& findings) {
  Json list = Json::array();
  for (const core::Finding& one : findings) {
    list.push_back({{"code", one.code()},
                    {"effect", core::effect_name(one.effect())},
                    {"certainty", core::certainty_name(one.certainty)},
                    {"subject", one.subject},
                    {"sentence", one.sentence()},
                    {"remedy", one.remedy()}});
  }
  return list;
}

Json pairs_json(const std::vector<PeerPair>& pairs) {
  Json list = Json::array();
  for (const PeerPair& pair : pairs) {
    list.push_back({{"peer", pair.peer->address},
                    {"mount_point", pair.file_system->mount.mount_point},
                    {"storage", pair.file_system->stack ? Json(pair.file_system->stack->name) : Json(nullptr)},
                    {"reads", pair.can_read()},
                    {"writes", pair.can_write()},
                    {"obstacles", findings_json(pair.findings)},
                    {"write_obstacles", findings_json(pair.write_findings)}});
  }
  return list;
}

}  // namespace penstock::tools
