// SPDX-License-Identifier: Apache-2.0

#include "tools/common/pairs_page.h"

#include <fmt/format.h>

#include <algorithm>

namespace penstock::tools {
namespace {

using facts::Machine;
using facts::PeerPair;

constexpr unsigned kPeersMax = 16;  // For people; JSON has them all.

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
    page.wrap("  ", facts::peer_text(peer));
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
