// SPDX-License-Identifier: Apache-2.0

// The direct paths and what they may serve, as `penstock check` and gdscheck have them.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "tools/validate/judgement.h"
#include "tools/validate/world.h"

namespace penstock::tools::validate {
namespace {

using core::Tristate;

Judgement judge(Rows& rows, const char* code, std::string subject) {
  return {rows, Layer::drivers, code, std::move(subject)};
}

// Whose row tells of what a path needs.
constexpr std::pair<std::string_view, const char*> kRowOfNeed[] = {{"gpu", "gpu"},
                                                                   {"peer_unseen", "gpu"},
                                                                   {"gpu_driver", "nvidia_driver"},
                                                                   {"gpu_node", "nvidia_driver"},
                                                                   {"kernel_no_p2pdma", "kernel_p2pdma"},
                                                                   {"kernel_too_old", "kernel_p2pdma"},
                                                                   {"kernel_6_16", "kernel_p2pdma"},
                                                                   {"iommu_translating", "iommu"},
                                                                   {"nvme_tcp", "transport"},
                                                                   {"nfs_tcp", "transport"},
                                                                   {"nvidia_fs_storage", "nvidia_fs_hooks"},
                                                                   {"nvidia_fs_version", "nvidia_fs"}};

void may_follow_by(const Need* need, Judgement& row) {
  if (need == nullptr) return;
  for (const auto& [code, name] : kRowOfNeed) {
    if (code == need->code) row.may_follow(name);
  }
}

const Need* first_need(const PathReport& report, Tristate met) {
  const auto found =
      std::find_if(report.needs.begin(), report.needs.end(), [&](const Need& need) { return need.met == met; });
  return found == report.needs.end() ? nullptr : &*found;
}

bool has_failed(const Rows& rows, std::string_view code) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const Row& row) { return code == row.code && row.state == State::fail; });
}

// A machine is made for one way: nvidia-fs where that is loaded, else P2PDMA.
bool is_its_way(const World& world, int path) {
  return (path == PENSTOCK_PATH_P2PDMA) != world.machine.nvidia_fs.is_loaded;
}

void judge_closed_path(const World& world, const PathReport& report, Judgement& row) {
  const Need* const missing = first_need(report, Tristate::no);
  const std::string sentence =
      "closed: " + (missing == nullptr ? std::string(penstock_reason_sentence(report.reason)) : missing->text);
  const std::string remedy = missing == nullptr ? penstock_reason_remedy(report.reason) : missing->remedy;
  may_follow_by(missing, row);
  const auto is_other = [&](const PathReport& other) {
    return other.usable && other.path != report.path && is_direct_path(other.path);
  };
  const auto other = std::find_if(world.paths.begin(), world.paths.end(), is_other);
  if (other != world.paths.end()) {
    return row.not_applicable(sentence + "; " + penstock_path_name(other->path) + " may serve instead");
  }
  if (!is_its_way(world, report.path)) return row.not_applicable("another way to a direct path, " + sentence, remedy);
  row.fail(sentence, remedy);
}

// A path that is tried once a setting says so, for no other reason than how things come.
bool is_switched_off(const PathReport& report) {
  const Need* const doubtful = first_need(report, Tristate::unknown);
  if (doubtful == nullptr) return false;
  const std::string_view code = doubtful->code;
  return code == "nvidia_export" || code == "nvfs_setting";
}

void judge_path(const World& world, const PathReport& report, Rows& rows) {
  Judgement row = judge(rows, "path", penstock_path_name(report.path));
  if (world.machine.peers().empty() && !report.usable) return row.not_applicable("no device here has memory for it");
  if (!report.usable) return judge_closed_path(world, report, row);
  const Need* const doubtful = first_need(report, Tristate::unknown);
  if (doubtful == nullptr) {
    const bool is_by_nvidia_fs = report.path != PENSTOCK_PATH_P2PDMA;
    if (!is_by_nvidia_fs || !has_failed(rows, "nvidia_fs_driver")) {
      return row.pass("nothing is known against it; its self-test decides, when a program uses it");
    }
    row.may_follow("nvidia_fs_driver");
    return row.unknown("it may be tried, and only its self-test decides: nvidia-fs is too old for the driver");
  }
  may_follow_by(doubtful, row);
  if (is_switched_off(report)) row.is_default();
  if (report.path == PENSTOCK_PATH_P2PDMA) row.may_follow("kernel_modules");
  row.unknown("it may be tried, and only its self-test decides: " + doubtful->text, doubtful->remedy);
}

// The rows of storage that no direct path serves.
void judge_unserved(const World& world, const core::FileSystem& one, Judgement& row) {
  const core::Finding* const stop = core::first_stop(one.findings);
  if (stop == nullptr) {
    row.may_follow("path");
    return row.not_applicable("no direct path serves it on this machine");
  }
  const std::string& point = one.mount.mount_point;
  for (const char* const code : {"nvme_tcp", "nfs_tcp"}) {
    if (std::string_view(code) == stop->code()) row.may_follow("transport", point);
  }
  // Where no storage is better off, that is what closes the path itself.
  for (const PathReport& report : world.paths) {
    const Need* const missing = first_need(report, Tristate::no);
    if (report.path == PENSTOCK_PATH_P2PDMA && missing != nullptr && std::string_view(missing->code) == stop->code()) {
      row.may_follow("path", penstock_path_name(report.path));
    }
  }
  const core::Finding without_place{stop->obstacle, stop->certainty, stop->subject == point ? "" : stop->subject};
  row.not_applicable("no direct path serves it: " + without_place.sentence(), stop->remedy());
}

struct BestPath {
  int number;
  bool is_switched_off;
};

// The first that is tried as the machine is set, else the first.
std::optional<BestPath> best_path(const World& world, const Served& place) {
  std::optional<BestPath> best;
  for (const int number : place.paths) {
    if (!is_direct_path(number)) continue;
    const bool is_off = std::any_of(world.paths.begin(), world.paths.end(), [&](const PathReport& report) {
      return report.path == number && is_switched_off(report);
    });
    if (!is_off) return BestPath{number, false};
    if (!best) best = BestPath{number, true};
  }
  return best;
}

// Which storage a direct path may serve. Storage that none can serve is no fault of the machine's, unless all is such.
void judge_places(const World& world, Rows& rows) {
  for (const Served& place : world.places) {
    const core::FileSystem& one = *place.file_system;
    if (!one.stack && !core::is_network_file_system(one.mount.type)) continue;
    Judgement row = judge(rows, "storage", one.mount.mount_point);
    row.at(storage_text(one));
    const auto best = best_path(world, place);
    if (!world.machine.peers().empty()) row.reach(Reach::no);
    if (!best) {
      judge_unserved(world, one, row);
      continue;
    }
    const char* const path = penstock_path_name(best->number);
    if (allows_direct(world.machine.cufile, place)) {
      row.reach(best->is_switched_off ? Reach::once_set : Reach::now);
      row.pass(fmt::format("{} may serve it{}", path, best->is_switched_off ? ", once that is switched on" : ""));
      continue;
    }
    const auto bar = barred_by(world, place);
    if (bar) row.may_follow(bar->code, bar->subject);
    row.fail(fmt::format("{} might serve it, and cuFile's configuration forbids that", path),
             bar ? fmt::format("See {}{}{}.", bar->code, bar->subject.empty() ? "" : " ", bar->subject)
                 : "Look at denylist in /etc/cufile.json.");
  }
}

// "", or the drive of storage that is on one alone.
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

std::string drive_text(const World& world, const std::string& pci_address) {
  constexpr std::size_t kPointsMax = 3;
  std::string disk, text;
  std::size_t points = 0;
  for (const core::FileSystem& one : world.machine.file_systems) {
    if (!one.stack || pci_address.empty() || !is_on(*one.stack, pci_address, disk)) continue;
    if (++points <= kPointsMax) text += ", " + one.mount.mount_point;
  }
  if (points > kPointsMax) text += fmt::format(" and {} more", points - kPointsMax);
  return disk + text;
}

void judge_paths(const World& world, Rows& rows) {
  for (const PathReport& report : world.paths) {
    if (is_direct_path(report.path)) judge_path(world, report, rows);
  }
  judge_places(world, rows);
}

}  // namespace penstock::tools::validate
