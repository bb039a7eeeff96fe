// SPDX-License-Identifier: Apache-2.0

// What in cuFile's configuration forbids direct paths, by key, value and place.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "tools/validate/judgement.h"
#include "tools/validate/world.h"
#include "topology/denylist.h"

namespace penstock::tools::validate {
namespace {

using core::Setting;

constexpr const char* kCode = "cufile_json";
constexpr Setting kSwitches[] = {"properties.force_compat_mode", "properties.vanilla_posix_io_mode"};

constexpr struct {
  Setting setting;
  std::vector<std::string> core::Denylist::*list;
} kLists[] = {{"denylist.mounts", &core::Denylist::mounts},
              {"denylist.filesystems", &core::Denylist::file_systems},
              {"denylist.devices", &core::Denylist::devices},
              {"denylist.drivers", &core::Denylist::drivers}};

std::string section_of(Setting setting) {
  const std::string_view key = setting.key();
  return std::string(key.substr(0, key.rfind('.')));
}

std::string subject_of(const Denial& denial) { return denial.key + " " + denial.entry; }

void judge_switch(const World& world, Setting setting, Rows& rows) {
  Judgement row(rows, Layer::drivers, kCode, std::string(setting.key()));
  const core::LoadedSettings& cufile = world.machine.cufile;
  const char* const variable = setting.row().variable;
  const bool is_of_environment = cufile.settings.origin(setting) == core::Origin::environment;
  const std::string place = is_of_environment ? variable : cufile.file;
  const std::string sentence =
      fmt::format("it is true in {}, and should be false: every byte goes through host memory", place);
  if (is_of_environment) return row.fail(sentence, fmt::format("Take {} out of the environment.", variable));
  row.fail(sentence,
           fmt::format("Write \"{}\": false in section \"{}\" of {}, or take the line out: false is the default.",
                       setting.name(), section_of(setting), place));
}

void judge_denial(const World& world, const Denial& denial, const std::string& places, Rows& rows) {
  const std::size_t dot = denial.key.rfind('.');
  Judgement(rows, Layer::drivers, kCode, subject_of(denial))
      .fail(fmt::format("it stands in {}, and should not: it bars {} from direct paths", world.machine.cufile.file,
                        places),
            fmt::format("Take \"{}\" out of \"{}\" in section \"{}\" of {}.", denial.entry, denial.key.substr(dot + 1),
                        denial.key.substr(0, dot), world.machine.cufile.file));
}

std::optional<Denial> denial_of(const World& world, const Served& place) {
  const auto at = static_cast<std::size_t>(place.file_system - world.machine.file_systems.data());
  return at < world.denials.size() ? world.denials[at] : std::nullopt;
}

}  // namespace

std::optional<Denial> denial_of(const core::Root& root, const Machine& machine, std::size_t file_system) {
  if (!machine.is_denied[file_system]) return std::nullopt;
  const core::FileSystem& one = machine.file_systems[file_system];
  for (const auto& each : kLists) {
    for (const std::string& entry : machine.cufile.settings.texts(each.setting)) {
      core::Denylist list;
      (list.*each.list).push_back(entry);
      if (core::denies(list, root, one.mount, one.stack)) return Denial{std::string(each.setting.key()), entry};
    }
  }
  return std::nullopt;
}

std::optional<RowName> barred_by(const World& world, const Served& place) {
  if (world.machine.cufile.must_refuse) return RowName{"settings", ""};
  for (const Setting setting : kSwitches) {
    if (world.machine.cufile.settings.is_on(setting)) return RowName{kCode, std::string(setting.key())};
  }
  const auto denial = denial_of(world, place);
  return denial ? std::optional(RowName{kCode, subject_of(*denial)}) : std::nullopt;
}

void judge_cufile(const World& world, Rows& rows) {
  const core::LoadedSettings& cufile = world.machine.cufile;
  if (cufile.must_refuse) return;  // That is a matter of `settings`.
  const std::size_t before = rows.size();
  for (const Setting setting : kSwitches) {
    if (cufile.settings.is_on(setting) && !world.machine.peers().empty()) judge_switch(world, setting, rows);
  }
  std::vector<std::pair<Denial, std::string>> barred;  // With the places that could be served but for it.
  for (const Served& place : world.places) {
    const auto denial = denial_of(world, place);
    if (!denial || std::none_of(place.paths.begin(), place.paths.end(), is_direct_path)) continue;
    auto known = std::find_if(barred.begin(), barred.end(),
                              [&](const auto& one) { return subject_of(one.first) == subject_of(*denial); });
    if (known == barred.end()) known = barred.insert(known, {*denial, ""});
    known->second += (known->second.empty() ? "" : ", ") + place.file_system->mount.mount_point;
  }
  for (const auto& [denial, places] : barred) judge_denial(world, denial, places, rows);
  if (rows.size() > before || cufile.file.empty()) return;
  Judgement(rows, Layer::drivers, kCode, "").pass("nothing in " + cufile.file + " forbids a direct path that there is");
}

}  // namespace penstock::tools::validate
