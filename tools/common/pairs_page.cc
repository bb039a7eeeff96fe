// SPDX-License-Identifier: Apache-2.0

#include "tools/common/pairs_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>

namespace penstock::tools {
namespace {

using facts::Examination;
using facts::PathOutlook;
using facts::PeerPair;
using facts::Standing;

constexpr unsigned kPeersMax = 16;  // The most devices shown to people; JSON has them all.

// A row about one pair, or about several pairs that differ only in their file system.
struct Row {
  const PeerPair* pair;
  PathOutlook path;
  std::string places;
};

const char* state_text(const PeerPair& pair, const PathOutlook& path) {
  if (!path.is_usable()) return standing_name(path.standing());
  return pair.can_write() ? "open" : "reads only";
}

// A file system in memory never lies on a drive, and a row for each would be too many.
bool is_worth_a_row(const PeerPair& pair) {
  return std::none_of(pair.findings.begin(), pair.findings.end(),
                      [](const core::Finding& one) { return one.obstacle == core::Obstacle::memory; });
}

// Makes the rows. First come pairs that have only the obstacles that the device shares with all pairs, one row for each
// state; then pairs with further ones.
std::vector<Row> rows_of(const Examination& examined, std::span<const PeerPair> pairs, std::size_t shared) {
  std::vector<Row> plain, others;
  for (const PeerPair& pair : pairs) {
    if (!is_worth_a_row(pair)) continue;
    Row row{&pair, examined.by_p2pdma(pair), pair.file_system->mount.mount_point};
    const bool is_plain = pair.findings.size() == shared && pair.write_findings.empty();
    const auto same = std::find_if(plain.begin(), plain.end(), [&](const Row& other) {
      return other.path.standing() == row.path.standing() && other.path.sentence() == row.path.sentence();
    });
    if (!is_plain) others.push_back(std::move(row));
    else if (same == plain.end()) plain.push_back(std::move(row));
    else same->places += ", " + row.places;
  }
  std::move(others.begin(), others.end(), std::back_inserter(plain));
  return plain;
}

void print_row(Page& page, const Row& row, std::size_t shared, std::set<std::string>& told) {
  page.wrap(fmt::format("    {:<11} ", state_text(*row.pair, row.path)), row.places);
  const core::Findings& all = row.pair->findings;
  print_findings(page, core::Findings(all.begin() + static_cast<std::ptrdiff_t>(shared), all.end()), "      ", told);
  print_findings(page, row.pair->write_findings, "      ", told);
  const facts::Finding* const reason = row.path.is_usable() ? nullptr : row.path.reason();
  const auto is_it = [&](const core::Finding& one) { return reason->code == std::string_view(one.code()); };
  if (reason == nullptr || std::any_of(all.begin(), all.end(), is_it)) return;
  // The reason is no obstacle between the two: it is a switch, or a finding that was printed above.
  page.wrap(fmt::format("      {:<26} ", reason->code), reason->sentence);
  if (told.insert(reason->code).second) page.wrap(fmt::format("      {:<26} -> ", ""), reason->remedy);
}

}  // namespace

void print_findings(Page& page, const core::Findings& findings, const char* indent, std::set<std::string>& told) {
  for (const core::Finding& one : findings) {
    const char* doubt = one.certainty == core::Certainty::possible ? "?" : "";
    page.wrap(fmt::format("{}{:<26} ", indent, std::string(one.code()) + doubt), one.sentence());
    if (told.insert(one.code()).second) {
      page.wrap(fmt::format("{}{:<26} -> ", indent, ""), facts::as_sentence(one.remedy()));
    }
  }
}

void print_pairs(Page& page, const Examination& examined) {
  const facts::Machine& machine = examined.machine;
  std::span<const PeerPair> pairs = examined.pairs;
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
    const std::size_t shared = kernel.size() + findings.size();
    for (const Row& row : rows_of(examined, own, shared)) print_row(page, row, shared, told);
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

Json pairs_json(const Examination& examined) {
  Json list = Json::array();
  for (const PeerPair& pair : examined.pairs) {
    const PathOutlook path = examined.by_p2pdma(pair);
    list.push_back({{"peer", pair.peer->address},
                    {"mount_point", pair.file_system->mount.mount_point},
                    {"storage", pair.file_system->stack ? Json(pair.file_system->stack->name) : Json(nullptr)},
                    {"standing", standing_name(path.standing())},
                    {"reason", path.reason_name()},
                    {"reads", pair.can_read()},
                    {"writes", pair.can_write()},
                    {"obstacles", findings_json(pair.findings)},
                    {"write_obstacles", findings_json(pair.write_findings)}});
  }
  return list;
}

}  // namespace penstock::tools
