// SPDX-License-Identifier: Apache-2.0

// Makes the findings that follow from the outlook: direct paths, the storage that they may serve, and drivers without
// nvidia-fs's hooks.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "facts/examination.h"
#include "facts/judgement.h"
#include "facts/needs.h"
#include "facts/storage_kind.h"
#include "topology/nvidia_fs_storage.h"

namespace penstock::facts {
namespace {

// The code of the finding about a path's need, if it differs from the need's.
constexpr std::pair<std::string_view, const char*> kFindingOfNeed[] = {
    {"gpu_driver", "nvidia_driver"},     {"gpu_node", "nvidia_driver"},    {"kernel_no_p2pdma", "kernel_p2pdma"},
    {"kernel_too_old", "kernel_p2pdma"}, {"kernel_6_16", "kernel_p2pdma"}, {"iommu_translating", "iommu"},
    {"nvme_tcp", "transport"},           {"nfs_tcp", "transport"},         {"nvidia_fs_storage", "nvidia_fs_hooks"},
    {"nvidia_fs_version", "nvidia_fs"}};

void may_follow_by(const Finding* need, Judgement& row) {
  if (need == nullptr) return;
  row.may_follow(need->code);
  for (const auto& [code, name] : kFindingOfNeed) {
    if (code == need->code) row.may_follow(name);
  }
}

// True for the direct path that this machine is set up for: by nvidia-fs if that is loaded, else p2pdma. No machine can
// be set up for dmabuf yet.
bool is_its_way(const Examination& examined, int path) {
  return path != PENSTOCK_PATH_DMABUF && (path == PENSTOCK_PATH_P2PDMA) != examined.machine.nvidia_fs.is_loaded;
}

void judge_closed_path(const Examination& examined, const PathOutlook& path, Judgement& row) {
  const std::string sentence = "closed: " + path.sentence();
  may_follow_by(path.reason(), row);
  if (const PathOutlook* const other = examined.whole.best_direct()) {
    const bool is_off = other->standing() == Standing::off;
    const std::string instead = fmt::format("; {} may serve instead", penstock_path_name(other->path));
    return row.not_applicable(sentence + (is_off ? "" : instead));
  }
  if (!is_its_way(examined, path.path)) {
    return row.not_applicable("another way to a direct path, " + sentence,
                              path.is_beyond_repair() ? "" : path.reason()->remedy);
  }
  row.fail(sentence, path.remedy());
}

void judge_path(const Examination& examined, const PathOutlook& path, Findings& findings) {
  Judgement row(findings, "path", penstock_path_name(path.path));
  if (examined.machine.peers().empty() && !path.is_usable()) {
    return row.not_applicable("no device here has memory for it");
  }
  switch (path.standing()) {
    case Standing::closed: return judge_closed_path(examined, path, row);
    case Standing::off: may_follow_by(path.doubt(), row); return row.warn("off: " + path.sentence(), path.remedy());
    case Standing::usable:
      return row.pass("nothing is known against it; its self-test decides, when a program uses it");
    case Standing::unknown: break;
  }
  may_follow_by(path.reason(), row);
  row.unknown("it may be tried, and only its self-test decides: " + path.sentence(), path.remedy());
}

// The obstacles that stop each for itself; the same one on several devices counts once.
std::vector<const core::Finding*> stops_of(const core::Findings& findings) {
  std::vector<const core::Finding*> stops;
  for (const core::Finding& one : findings) {
    const auto is_same = [&](const core::Finding* other) { return other->obstacle == one.obstacle; };
    if (one.stops() && std::none_of(stops.begin(), stops.end(), is_same)) stops.push_back(&one);
  }
  return stops;
}

// Judges storage that no direct path serves. It follows from the path's own finding where the same obstacle closes the
// path; an obstacle of its own stays when the path is open.
void judge_unserved(const Examination& examined, const Outlook& place, Judgement& row) {
  const core::FileSystem& one = *place.place;
  const std::vector<const core::Finding*> stops = stops_of(one.findings);
  if (stops.empty()) {
    row.may_follow("settings");  // If no session opens, the path is not at fault.
    row.may_follow("path");
    return row.not_applicable("no direct path serves it on this machine");
  }
  const std::string& point = one.mount.mount_point;
  const PathOutlook& path = examined.whole.of(PENSTOCK_PATH_P2PDMA);
  std::string sentences, remedies;
  for (const core::Finding* const stop : stops) {
    const std::string_view code = stop->code();
    if (code == "nvme_tcp" || code == "nfs_tcp") row.may_follow("transport", point);
    if (path.reason() != nullptr && code == path.reason()->code) row.may_follow("path", penstock_path_name(path.path));
    const core::Finding without_place{stop->obstacle, stop->certainty, stop->subject == point ? "" : stop->subject};
    sentences += (sentences.empty() ? "" : "; besides, ") + without_place.sentence();
    const std::string remedy = as_sentence(stop->remedy());
    if (remedies.find(remedy) == std::string::npos) remedies += (remedies.empty() ? "" : " ") + remedy;
  }
  row.not_applicable("no direct path serves it: " + sentences, place.is_beyond_repair() ? "" : remedies);
}

Reach reach_of(const Outlook& place) {
  const PathOutlook* const best = place.best_direct();
  if (best != nullptr && best->is_usable()) return Reach::now;
  if (place.first_usable() == nullptr) return Reach::nowhere;
  return best == nullptr ? Reach::no : best->standing() == Standing::off ? Reach::once_set : Reach::unknown;
}

void judge_barred(const Examination& examined, const Outlook& place, const PathOutlook& best, Judgement& row) {
  const auto bar = barred_by(examined, *place.place);
  if (bar) row.may_follow(bar->code, bar->subject);
  row.fail(fmt::format("{} might serve it, and cuFile's configuration forbids that", penstock_path_name(best.path)),
           best.remedy());
}

// Says why the path that other storage of this machine goes by serves this one not; "" if it does, or there is none.
std::string passed_over(const Examination& examined, const Outlook& place) {
  const PathOutlook* const other = examined.whole.best_direct();
  if (other == nullptr || !other->is_usable()) return "";
  const PathOutlook& here = place.of(other->path);
  if (here.is_usable()) return "";
  return fmt::format("; {}, which serves other storage, does not: {}", penstock_path_name(here.path), here.sentence());
}

// Judges which direct paths support a file system. One that no direct path supports is not applicable, and no fault of
// the machine; a path that supports none of its storage has a finding of its own.
void judge_place(const Examination& examined, const Outlook& place, Findings& findings) {
  const core::FileSystem& one = *place.place;
  Judgement row(findings, "storage", one.mount.mount_point);
  row.at(storage_text(one));
  if (!examined.machine.peers().empty()) row.reach(reach_of(place));
  const PathOutlook* const best = place.best_direct();
  if (best == nullptr) return judge_unserved(examined, place, row);
  const std::string path = penstock_path_name(best->path);
  const auto is_cufiles = [](const Finding& need) {
    return need.is_switch && need.code == std::string_view("cufile_json");
  };
  if (std::any_of(best->needs.begin(), best->needs.end(), is_cufiles)) return judge_barred(examined, place, *best, row);
  if (best->is_usable()) return row.pass(path + " may serve it");
  if (best->is_once_set())
    return row.pass(path + " may serve it, once that is switched on" + passed_over(examined, place));
  if (const Finding* const doubt = best->doubt()) {
    may_follow_by(doubt, row);
    return row.unknown(fmt::format("{} might serve it, once that is switched on; whether it does is unknown: {}", path,
                                   doubt->sentence));
  }
  may_follow_by(best->reason(), row);
  // If the path itself is in doubt, its own finding has the remedy.
  const bool is_told = examined.whole.of(best->path).standing() == Standing::unknown;
  row.unknown(fmt::format("only a try tells whether {} may serve it: {}", path, best->sentence()),
              is_told ? "" : best->remedy());
}

void judge_hooks_of(const Examination& examined, const std::string& driver, Findings& findings) {
  Judgement row(findings, "nvidia_fs_hooks", driver);
  row.by("NVIDIA/gds-nvidia-fs, nvfs-mod.c: the functions that it looks for");
  const Finding found = need_registration(examined.machine, driver);
  const bool has_hooks = found.state == State::unknown && examined.machine.evidence.has_symbols == core::Tristate::yes;
  if (found.state == State::pass || has_hooks) return row.pass(found.sentence);
  if (found.state == State::unknown) return row.unknown(found.sentence, found.remedy);
  row.fail_unless(examined.whole.of(PENSTOCK_PATH_P2PDMA).standing() != Standing::closed, "p2pdma", found.sentence,
                  found.remedy);
}

// The file systems that the operating system lies on need not serve GPUs.
bool is_of_the_system(const std::string& mount_point) {
  return mount_point == "/" || mount_point == "/boot" || mount_point.starts_with("/boot/");
}

// The PCI address of the drive, if the storage is on one drive alone; else "".
std::string only_drive(const core::BlockDevice& device) {
  if (device.slaves.empty()) return device.pci_address;
  return device.slaves.size() == 1 ? only_drive(device.slaves.front()) : "";
}

bool is_on(const core::BlockDevice& device, const std::string& pci_address, std::string& disk) {
  if (device.slaves.empty()) {
    if (device.pci_address != pci_address) return false;
    disk = device.disk;
    return true;
  }
  return std::any_of(device.slaves.begin(), device.slaves.end(),
                     [&](const core::BlockDevice& below) { return is_on(below, pci_address, disk); });
}

}  // namespace

std::string storage_text(const core::FileSystem& file_system) {
  const core::Mount& mount = file_system.mount;
  if (!file_system.stack) return fmt::format("{} of {}", mount.type, mount.source);
  const std::string drive = only_drive(*file_system.stack);
  return fmt::format("{} on {}{}", mount.type, file_system.stack->text(), drive.empty() ? "" : ", drive " + drive);
}

std::string drive_text(const Machine& machine, const std::string& pci_address) {
  constexpr std::size_t kPointsMax = 3;
  std::string disk, text;
  std::size_t points = 0;
  for (const core::FileSystem& one : machine.file_systems) {
    if (!one.stack || pci_address.empty() || !is_on(*one.stack, pci_address, disk)) continue;
    if (++points <= kPointsMax) text += ", " + one.mount.mount_point;
  }
  if (points > kPointsMax) text += fmt::format(" and {} more", points - kPointsMax);
  return disk + text;
}

void judge_hooks(const Examination& examined, Findings& findings) {
  if (!examined.machine.nvidia_fs.is_loaded) return;
  std::map<std::string, bool> has_data;  // For each driver: one of its file systems holds data.
  for (const core::FileSystem& one : examined.machine.file_systems) {
    const std::string driver(core::nvidia_fs_driver(one));
    if (driver != "nvme" && driver != "nvme_rdma" && driver != "rpcrdma") continue;
    has_data[driver] = has_data[driver] || !is_of_the_system(one.mount.mount_point);
  }
  for (const auto& [driver, is_for_data] : has_data) {
    if (is_for_data) {
      judge_hooks_of(examined, driver, findings);
    } else {
      Judgement(findings, "nvidia_fs_hooks", driver).not_applicable("nothing but the system itself is on its drives");
    }
  }
}

void judge_paths(const Examination& examined, Findings& findings) {
  for (const PathOutlook& path : examined.whole.paths) {
    if (is_direct_path(path.path)) judge_path(examined, path, findings);
  }
  for (const Outlook& place : examined.places) {
    if (holds_data(*place.place)) judge_place(examined, place, findings);
  }
}

}  // namespace penstock::facts
