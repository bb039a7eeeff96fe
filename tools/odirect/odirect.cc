// SPDX-License-Identifier: Apache-2.0

#include "tools/odirect/odirect.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/interrupt.h"
#include "tools/common/page.h"
#include "tools/common/progress.h"
#include "tools/common/table.h"
#include "tools/common/terminal.h"
#include "tools/common/units.h"
#include "tools/odirect/cases.h"
#include "topology/mounts.h"

namespace penstock::tools {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  penstock odirect /mnt/nvme0\n"
    "  penstock odirect /mnt/nvme0 --json\n"
    "Each condition of NVIDIA's O_DIRECT Requirements Guide is made in a file without a name, and tried with "
    "O_DIRECT,\n"
    "into host memory. 'direct': around the page cache, as the kernel's counts show; 'cached': through it, which no\n"
    "direct path of a GPU can do; 'refused': an error; 'absent': there is no such thing here; 'unproven': done, and "
    "the\n"
    "kernel does not tell which way, as on overlays. GB/s are of 8 MiB, "
    "once:\n"
    "they tell kinds of ways apart, and no more. 'penstock explain FILE' says it of one file, with remedies.\n"
    "Exit code: 0 tried, 1 failed, or bytes were wrong, 2 wrong usage.";

struct Settings {
  std::string folder;
  bool json = false;
};

struct Tried {
  const Case* one;
  Case::Told told;

  double rate() const {
    return told.moved.seconds > 0 ? static_cast<double>(told.moved.bytes) / told.moved.seconds : 0;
  }
};

std::string place_of(const std::string& folder) {
  std::error_code error;
  const std::string real = std::filesystem::canonical(folder, error);
  const auto root = core::Root::open("");
  if (error || !root.ok()) return folder;
  const core::MountTable mounts = core::MountTable::read(*root);
  const core::Mount* const mount = mounts.find(real);
  if (mount == nullptr) return folder;
  return fmt::format("{}: {} of {}, mounted at {} ({},{})", folder, mount->type, mount->source, mount->mount_point,
                     mount->options, mount->super_options);
}

Json tried_json(const Tried& tried) {
  const Case& one = *tried.one;
  Json json = {{"case", one.name},
               {"what", one.what},
               {"guide_section", *one.section == '\0' ? Json(nullptr) : Json(one.section)},
               {"guide", *one.guide == '\0' ? Json(nullptr) : Json(one.guide)},
               {"verdict", verdict_name(tried.told.verdict)},
               {"note", tried.told.note.empty() ? Json(nullptr) : Json(tried.told.note)},
               {"bytes", tried.told.moved.bytes},
               {"seconds", tried.told.moved.seconds}};
  return json;
}

void print_tried(const std::string& folder, const std::vector<Tried>& all) {
  Page page;
  page.wrap("", place_of(folder));
  Table table({"  WITH O_DIRECT", "HERE", ">GB/S", "GUIDE"});
  for (const Tried& tried : all) {
    const bool is_moved = tried.told.verdict != Verdict::refused && tried.told.verdict != Verdict::absent;
    const std::string guide =
        *tried.one->section == '\0' ? "-" : fmt::format("{} ({})", tried.one->guide, tried.one->section);
    table.add({std::string("  ") + tried.one->what, verdict_name(tried.told.verdict),
               is_moved && tried.rate() > 0 ? fmt::format("{:.2f}", tried.rate() / 1e9) : "-", guide});
  }
  page.lines(table.text().string());
  for (const Tried& tried : all) {
    if (!tried.told.note.empty()) page.wrap(fmt::format("  {}: ", tried.one->what), tried.told.note);
  }
  print("{}", page.shown());
}

int run_odirect(const Settings& settings) {
  std::vector<Tried> all;
  bool is_right = true;
  {
    Progress progress("trying");
    std::uint64_t bytes = 0;
    for (const Case& one : odirect_cases()) {
      throw_if_interrupted();
      all.push_back({&one, run_case(one, settings.folder)});
      is_right = is_right && all.back().told.verdict != Verdict::wrong;
      progress.update(bytes += all.back().told.moved.bytes,
                      static_cast<double>(all.size()) / static_cast<double>(odirect_cases().size()));
    }
  }
  if (settings.json) {
    Json json = {{"folder", settings.folder}, {"place", place_of(settings.folder)}, {"cases", Json::array()}};
    for (const Tried& tried : all) json["cases"].push_back(tried_json(tried));
    print_json(json);
  } else {
    print_tried(settings.folder, all);
  }
  return is_right ? kSuccess : kFailed;
}

}  // namespace

void add_odirect(CommandLine& command) {
  auto settings = std::make_shared<Settings>();
  command.option("FOLDER", settings->folder, "Of the file system; needs room for 40 MB, which nothing is left of")
      .required();
  command.flag("--json", settings->json, "Print JSON");
  command.footer(kExamples);
  command.runs([settings] { return run_odirect(*settings); });
}

}  // namespace penstock::tools
