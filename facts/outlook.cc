// SPDX-License-Identifier: Apache-2.0

#include "facts/outlook.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "core/paths.h"
#include "facts/needs.h"
#include "facts/storage_kind.h"
#include "topology/nvidia_fs_version.h"

namespace penstock::facts {
namespace {

// ---- Settings that keep paths off

void add_switch(Findings& needs, bool is_on, const char* code, std::string sentence, std::string remedy) {
  if (is_on) needs.push_back(need(code, State::pass, std::move(sentence)));
  else needs.push_back(switched_off(code, std::move(sentence), std::move(remedy)));
}

// The remedy that the library has for a reason of that name, which 'penstock help' tells, too.
std::string library_remedy(std::string_view name) {
  const std::optional<std::int32_t> reason = reason_named(name);
  return reason ? as_sentence(penstock_reason_remedy(*reason)) : "";
}

// Judges the setting that names the paths to use, and the one that requires a path.
void add_named_paths(const Machine& machine, const core::PathRow& row, Findings& needs) {
  const core::Settings& settings = machine.process.cufile.settings;
  const core::Texts& named = settings.texts("penstock.paths");
  const auto is_it = [&](const std::string& one) { return one == row.name || one == "auto"; };
  if (std::none_of(named.begin(), named.end(), is_it)) {
    needs.push_back(switched_off("not_listed", fmt::format("PENSTOCK_PATHS does not name {}", row.name),
                                 fmt::format("Add {} to PENSTOCK_PATHS, or unset PENSTOCK_PATHS.", row.name)));
  }
  const std::string& required = settings.text("penstock.require");
  if (required.empty() || required == row.name) return;
  needs.push_back(left_out_by(required));
}

// Adds the needs of a path that cuFile's configuration does not allow.
void add_cufile(const Machine& machine, const core::PathRow& row, const core::FileSystem* place, Findings& needs) {
  constexpr core::Setting kCompat = "properties.allow_compat_mode";
  constexpr const char* kCode = "cufile_json";
  const Process& process = machine.process;
  const core::LoadedSettings& cufile = process.cufile;
  const std::vector<core::Setting> forcing = process.forcing_host_memory();
  for (const core::Setting setting : forcing) {
    if (row.traits.posix || row.traits.host_memory) continue;
    needs.push_back(switched_off(
        kCode,
        fmt::format("{} is true in {}: every byte goes through host memory", setting.key(), process.origin_of(setting)),
        remedy_of_forcing(process, setting)));
  }
  if (row.traits.compat && forcing.empty() && !cufile.settings.is_on(kCompat)) {
    needs.push_back(switched_off(
        kCode,
        fmt::format("{} is false in {}: no byte may go through host memory", kCompat.key(), process.origin_of(kCompat)),
        fmt::format("Set {} to true.", kCompat.key())));
  }
  if (!row.traits.direct || place == nullptr) return;
  const Place& known = machine.place_of(*place);
  if (known.denied_by.empty()) return;
  needs.push_back(
      switched_off(kCode, fmt::format("{} in {} names {}", known.denied_by, cufile.file, known.denied_as),
                   fmt::format("Take \"{}\" out of {} in {}.", known.denied_as, known.denied_by, cufile.file)));
}

// Adds the settings if they have an error: no session opens then.
void add_settings(const Machine& machine, Findings& needs) {
  Finding settings = settings_finding(machine);
  if (settings.state == State::fail) needs.push_back(std::move(settings));
}

// ---- Each path

void add_known(const Findings& known, int path, Findings& needs) {
  for (const Finding& one : known) {
    if (one.state != State::fail || ((one.closes | one.doubts) & path_bit(path)) == 0) continue;
    const bool is_closed = (one.closes & path_bit(path)) != 0;
    needs.push_back(need(one.code, is_closed ? State::fail : State::unknown, one.sentence, one.remedy));
    needs.back().is_of_hardware = one.is_of_hardware;
  }
}

// A machine without any peer needs one, and the obstacles that stand in any peer's way are told besides.
void add_p2pdma_without_peer(const Machine& machine, const core::FileSystem* place, Findings& needs) {
  needs.push_back(need_gpu(machine));
  core::Findings obstacles = core::kernel_findings(machine);
  if (place != nullptr) core::append(obstacles, place->findings);
  for (const core::Finding& finding : obstacles) needs.push_back(need_of(finding));
}

// Only some file systems tell when a page of a mapped file is replaced, and only those in memory let a GPU write one.
void add_pagecache(const Machine& machine, const core::FileSystem* place, Findings& needs) {
  // An overlay is judged as the layer that has the file.
  constexpr std::string_view kTypes[] = {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "overlay"};
  constexpr std::string_view kInMemory[] = {"tmpfs", "hugetlbfs"};
  needs.insert(needs.end(), {need_gpu(machine), need_driver(machine)});
  if (place == nullptr) return;
  const std::string& type = place->mount.type;
  if (std::find(std::begin(kInMemory), std::end(kInMemory), type) != std::end(kInMemory)) return;
  if (std::find(std::begin(kTypes), std::end(kTypes), type) == std::end(kTypes)) {
    needs.push_back(need("file_system_pages", State::fail, "pages of " + type + " may change unnoticed while mapped",
                         library_remedy("file_system_pages")));
    return;
  }
  needs.push_back(need("reads_only", State::warn, "it writes to files in memory alone (tmpfs, hugetlbfs)",
                       "Leave writes to the next path, or keep the file on tmpfs."));
  needs.back().stops_writes = true;
}

void add_p2pdma(const Machine& machine, std::span<const PeerPair> pairs, const core::FileSystem* place,
                Findings& needs) {
  const PeerPair* const best = best_pair(pairs, place);
  if (best == nullptr && machine.peers().empty()) return add_p2pdma_without_peer(machine, place, needs);
  if (best == nullptr) return needs.push_back(need("storage", State::fail, "no file system can be seen", "Mount one."));
  needs.push_back(need("pair", State::pass, "the most likely pair: " + pair_text(*best)));
  const bool has_no_way = core::has_no_way_to_drives(machine, best->peer->address);
  for (const core::Finding& finding : best->findings) {
    needs.push_back(need_of(finding));
    needs.back().is_of_hardware = has_no_way && finding.obstacle == core::Obstacle::root_ports_apart;
  }
  for (const core::Finding& finding : best->write_findings) {
    needs.push_back(need_of(finding));
    needs.back().state = State::warn;
    needs.back().stops_writes = finding.stops();
  }
  if (!best->peer->is_nvidia_gpu()) return;
  const bool is_on = machine.process.exports_gpu_memory();
  add_switch(needs, is_on, "nvidia_export",
             is_on ? "PENSTOCK_NVIDIA_EXPORT=on: experimental"
                   : "an NVIDIA GPU's memory is exported only with PENSTOCK_NVIDIA_EXPORT=on (experimental)",
             library_remedy("pointer_not_exportable"));
}

void add_storage(const Machine& machine, const core::FileSystem* place, int path, Findings& needs) {
  if (place == nullptr) {
    return needs.push_back(need("nvidia_fs_mount", State::fail, "no file system can be seen", "Mount one."));
  }
  for (Finding& one : needs_of_storage(machine, *place, path)) needs.push_back(std::move(one));
}

core::Tristate stops_machine(const Machine& machine) {
  const auto version = core::parse_nvidia_fs_version(machine.nvidia_fs.module_version);
  return version ? core::stops_machine(*version, machine.platform.kernel_release) : core::Tristate::no;
}

void add_nvfs(const Machine& machine, const core::FileSystem* place, Findings& needs) {
  needs.push_back(need_gpu(machine));
  needs.push_back(need_driver(machine));
  needs.push_back(need_nvidia_fs(machine));
  if (!machine.nvidia_fs.is_loaded) return;
  add_storage(machine, place, PENSTOCK_PATH_NVFS, needs);
  needs.push_back(need_nvidia_fs_version(machine));
  add_switch(needs, machine.process.calls_nvidia_fs(), "nvfs_setting",
             "Penstock calls nvidia-fs only with PENSTOCK_NVFS=on or auto (experimental: it was not yet run beside "
             "NVIDIA's module)",
             library_remedy("nvfs_off"));
  if (!machine.process.shuns_doubtful_nvidia_fs() || stops_machine(machine) != core::Tristate::unknown) return;
  needs.push_back(switched_off("nvidia_fs_task_switch",
                               "PENSTOCK_NVFS=auto: it is unknown whether this nvidia-fs crashes a machine with this "
                               "kernel",
                               library_remedy("nvidia_fs_task_switch")));
}

void add_dmabuf(const Machine& machine, const core::FileSystem* place, Findings& needs) {
  needs.push_back(need_gpu(machine));
  needs.push_back(need_driver(machine));
  needs.push_back(need_io_uring(machine));
  needs.push_back(need_dmabuf_kernel(machine));
  if (place != nullptr) {
    for (const core::Finding& finding : place->findings) {
      if (finding.stops()) needs.push_back(need_of(finding));
    }
    add_switch(needs, machine.process.reads_files_by_dmabufs(), "dmabuf_files_setting",
               "files are read from their drive by dma-bufs only with PENSTOCK_DMABUF_FILES=on",
               library_remedy("dmabuf_file"));
  }
  add_switch(needs, machine.process.takes_dmabufs(), "dmabuf_setting",
             "raw drives reach GPU memory by dma-bufs only with PENSTOCK_DMABUF=on (experimental: not yet seen on "
             "hardware)",
             library_remedy("dmabuf_off"));
}

void add_vendor(const Machine& machine, const core::FileSystem* place, Findings& needs) {
  needs.push_back(need_gpu(machine));
  needs.push_back(need_driver(machine));
  needs.push_back(need_vendor_library(machine));
  needs.push_back(need_nvidia_fs(machine));
  if (machine.nvidia_fs.is_loaded) add_storage(machine, place, PENSTOCK_PATH_VENDOR, needs);
  needs.push_back(need_udev(machine));
  if (!machine.process.calls_vendor()) {
    add_switch(needs, false, "vendor_setting", "PENSTOCK_VENDOR=off", "Unset PENSTOCK_VENDOR.");
  }
}

void add_bounce(const Machine& machine, Findings& needs) {
  needs.push_back(need_device(machine));
  for (const Finding& slower : {need_io_uring(machine), need_locked_memory(machine)}) {
    needs.push_back(slower);
    if (slower.state != State::pass) needs.back().state = State::warn;
  }
}

// Adds the library's own verdict on this machine: it may know of something that no file shows.
void add_own_verdict(const Machine& machine, PathOutlook& path) {
  if (!machine.probe || !path.is_usable()) return;
  for (const Verdict& one : machine.probe->verdicts) {
    if (one.path != path.path || one.usable != 0 || one.reason == PENSTOCK_REASON_HOST_MEMORY) continue;
    if (one.path == PENSTOCK_PATH_HOST) continue;
    path.needs.push_back(need(penstock_reason_name(one.reason), State::fail, one.sentence(), one.remedy()));
  }
}

PathOutlook path_outlook(const Machine& machine, const Findings& known, std::span<const PeerPair> pairs,
                         const core::PathRow& row, const core::FileSystem* place) {
  PathOutlook path{static_cast<int>(row.id), {}};
  add_settings(machine, path.needs);
  switch (path.path) {
    case PENSTOCK_PATH_P2PDMA: add_p2pdma(machine, pairs, place, path.needs); break;
    case PENSTOCK_PATH_DMABUF: add_dmabuf(machine, place, path.needs); break;
    case PENSTOCK_PATH_PAGECACHE: add_pagecache(machine, place, path.needs); break;
    case PENSTOCK_PATH_NVFS: add_nvfs(machine, place, path.needs); break;
    case PENSTOCK_PATH_VENDOR: add_vendor(machine, place, path.needs); break;
    case PENSTOCK_PATH_BOUNCE: add_bounce(machine, path.needs); break;
    default: break;  // The path needs nothing that the files of a machine could show.
  }
  add_known(known, path.path, path.needs);
  add_named_paths(machine, row, path.needs);
  add_cufile(machine, row, place, path.needs);
  add_own_verdict(machine, path);
  say_where(path.needs, !machine.platform.container.empty());
  return path;
}

// Lists the paths in the order in which a file opened with O_DIRECT is offered to them, as programs that want a direct
// path open it. The page cache serves files opened without O_DIRECT, so it comes after all paths that go around it.
std::vector<core::PathRow> rows_in_order() {
  std::vector<core::PathRow> rows;
  for (const core::PathRow& row : core::kPaths) {
    if (row.traits.by_default()) rows.push_back(row);
  }
  std::stable_partition(rows.begin(), rows.end(), [](const core::PathRow& row) { return row.traits.direct; });
  return rows;
}

// The least of these is a path's best place. If standings are equal, one on a drive or a server says more than one in
// memory, and the drive nearest to a device says most.
auto rank_of(const PathOutlook& path, const core::FileSystem& place, const PeerPair* nearest) {
  const bool is_nearest = nearest != nullptr && nearest->file_system == &place;
  return std::tuple(path.standing(), !holds_data(place), path.count(Standing::closed), path.count(Standing::unknown),
                    path.count(Standing::off), !is_nearest);
}

}  // namespace

Finding left_out_by(const std::string& required) {
  return switched_off("required_path", fmt::format("PENSTOCK_REQUIRE={} allows no other path", required),
                      "Unset PENSTOCK_REQUIRE.");
}

Outlook outlook(const Machine& machine, const Findings& known, std::span<const PeerPair> pairs,
                const core::FileSystem& place) {
  Outlook all{&place, {}};
  for (const core::PathRow& row : rows_in_order()) {
    all.paths.push_back(path_outlook(machine, known, pairs, row, &place));
  }
  return all;
}

PathOutlook outlook(const Machine& machine, const Findings& known, const PeerPair& pair) {
  return path_outlook(machine, known, {&pair, 1}, core::row_of(core::PathId::p2pdma), pair.file_system);
}

Outlook outlook_of_file(Outlook place, const core::Findings& of_file, bool is_write) {
  for (PathOutlook& path : place.paths) {
    for (Finding& need : path.needs) {
      if (is_write && need.stops_writes) need.state = State::fail;
    }
    for (const core::Finding& finding : of_file) {
      const auto is_it = [&](const Finding& need) { return need.code == std::string_view(finding.code()); };
      const bool is_known = std::any_of(path.needs.begin(), path.needs.end(), is_it);
      if (path.path == PENSTOCK_PATH_P2PDMA && !is_known) path.needs.push_back(need_of(finding));
    }
  }
  return place;
}

namespace {

// The mount points of all places where the path stands as in the best one; none if it does so wherever data lie.
std::vector<std::string> alike(const PathOutlook& best, const std::vector<Outlook>& places) {
  std::vector<std::string> points;
  bool is_everywhere = true;
  for (const Outlook& one : places) {
    if (!holds_data(*one.place)) continue;
    const PathOutlook& here = one.of(best.path);
    const bool is_alike = here.standing() == best.standing() && here.remedies() == best.remedies();
    if (is_alike) points.push_back(one.place->mount.mount_point);
    is_everywhere = is_everywhere && is_alike;
  }
  return is_everywhere ? std::vector<std::string>() : points;
}

}  // namespace

Outlook best_of(const Machine& machine, const Findings& known, std::span<const PeerPair> pairs,
                const std::vector<Outlook>& places) {
  Outlook whole;
  const PeerPair* const nearest = best_pair(pairs);
  for (const core::PathRow& row : rows_in_order()) {
    const auto is_better = [&](const Outlook& one, const Outlook& other) {
      const int path = static_cast<int>(row.id);
      return rank_of(one.of(path), *one.place, nearest) < rank_of(other.of(path), *other.place, nearest);
    };
    const auto best = std::min_element(places.begin(), places.end(), is_better);
    whole.paths.push_back(best != places.end() ? best->of(static_cast<int>(row.id))
                                               : path_outlook(machine, known, {}, row, nullptr));
    whole.paths.back().only_on = alike(whole.paths.back(), places);
  }
  return whole;
}

}  // namespace penstock::facts
