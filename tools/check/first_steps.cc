// SPDX-License-Identifier: Apache-2.0

#include "tools/check/first_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "facts/storage_kind.h"
#include "tools/check/summary.h"
#include "tools/common/outlook_page.h"

namespace penstock::tools {
namespace {

using facts::Finding;
using facts::Outlook;
using facts::PathOutlook;

// File systems that one direct path serves, or might serve after the same steps.
struct Group {
  std::vector<std::string> points;
  const Outlook* place;
  const PathOutlook* path;  // Null if nothing is known that leads any direct path there.
  std::vector<const Finding*> steps;
  std::string sentence;  // Without a path, why there is none.

  auto rank() const {
    const bool is_of_system = points.size() == 1 && points.front() == "/";  // Less that is read for a GPU lies there.
    return std::tuple(path == nullptr, is_of_system, path == nullptr ? facts::Standing::closed : path->standing(),
                      steps.size());
  }
  bool is_like(const Group& other) const {
    const auto is_same = [](const Finding* a, const Finding* b) {
      return a->sentence == b->sentence && a->remedy == b->remedy;
    };
    const bool has_same_path =
        (path == nullptr) == (other.path == nullptr) &&
        (path == nullptr || (path->path == other.path->path && path->standing() == other.path->standing()));
    return has_same_path && sentence == other.sentence && std::ranges::equal(steps, other.steps, is_same);
  }
};

// The path that serves other storage of the machine, if what keeps it from this is known; else the nearest one.
const PathOutlook* path_for(const facts::Examination& examined, const Outlook& place) {
  const PathOutlook *const other = examined.whole.best_direct(), *const nearest = nearest_direct(place);
  if (other == nullptr || !other->is_usable() || (nearest != nullptr && nearest->is_usable())) return nearest;
  const PathOutlook& here = place.of(other->path);
  return here.remedies().empty() ? nearest : &here;
}

// All steps, or where it is known what to do, those that have something of their own to be done.
std::vector<const Finding*> steps_of(const PathOutlook& path) {
  std::vector<const Finding*> steps = path.steps();
  const std::vector<std::string> remedies = path.remedies();
  std::erase_if(steps, [&](const Finding* one) {
    return !remedies.empty() && std::ranges::find(remedies, one->remedy) == remedies.end();
  });
  return steps;
}

Group group_of(const facts::Examination& examined, const Outlook& place) {
  const std::string& point = place.place->mount.mount_point;
  const PathOutlook* const path = path_for(examined, place);
  Group group{{point}, &place, path, path == nullptr ? std::vector<const Finding*>() : steps_of(*path), ""};
  if (path != nullptr) return group;
  const auto is_it = [&](const Finding& one) {
    return std::string_view(one.code) == "storage" && one.subject == point;
  };
  const auto row = std::ranges::find_if(examined.findings, is_it);
  if (row != examined.findings.end()) group.sentence = row->sentence;
  return group;
}

std::vector<Group> groups_of(const facts::Examination& examined) {
  std::vector<Group> groups;
  for (const Outlook& place : examined.places) {
    const std::string& point = place.place->mount.mount_point;
    if (!facts::holds_data(*place.place) || point == "/boot" || point.starts_with("/boot/")) continue;
    Group one = group_of(examined, place);
    const auto same = std::ranges::find_if(groups, [&](const Group& each) { return each.is_like(one); });
    if (same == groups.end()) groups.push_back(std::move(one));
    else same->points.push_back(point);
  }
  std::ranges::stable_sort(groups, {}, &Group::rank);
  return groups;
}

std::string way_of(const Group& group) {
  if (group.path == nullptr) return group.sentence;
  const char* const name = penstock_path_name(group.path->path);
  if (group.path->is_usable()) return fmt::format("directly by {}, if its self-test passes", name);
  if (group.place->is_beyond_repair()) return "no setting helps to a direct path, only other hardware";
  const std::size_t steps = group.steps.size();
  return fmt::format("{} is {}, {} step{} away", name, standing_name(group.path->standing()), steps,
                     steps == 1 ? "" : "s");
}

void add_steps(Page& page, const Group& group, std::set<std::string>& told) {
  constexpr std::size_t kStepsMax = 3;
  std::size_t shown = 0;
  for (const Finding* const step : group.steps) {
    if (++shown > kStepsMax) {
      return page.wrap("    ", fmt::format("and {} more, among the paths of --all", group.steps.size() - kStepsMax));
    }
    const bool is_new = told.insert(step->remedy).second;
    page.wrap(fmt::format("    {:<22} ", step->code), is_new ? step->sentence : "as above");
    page.paint(step->state == facts::State::fail && !step->is_switch ? Color::red : Color::yellow, step->code);
    if (is_new && !step->remedy.empty()) page.wrap(fmt::format("    {:<19} -> ", ""), step->remedy);
  }
}

}  // namespace

std::optional<std::set<std::string>> add_first_steps(Page& page, const facts::Examination& examined) {
  constexpr std::size_t kGroupsMax = 4;
  std::set<std::string> told;
  const std::vector<Group> groups = groups_of(examined);
  if (examined.machine.peers().empty() || groups.empty()) return std::nullopt;
  page.section("Between files and a direct path");
  for (std::size_t i = 0; i < std::min(groups.size(), kGroupsMax); ++i) {
    page.wrap("  ", fmt::format("{}: {}", validate::list_text(groups[i].points), way_of(groups[i])));
    page.paint(Color::bold, groups[i].points.front());
    add_steps(page, groups[i], told);
  }
  if (groups.size() > kGroupsMax)
    page.wrap("  ", fmt::format("and {} more of other storage: --all", groups.size() - kGroupsMax));
  told.erase("");
  return told;
}

}  // namespace penstock::tools
