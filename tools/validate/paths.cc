// SPDX-License-Identifier: Apache-2.0

// The direct paths and what they may serve, as `penstock check` and gdscheck have them.
#include <fmt/format.h>

#include <string>

#include "tools/validate/judgement.h"
#include "tools/validate/world.h"

namespace penstock::tools::validate {
namespace {

using core::Tristate;

Judgement judge(Rows& rows, const char* code, std::string subject) {
  return {rows, Layer::drivers, code, std::move(subject)};
}

std::string sentence_of(const std::string& text, const std::string& fallback) { return text.empty() ? fallback : text; }

void judge_path(const World& world, const PathReport& report, Rows& rows) {
  Judgement row = judge(rows, "path", penstock_path_name(report.path));
  if (world.machine.peers().empty() && !report.usable) return row.not_applicable("no device here has memory for it");
  const Need* missing = nullptr;
  const Need* doubtful = nullptr;
  for (const Need& need : report.needs) {
    if (need.met == Tristate::no && missing == nullptr) missing = &need;
    if (need.met == Tristate::unknown && doubtful == nullptr) doubtful = &need;
  }
  if (!report.usable) {
    const std::string sentence =
        sentence_of(missing == nullptr ? "" : missing->text, penstock_reason_sentence(report.reason));
    const auto is_other = [&](const PathReport& other) {
      return other.usable && other.path != report.path && is_direct_path(other.path);
    };
    const auto other = std::find_if(world.paths.begin(), world.paths.end(), is_other);
    const bool has_other = other != world.paths.end();
    return row.fail_unless(has_other, has_other ? penstock_path_name(other->path) : "", sentence,
                           missing == nullptr ? penstock_reason_remedy(report.reason) : missing->remedy);
  }
  if (doubtful != nullptr) {
    return row.unknown("it may be tried, and only its self-test decides: " + doubtful->text, doubtful->remedy);
  }
  row.pass("nothing is known against it; its self-test decides, when a program uses it");
}

// Which storage a direct path may serve. Storage that none can serve is no fault of the machine's, unless all is such.
void judge_places(const World& world, Rows& rows) {
  for (const Served& place : world.places) {
    const core::FileSystem& one = *place.file_system;
    if (!one.stack && !core::is_network_file_system(one.mount.type)) continue;
    Judgement row = judge(rows, "storage", one.mount.mount_point);
    const auto best = std::find_if(place.paths.begin(), place.paths.end(), is_direct_path);
    if (best != place.paths.end()) {
      const char* const path = penstock_path_name(*best);
      if (allows_direct(world.machine.cufile, place)) {
        row.pass(fmt::format("{} may serve it", path));
      } else {
        const bool is_broken = world.machine.cufile.must_refuse;
        const char* const why = is_broken ? "cuFile's driver does not open with its configuration, see 'settings'"
                                          : "cuFile's configuration forbids that";
        row.fail(fmt::format("{} might serve it, and {}", path, why),
                 is_broken ? "Correct cufile.json first."
                           : "Look at /etc/cufile.json: denylist, force_compat_mode and vanilla_posix_io_mode.");
      }
    } else if (const core::Finding* const stop = core::first_stop(one.findings)) {
      row.not_applicable("no direct path serves it: " + stop->sentence(), stop->remedy());
    } else {
      row.not_applicable("no direct path serves it on this machine");
    }
  }
}

}  // namespace

void judge_paths(const World& world, Rows& rows) {
  for (const PathReport& report : world.paths) {
    if (is_direct_path(report.path)) judge_path(world, report, rows);
  }
  judge_places(world, rows);
}

}  // namespace penstock::tools::validate
