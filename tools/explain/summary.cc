// SPDX-License-Identifier: Apache-2.0

#include "tools/explain/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/environment.h"
#include "facts/finding.h"
#include "facts/process.h"
#include "tools/common/outlook_page.h"
#include "tools/common/page.h"
#include "tools/common/table.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

std::string path_text(const Explanation& told) {
  const Verdict* const best = told.chosen();
  return best != nullptr ? best->path_name() : "none";
}

// "XFS on /data, nvme0n1p1"
std::string place_text(const Explanation& told) {
  std::string text = told.info.file_system;
  if (told.direct.report.mount) text += " on " + told.direct.report.mount->mount_point;
  if (told.direct.stack) text += ", " + told.direct.stack->text();
  return text;
}

// The paths that were refused before the chosen one for one reason.
struct Obstruction {
  std::string paths;
  Refusal refusal;
};

void add_obstructions(const Explanation& told, std::vector<Obstruction>& list) {
  for (const Verdict& verdict : told.verdicts) {
    if (told.may_serve(verdict)) return;
    const Refusal refusal = told.refusal_of(verdict);
    const auto same = [&](const Obstruction& each) { return each.refusal.reason == refusal.reason; };
    const auto found = std::find_if(list.begin(), list.end(), same);
    if (found == list.end()) list.push_back({verdict.path_name(), refusal});
    else if (found->paths.find(verdict.path_name()) == std::string::npos)
      found->paths += fmt::format(", {}", verdict.path_name());
  }
}

void print_obstructions(const std::vector<Obstruction>& list, Page& page) {
  std::set<std::string> told;
  for (const Obstruction& each : list) {
    const auto& [reason, sentence, remedy] = each.refusal;
    print_refusal(page, "not " + each.paths, sentence, reason, told.insert(remedy).second ? remedy : "");
  }
}

// Findings that no verdict has said, because a verdict stops at the first reason. Some have the CPU move bytes in spite
// of O_DIRECT; others keep p2pdma from a file as well: its storage, and on a machine without a GPU the kernel. Each is
// told once, with how many of the files it was met on.
class Hindrances {
 public:
  void add(const Explanation& told) {
    for (const core::Finding& finding : told.direct.report.findings) {
      if (finding.has_cpu_move_bytes()) add("against O_DIRECT", finding);
    }
    const auto& routes = told.direct.routes;
    if (routes.empty()) return;
    const bool has_device = !routes[0].peer.empty();  // The verdict speaks of it and of the kernel.
    for (const core::Finding& finding : routes[0].findings) {
      if (!has_device || is_of_storage(finding)) add("also against p2pdma", finding);
    }
  }
  void print(const std::vector<Obstruction>& told, bool counts, Page& page) const {
    for (const auto& [label, finding, files] : met_) {
      const std::string_view code = finding.code();
      const auto says_it = [&](const Obstruction& each) { return code == each.refusal.reason; };
      if (std::any_of(told.begin(), told.end(), says_it)) continue;
      const std::string of = counts ? fmt::format(" ({} file{})", files, files == 1 ? "" : "s") : "";
      print_refusal(page, label + of, finding.sentence(), code, finding.remedy());
    }
  }

 private:
  struct Met {
    const char* label;
    core::Finding finding;
    unsigned files = 0;
  };
  void add(const char* label, const core::Finding& finding) {
    const auto is_it = [&](const Met& each) { return each.finding == finding; };
    const auto found = std::find_if(met_.begin(), met_.end(), is_it);
    if (found == met_.end()) met_.push_back({label, finding, 1});
    else ++found->files;
  }

  std::vector<Met> met_;
};

std::string cached_text(const Explanation& told) {
  if (!told.cached) return "the kernel does not tell";
  if (*told.cached == 0) return "nothing";
  return *told.cached >= told.info.size ? "all of it" : fmt::format("{} of it", format_size(*told.cached));
}

// How the request is cut and moved, from the chunks as they would be moved now.
std::string plan_text(const ExplainSettings& settings, const Explanation& told) {
  const Choice& choice = *told.plan.choice;
  const std::uint64_t chunks = choice.chunk == 0 ? 0 : (told.plan.size + choice.chunk - 1) / choice.chunk;
  const bool direct = told.plan.text.find("direct") != std::string::npos;
  const bool buffered = told.plan.text.find("buffered") != std::string::npos;
  const char* way = direct && buffered ? ", part O_DIRECT, part through the page cache"
                    : direct           ? ", O_DIRECT"
                    : buffered         ? ", through the page cache"
                                       : "";
  return fmt::format("{} at {}: {} {} of {}, by {} {}{}; {}", format_size(told.plan.size), settings.offset, chunks,
                     chunks == 1 ? "part" : "parts", format_size(choice.chunk), std::max(choice.threads, 1u),
                     choice.threads > 1 ? "threads at most, the calling one among them" : "thread", way, why(choice));
}

// Prints the notes on caches besides the page cache, which change direct reads, and the number of the other notes.
void print_caches(const FileAnswer& answer, Page& page) {
  std::size_t others = 0;
  for (const facts::StorageNote& note : answer.told.direct.notes) {
    if (std::string_view(note.topic) == "cache") page.row("cache", note.text);
    else ++others;
  }
  if (others > 0) page.row("storage", fmt::format("{} things that no look at the file shows: -v lists them", others));
}

const char* verb(const ExplainSettings& settings) { return settings.is_write ? "a write from" : "a read into"; }
std::string memory_text(const ExplainSettings& settings, bool stands_in) {
  if (settings.memory != "device") return "host memory";
  return stands_in ? "host memory in place of a GPU's" : fmt::format("memory of GPU {}", settings.gpu);
}

}  // namespace

// The user's placement of threads and pinned memory, or "".
std::string said_placement() {
  const core::LoadedSettings loaded = facts::settings_of_session();
  const bool is_said = loaded.settings.was_set("penstock.placement");
  return is_said ? loaded.settings.text("penstock.placement") + " (PENSTOCK_PLACEMENT)" : "";
}

Text summary_of(const ExplainSettings& settings, const FileAnswer& answer) {
  const Explanation& told = answer.told;
  Page page;
  const Verdict* const best = told.chosen();
  page.wrap("", fmt::format("{}: {} {} goes by {}{}", answer.file, verb(settings),
                            memory_text(settings, told.stand_in.has_value()), path_text(told),
                            best != nullptr ? mover_of(best->path) : ""));
  page.paint(best != nullptr ? Color::bold : Color::red, fmt::format("goes by {}", path_text(told)));
  std::vector<Obstruction> list;
  add_obstructions(told, list);
  print_obstructions(list, page);
  Hindrances hindrances;
  hindrances.add(told);
  hindrances.print(list, false, page);
  page.row("file", fmt::format("{}, {}", format_size(told.info.size), place_text(told)));
  page.row("page cache", cached_text(told));
  if (told.plan.choice) page.row("request", plan_text(settings, told));
  print_caches(answer, page);
  if (const std::string placement = said_placement(); !placement.empty()) page.row("placement", placement);
  return page.shown();
}

Text summary_of(const ExplainSettings& settings, const std::vector<FileAnswer>& answers) {
  Table table({"file", ">size", ">cached", "path"});
  std::vector<Obstruction> list;
  Hindrances hindrances;
  std::uint64_t size = 0, cached = 0;
  bool is_told = true, stands_in = false;
  std::size_t files = 0;
  std::set<std::string> paths;
  for (const FileAnswer& each : answers) {
    if (!each.failure.empty()) continue;
    ++files;
    stands_in = each.told.stand_in.has_value();
    const auto& known = each.told.cached;
    table.add({each.file, format_size(each.told.info.size), known ? format_size(*known) : "?", path_text(each.told)});
    add_obstructions(each.told, list);
    hindrances.add(each.told);
    size += each.told.info.size;
    cached += known.value_or(0);
    is_told = is_told && known.has_value();
    paths.insert(path_text(each.told));
  }
  Page page;
  page.wrap("", fmt::format("{} file{}, {}, {} in the page cache: {} {} goes by {}", files, files == 1 ? "" : "s",
                            format_size(size), is_told ? format_size(cached) : "an unknown part", verb(settings),
                            memory_text(settings, stands_in), fmt::format("{}", fmt::join(paths, ", "))));
  print_obstructions(list, page);
  hindrances.print(list, true, page);
  for (const FileAnswer& each : answers) {
    if (!each.failure.empty()) page.wrap("  not looked at: ", each.failure);
  }
  Text text = page.shown();
  text += table.text();
  return text;
}

}  // namespace penstock::tools
