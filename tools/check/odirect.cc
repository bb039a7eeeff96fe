// SPDX-License-Identifier: Apache-2.0

#include "tools/check/odirect.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "facts/stored_file.h"
#include "tools/check/odirect_cases.h"
#include "tools/common/context.h"
#include "tools/common/direct_answer.h"
#include "tools/common/failure.h"
#include "tools/common/interrupt.h"
#include "tools/common/machine_root.h"
#include "tools/common/page.h"
#include "tools/common/progress.h"
#include "tools/common/table.h"
#include "tools/common/terminal.h"
#include "tools/common/units.h"
#include "topology/text.h"

namespace penstock::tools {
namespace {

constexpr const char* kOdirectExamples =
    "Examples:\n"
    "  penstock odirect /mnt/nvme0\n"
    "  penstock odirect /mnt/nvme0 --json\n"
    "  penstock odirect /mnt/nfs --root captured/    only what no try shows, for a captured machine\n"
    "Each condition of NVIDIA's O_DIRECT Requirements Guide is made in a file without a name, and tried with O_DIRECT, "
    "into host memory. 'direct': around the page cache, as the kernel's counts show; 'cached': through it, which no "
    "direct path of a GPU can do; 'refused': an error; 'absent': there is no such thing here; 'unproven': done, but "
    "the kernel does not show which way, as on overlays. GB/s are measured once, with 8 MiB, and only distinguish the "
    "ways from each other. 'penstock explain FILE' explains one file, with remedies.\n"
    "Below is what no try shows: for a network file system what its server does, for a block device what lies under it "
    "(caches, deduplication, replicas), with the command that shows it. No server was asked.\n"
    "Exit code: 0 tried, 1 failed, or bytes were wrong, 2 wrong usage.";

struct OdirectSettings {
  std::string folder;
  std::string root;  // A captured machine, on which nothing can be tried; "" for this one.
  bool json = false;
};

struct Tried {
  const Case* one;
  Case::Told told;

  double rate() const {
    return told.moved.seconds > 0 ? static_cast<double>(told.moved.bytes) / told.moved.seconds : 0;
  }
};

// The place of a folder, and the facts about it that no try in it shows.
struct TriedPlace {
  std::string text;
  facts::StorageNotes notes;
  bool has_buffered_loop = false;
};

bool has_buffered_loop(const core::BlockDevice& device) {
  return device.is_buffered || std::any_of(device.slaves.begin(), device.slaves.end(), has_buffered_loop);
}

// The options of the mount and of its file system, each once.
std::string options_text(const core::Mount& mount) {
  const std::string all = mount.options + "," + mount.super_options;
  std::vector<std::string_view> told;
  for (const std::string_view one : core::split(all, ',')) {
    if (!one.empty() && std::find(told.begin(), told.end(), one) == told.end()) told.push_back(one);
  }
  return fmt::format("{}", fmt::join(told, ","));
}

TriedPlace place_of(const OdirectSettings& settings) {
  const std::string& folder = settings.folder;
  std::error_code error;
  const std::string real = settings.root.empty() ? std::filesystem::canonical(folder, error).string() : folder;
  if (!real.starts_with('/')) return {folder, {}};
  const core::Root root = open_machine_root(settings.root);
  const facts::Holder held = facts::holder_of(root, real);
  if (!held.mount) return {folder, {}};
  const core::Mount& mount = *held.mount;
  return {fmt::format("{}: {} of {}, mounted at {} ({})", folder, mount.type, mount.source, mount.mount_point,
                      options_text(mount)),
          facts::storage_notes(root, mount, held.stack), held.stack && has_buffered_loop(*held.stack)};
}

Json tried_json(const Tried& tried) {
  const Case& one = *tried.one;
  Json json = {{"case", one.name},
               {"what", one.what},
               {"guide_section", or_null(one.section)},
               {"guide", or_null(one.guide)},
               {"verdict", verdict_name(tried.told.verdict)},
               {"note", or_null(tried.told.note)},
               {"bytes", tried.told.moved.bytes},
               {"seconds", tried.told.moved.seconds}};
  return json;
}

void print_place(const TriedPlace& place, Page& page) {
  if (place.notes.empty()) return;
  page.section("What no try shows here, by sections of NVIDIA's O_DIRECT guide, and how to find out");
  print_notes(place.notes, page);
}

Text tried_text(const TriedPlace& place, const std::vector<Tried>& all) {
  Page page;
  constexpr std::uint64_t kBytesMin = 1 << 20;  // A rate of fewer bytes says nothing: they are told instead.
  page.wrap("", place.text);
  page.wrap("  ",
            "Whether the page cache takes part where O_DIRECT is asked for; 'direct' is between drive and host memory, "
            "and says nothing of a GPU's. The last column is what NVIDIA's O_DIRECT Requirements Guide says, by its "
            "sections.");
  Table table({"  WITH O_DIRECT", "HERE", ">GB/S", "NVIDIA'S GUIDE"});
  for (const Tried& tried : all) {
    const bool is_moved = tried.told.verdict != Verdict::refused && tried.told.verdict != Verdict::absent;
    const std::uint64_t bytes = tried.told.moved.bytes;
    const std::string rate = !is_moved || tried.rate() <= 0 ? "-"
                             : bytes < kBytesMin            ? format_size(bytes)
                                                            : fmt::format("{:.2f}", tried.rate() / 1e9);
    const std::string guide =
        *tried.one->section == '\0' ? "-" : fmt::format("{} ({})", tried.one->guide, tried.one->section);
    table.add({std::string("  ") + tried.one->what, verdict_name(tried.told.verdict), rate, guide});
  }
  page.lines(table.text().string());
  for (const Tried& tried : all) {
    if (!tried.told.note.empty()) page.wrap(fmt::format("  {}: ", tried.one->what), tried.told.note);
  }
  print_place(place, page);
  return page.shown();
}

// Answers for a captured machine, on which nothing is tried.
int run_captured(const OdirectSettings& settings) {
  if (!settings.folder.starts_with('/')) {
    throw Failure("name the folder by its absolute path on the captured machine", kUsage);
  }
  const TriedPlace place = place_of(settings);
  if (settings.json) {
    print_json({{"folder", settings.folder},
                {"root", settings.root},
                {"place", place.text},
                {"cases", Json::array()},
                {"storage_notes", notes_json(place.notes)}});
    return kSuccess;
  }
  Page page;
  page.wrap("", place.text);
  page.wrap("  ", "nothing was tried: it is a captured machine");
  if (place.notes.empty()) page.wrap("  ", "a local file system straight on a drive: a try there shows everything");
  print_place(place, page);
  print("{}", page.shown());
  return kSuccess;
}

std::vector<Tried> try_cases(const std::string& folder, const TriedPlace& place) {
  Progress progress("trying");
  std::vector<Tried> all;
  std::uint64_t bytes = 0;
  for (const Case& one : odirect_cases()) {
    throw_if_interrupted();
    Case::Told told = run_case(one, folder);
    all.push_back({&one, place.has_buffered_loop ? on_buffered_loop(std::move(told)) : std::move(told)});
    progress.update(bytes += all.back().told.moved.bytes,
                    static_cast<double>(all.size()) / static_cast<double>(odirect_cases().size()));
  }
  return all;
}

int run_odirect(const OdirectSettings& settings) {
  if (!settings.root.empty()) return run_captured(settings);
  const OdirectTry tried = try_odirect(settings.folder);
  if (settings.json) print_json(tried.document);
  else print("{}", tried.page);
  return tried.is_right ? kSuccess : kFailed;
}

}  // namespace

OdirectTry try_odirect(const std::string& folder) {
  const TriedPlace place = place_of({folder, "", false});
  const std::vector<Tried> all = try_cases(folder, place);
  Json document = {{"folder", folder},
                   {"root", nullptr},
                   {"place", place.text},
                   {"cases", Json::array()},
                   {"storage_notes", notes_json(place.notes)}};
  for (const Tried& tried : all) document["cases"].push_back(tried_json(tried));
  const bool is_right =
      std::none_of(all.begin(), all.end(), [](auto& tried) { return tried.told.verdict == Verdict::wrong; });
  return {std::move(document), tried_text(place, all), is_right};
}

void add_odirect(CommandLine& command) {
  auto settings = std::make_shared<OdirectSettings>();
  command
      .option("FOLDER", settings->folder, "A folder on the file system to try; needs 40 MB of free space while it runs")
      .required();
  command
      .option("--root", settings->root,
              "Try nothing, and print for FOLDER on the captured machine in DIR what no try shows")
      .value_name("DIR");
  command.flag("--json", settings->json, "Print JSON");
  command.footer(kOdirectExamples);
  command.runs([settings] { return run_odirect(*settings); });
}

}  // namespace penstock::tools
