// SPDX-License-Identifier: Apache-2.0

#include "tools/common/outlook_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

namespace penstock::tools {
namespace {

using facts::Finding;
using facts::PathOutlook;
using facts::Standing;
using facts::State;

Color color_of(const PathOutlook& path) {
  if (path.standing() == Standing::closed) return Color::red;
  return path.is_usable() && !facts::is_direct_path(path.path) ? Color::green : Color::yellow;
}

Color color_of(const Finding& need) {
  return need.state == State::pass ? Color::green : need.state == State::fail ? Color::red : Color::yellow;
}

void paint_headline(Page& page, const PathOutlook& path, std::string_view headline) {
  page.paint(color_of(path), headline.substr(0, headline.find_first_of(":(")));
}

}  // namespace

std::string headline_of(const PathOutlook& path) {
  const Standing standing = path.standing();
  if (standing == Standing::usable) {
    if (facts::is_direct_path(path.path)) return "may be tried: its self-test decides";
    const std::string slower = path.sentence();
    return slower.empty() ? "usable" : fmt::format("usable ({}): {}", path.reason_name(), slower);
  }
  const char* const word = standing == Standing::closed ? "not usable" : standing_name(standing);
  return fmt::format("{} ({}): {}", word, path.reason_name(), path.sentence());
}

const char* need_state_name(const Finding& need) {
  if (need.is_switch) return "off";
  switch (need.state) {
    case State::pass:
    case State::not_applicable: return "ok";
    case State::warn:
    case State::fail: return "missing";
    case State::unknown: break;
  }
  return "unknown";
}

const char* mover_of(int path) {
  switch (path) {
    case PENSTOCK_PATH_P2PDMA: return " (direct: between the drive and the GPU's memory)";
    case PENSTOCK_PATH_PAGECACHE: return " (not direct: the GPU fetches it from the page cache)";
    case PENSTOCK_PATH_NVFS: return " (direct: between the drive and the GPU's memory, by nvidia-fs)";
    case PENSTOCK_PATH_VENDOR: return " (NVIDIA's library, which does not say whether it is direct)";
    case PENSTOCK_PATH_BOUNCE: return " (not direct: through pinned host memory)";
    default: return "";
  }
}

namespace {

// ", on /data and 2 more" where it is not true of all storage, which may have steps of its own; else "".
std::string where_of(const PathOutlook& path) {
  if (path.only_on.empty()) return "";
  const std::size_t more = path.only_on.size() - 1;
  return fmt::format(", on {}{}", path.only_on.front(), more == 0 ? "" : fmt::format(" and {} more", more));
}

// True if the path's storage has not been judged, since that needs nvidia-fs: further steps may follow.
bool awaits_nvidia_fs(const PathOutlook& path) {
  return std::any_of(path.needs.begin(), path.needs.end(), [](const Finding& need) {
    return std::string_view(need.code) == "nvidia_fs" && need.state == State::fail;
  });
}

// The closed direct path that is opened in the fewest steps, of those whose steps are all known; null if there is none.
const PathOutlook* nearest_closed(const facts::Outlook& outlook) {
  const PathOutlook* nearest = nullptr;
  for (const PathOutlook& path : outlook.paths) {
    const bool is_known = facts::is_direct_path(path.path) && !awaits_nvidia_fs(path);
    const std::size_t steps = is_known ? path.remedies().size() : 0;
    if (steps > 0 && (nearest == nullptr || steps < nearest->remedies().size())) nearest = &path;
  }
  return nearest;
}

// `first` is the nearest closed path.
std::string counsel_of(const facts::Outlook& outlook, const PathOutlook* first) {
  const PathOutlook *const now = outlook.first_usable(), *const nearest = outlook.best_direct();
  if (now != nullptr && facts::is_direct_path(now->path)) return "";
  const auto& of_gpu = outlook.of(PENSTOCK_PATH_PAGECACHE).needs;
  if (std::any_of(of_gpu.begin(), of_gpu.end(), facts::is_before_all)) return "";  // The reader was told of it.
  if (nearest == nullptr) {
    if (outlook.is_beyond_repair())
      return "no direct path can serve here: nothing that is set or installed on this machine leads to one";
    return first == nullptr ? "no direct path serves here yet"
                            : fmt::format("no direct path serves here yet: begin with {}{}",
                                          penstock_path_name(first->path), where_of(*first));
  }
  const std::string name = penstock_path_name(nearest->path) + where_of(*nearest);
  if (nearest->is_once_set()) {
    const auto settings = nearest->steps().size();
    return fmt::format("the nearest direct path is {}: only {} in its way", name,
                       settings == 1 ? "a setting is" : fmt::format("{} settings are", settings));
  }
  return fmt::format("the nearest direct path is {}: only a try can tell whether it works", name);
}

}  // namespace

const PathOutlook* nearest_direct(const facts::Outlook& outlook) {
  const PathOutlook* const best = outlook.best_direct();
  return best != nullptr ? best : nearest_closed(outlook);
}

std::string first_counsel(const facts::Outlook& outlook) { return counsel_of(outlook, nearest_closed(outlook)); }

void print_headline(Page& page, const PathOutlook& path, const PathOutlook* before) {
  std::string headline = headline_of(path);
  const bool is_same_need = before != nullptr && before->reason() != nullptr && path.reason() != nullptr &&
                            std::string_view(before->reason()->code) == path.reason()->code;
  if (is_same_need && !path.is_usable() && before->sentence() == path.sentence()) {
    headline = headline.substr(0, headline.find(':')) + ": the same";
  }
  page.line(fmt::format("  {:<10} ", penstock_path_name(path.path)), headline);
  paint_headline(page, path, headline);
}

void print_path(Page& page, const PathOutlook& path) {
  const std::string headline = headline_of(path);
  page.wrap(fmt::format("  {:<10} ", penstock_path_name(path.path)), headline);
  paint_headline(page, path, headline);
  for (const Finding& need : path.needs) {
    const char* const state = need_state_name(need);
    page.wrap(fmt::format("    {:<8} {:<18} ", state, need.code), need.sentence);
    page.paint(color_of(need), state);
    if (need.state != State::pass && !need.remedy.empty()) page.wrap("             -> ", need.remedy);
    if (facts::is_before_all(need)) break;  // --json has the rest.
  }
}

void print_refusal(Page& page, const std::string& paths, std::string_view sentence, std::string_view reason,
                   const std::string& remedy) {
  page.wrap(fmt::format("  {}: ", paths), fmt::format("{} [{}]", sentence, reason));
  if (!remedy.empty()) page.wrap("    -> ", facts::as_sentence(remedy));
}

Json path_outlook_json(const PathOutlook& path) {
  return {{"path", penstock_path_name(path.path)},
          {"standing", standing_name(path.standing())},
          {"usable", path.is_usable()},
          {"reason", path.reason_name()},
          {"sentence", path.sentence()},
          {"remedy", path.remedy()}};
}

Json outlook_json(const facts::Outlook& outlook) {
  Json list = Json::array();
  for (const PathOutlook& path : outlook.paths) list.push_back(path_outlook_json(path));
  return list;
}

std::string way_text(const facts::Outlook& outlook) {
  const PathOutlook* const best = outlook.first_usable();
  if (best == nullptr) return "no path can move bytes between files and device memory";
  const char* const proviso =
      facts::is_direct_path(best->path) ? ", if its self-test passes" : ", not directly: through host memory";
  const char* const what = best->path == PENSTOCK_PATH_VENDOR ? " (NVIDIA's libcufile, with nvidia-fs)" : "";
  return fmt::format("files reach device memory by {}{}{}", penstock_path_name(best->path), what, proviso);
}

void print_way(Page& page, const facts::Outlook& outlook) {
  page.wrap("  ", way_text(outlook));
  const PathOutlook* const best = outlook.first_usable();
  if (best != nullptr) page.paint(Color::bold, penstock_path_name(best->path));
  if (const std::string counsel = first_counsel(outlook); !counsel.empty()) page.wrap("  ", counsel);
}

void print_verdict(Page& page, const facts::Outlook& outlook) {
  print_way(page, outlook);
  const PathOutlook *const best = outlook.first_usable(), *const first = nearest_closed(outlook);
  std::set<std::string> told;  // The first steps; paths that begin with the same are told once.
  for (const PathOutlook& path : outlook.paths) {
    if (&path == best) break;
    const std::vector<std::string> steps = path.remedies();
    if (steps.empty() || (!told.insert(steps.front()).second && &path != first)) continue;
    const std::string title = fmt::format("  for {}{}: ", penstock_path_name(path.path), where_of(path));
    if (steps.size() == 1) {
      page.wrap(title, steps.front());
      continue;
    }
    page.line(title, awaits_nvidia_fs(path) ? "these, and what storage needs, which shows once nvidia-fs is loaded"
                                            : "all of these");
    for (std::size_t i = 0; i < steps.size(); ++i) page.wrap(fmt::format("    {}. ", i + 1), steps[i]);
    if (!path.only_on.empty()) page.wrap("    ", "Of other storage, 'penstock explain FILE' names the steps.");
  }
}

}  // namespace penstock::tools
