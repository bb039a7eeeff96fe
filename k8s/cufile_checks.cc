// SPDX-License-Identifier: Apache-2.0

// Checks cufile.json, alone or in a ConfigMap, with the library's own table of settings.
#include <fmt/format.h>

#include <optional>
#include <string>

#include "base/printable.h"
#include "facts/process.h"
#include "k8s/checks.h"
#include "settings/names.h"
#include "settings/words.h"

namespace penstock::tools::k8s {
namespace {

// A known key in the wrong section: Penstock applies it, NVIDIA's library ignores it.
std::string misplaced(const core::Note& note) {
  if (!note.sentence.starts_with(core::kTakenAs)) return "";
  const auto named = core::setting_named(note.key);  // Empty for a key that was truncated for printing.
  return named ? std::string(named->setting.key()) : "";
}

// What to write in place of a value that is not accepted, or of a key that means nothing.
std::string remedy_of(const core::Note& note) {
  const bool is_said_twice = note.sentence.starts_with("is given twice") || note.sentence.starts_with("contradicts");
  if (is_said_twice) return "Keep one of them.";
  if (const auto named = core::setting_named(note.key)) {
    const core::SettingRow& row = named->setting.row();
    return fmt::format("Write {}, or remove {}: by default it is {}.", core::file_takes_text(row),
                       core::shown(note.key), core::default_text(row));
  }
  if (const auto near = core::setting_near(note.key)) {
    return fmt::format("Write {} if that was meant, else remove it.", near->key());
  }
  return note.key.empty() ? "" : "Remove it: nothing reads it.";
}

void tell(const Object& object, const core::Note& note, Place place, Findings& findings) {
  const std::string key = core::shown(note.key);
  if (const std::string own = misplaced(note); !own.empty()) {
    findings.add("cufile_place", object, place,
                 {fmt::format("{} is in the wrong section, where NVIDIA's library ignores it", key),
                  fmt::format("Its name is {}.", own)});
    return;
  }
  if (note.severity == core::Severity::idle) {
    findings.add("cufile_idle", object, place,
                 {core::printable(fmt::format("{} has no effect with Penstock: {}", key, note.sentence))});
    return;
  }
  const bool is_error = note.severity == core::Severity::error;
  const char* rule = note.key.empty() && is_error ? "cufile_syntax" : is_error ? "cufile_value" : "cufile_key";
  findings.add(rule, object, place,
               {core::printable(note.key.empty() ? note.sentence : key + " " + note.sentence), remedy_of(note)});
}

// A list that bars files from direct paths may be meant, and is easily forgotten.
void check_denylists(const Object& object, const core::Settings& settings, Place place, Findings& findings) {
  for (const core::Setting list : {core::Setting("denylist.drivers"), core::Setting("denylist.devices"),
                                   core::Setting("denylist.mounts"), core::Setting("denylist.filesystems")}) {
    if (settings.texts(list).empty()) continue;
    findings.add("cufile_denylist", object, place,
                 {core::printable(
                     fmt::format("{} names {}: their files take no direct path", list.key(), settings.text_of(list)))});
  }
}

void check_text(const Object& object, const std::string& text, const std::string& name, Place first, bool is_block,
                Findings& findings) {
  const core::LoadedSettings loaded = core::parse_settings(text, name, true);
  check_denylists(object, loaded.settings, first, findings);
  for (const core::Note& note : loaded.notes) {
    const Place place = is_block && note.line > 0 ? Place{first.line + note.line, 1} : first;
    tell(object, note, place, findings);
  }
}

}  // namespace

void check_cufile(const Cluster& cluster, Findings& findings) {
  for (const Object& object : cluster.objects) {
    if (object.form == Form::cufile)
      check_text(object, object.manifest->text, object.manifest->file, {}, true, findings);
    if (object.kind != "ConfigMap") continue;
    for (const Member& member : object["data"].members) {
      if (!member.key.ends_with(".json") || !has_part(member.key, "cufile") || !member.value->is_text()) continue;
      check_text(object, member.value->text, member.key, member.value->place, member.value->is_block, findings);
    }
  }
}

}  // namespace penstock::tools::k8s
