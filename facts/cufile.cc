// SPDX-License-Identifier: Apache-2.0

// Judges the settings of cuFile that forbid direct paths, each by its key, its value and where it was set.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "facts/examination.h"
#include "facts/judgement.h"
#include "facts/needs.h"

namespace penstock::facts {
namespace {

using core::Setting;

constexpr const char* kCufileCode = "cufile_json";

std::string section_of(Setting setting) {
  const std::string_view key = setting.key();
  return std::string(key.substr(0, key.rfind('.')));
}

std::string subject_of(const Place& place) { return place.denied_by + " " + place.denied_as; }

void judge_switch(const Machine& machine, Setting setting, Findings& rows) {
  Judgement row(rows, kCufileCode, std::string(setting.key()));
  const std::string place = machine.process.origin_of(setting);
  const std::string sentence =
      fmt::format("it is true in {}, and should be false: every byte goes through host memory", place);
  row.fail(sentence, remedy_of_forcing(machine.process, setting));
}

void judge_denial(const Machine& machine, const Place& denied, const std::string& places, Findings& rows) {
  const std::size_t dot = denied.denied_by.rfind('.');
  const std::string& file = machine.process.cufile.file;
  Judgement(rows, kCufileCode, subject_of(denied))
      .fail(fmt::format("it is on a denylist in {}, which keeps {} from direct paths", file, places),
            fmt::format("Take \"{}\" out of \"{}\" in section \"{}\" of {}.", denied.denied_as,
                        denied.denied_by.substr(dot + 1), denied.denied_by.substr(0, dot), file));
}

}  // namespace

std::string remedy_of_forcing(const Process& process, Setting setting) {
  const std::string place = process.origin_of(setting);
  if (process.cufile.settings.origin(setting) == core::Origin::environment) return fmt::format("Unset {}.", place);
  return fmt::format("Write \"{}\": false in section \"{}\" of {}, or take the line out: false is the default.",
                     setting.name(), section_of(setting), place);
}

std::optional<FindingName> barred_by(const Examination& examined, const core::FileSystem& one) {
  const std::vector<Setting> forcing = examined.machine.process.forcing_host_memory();
  if (!forcing.empty()) return FindingName{kCufileCode, std::string(forcing.front().key())};
  const Place& place = examined.machine.place_of(one);
  return place.denied_by.empty() ? std::nullopt : std::optional(FindingName{kCufileCode, subject_of(place)});
}

void judge_cufile(const Examination& examined, Findings& rows) {
  const Machine& machine = examined.machine;
  const core::LoadedSettings& cufile = machine.process.cufile;
  if (cufile.must_refuse) return;  // The finding `settings` reports that.
  const std::size_t before = rows.size();
  if (!machine.peers().empty()) {
    for (const Setting setting : machine.process.forcing_host_memory()) judge_switch(machine, setting, rows);
  }
  // The barred places, each with the mount points that a direct path could otherwise serve.
  std::vector<std::pair<const Place*, std::string>> barred;
  for (const Outlook& one : examined.places) {
    const Place& place = machine.place_of(*one.place);
    if (place.denied_by.empty() || one.best_direct() == nullptr) continue;
    auto known = std::find_if(barred.begin(), barred.end(),
                              [&](const auto& each) { return subject_of(*each.first) == subject_of(place); });
    if (known == barred.end()) known = barred.insert(known, {&place, ""});
    known->second += (known->second.empty() ? "" : ", ") + one.place->mount.mount_point;
  }
  for (const auto& [place, points] : barred) judge_denial(machine, *place, points, rows);
  if (rows.size() > before || cufile.file.empty()) return;
  Judgement(rows, kCufileCode).pass("nothing in " + cufile.file + " keeps any file system here from a direct path");
}

}  // namespace penstock::facts
