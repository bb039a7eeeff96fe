// SPDX-License-Identifier: Apache-2.0

#include "tools/doctor/forecast.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/common/units.h"

namespace penstock::tools {
namespace {

constexpr double kBindsFrom = 0.75;  // The slowest part binds if the whole way is at least this close to it.
constexpr double kBusyFrom = 0.85;   // The part of all CPUs from which on they bind.
// A change is worth reporting if it takes at most this part of the time now: less gain is noise.
constexpr double kWorthTelling = 0.95;
// Settings bind if a load without them takes at most this part of the time now.
constexpr double kSettingsBindTo = 0.8;
constexpr double kBrief = 0.01;  // Seconds.
// The part of available memory that files may fill: the rest is for the program itself.
constexpr double kMemoryToFill = 0.8;

double seconds_for(const Load& load, double cold, double warm) {
  const auto cached = static_cast<double>(load.cached), all = static_cast<double>(load.bytes);
  double seconds = 0;
  if (load.cached < load.bytes && cold > 0) seconds += (all - cached) / cold;
  if (load.cached > 0 && warm > 0) seconds += cached / warm;
  return seconds;
}

double or_else(double value, double otherwise) { return value > 0 ? value : otherwise; }

Binds what_binds(const Load& load, const Speeds& speeds, bool is_cold) {
  const double whole = is_cold ? speeds.cold : speeds.warm;
  const double source = is_cold ? speeds.drive : speeds.page_cache;
  const bool link_is_slower = speeds.link > 0 && (source <= 0 || speeds.link < source);
  const double slowest = link_is_slower ? speeds.link : source;
  const bool is_part = slowest > 0 && whole >= kBindsFrom * slowest;
  const bool is_unknown =
      !link_is_slower && load.of_part && load.of_part->low < kBindsFrom && load.of_part->high >= kBindsFrom;
  if (is_part && !is_unknown && (link_is_slower || is_cold)) return link_is_slower ? Binds::link : Binds::drive;
  // It is the CPUs that copy out of the page cache.
  if (load.cpus_busy >= kBusyFrom * load.cpus) return Binds::cpu;
  if (is_unknown) return Binds::unknown;
  return is_part ? Binds::page_cache : Binds::path;
}

// Adds the change to have all bytes in the page cache.
void add_caching(const Load& load, const Speeds& speeds, Forecast& told) {
  if (load.cached >= load.bytes || speeds.warm <= 0) return;
  if (static_cast<double>(load.bytes) > kMemoryToFill * static_cast<double>(load.memory_available)) {
    told.left_out = fmt::format("it does not fit into the page cache: {} of memory are available",
                                format_size(load.memory_available));
    return;
  }
  const Judged judged = load.caching ? judge(*load.caching) : Judged::gain;
  if (judged == Judged::unknown) told.doubts.push_back({"have all of it in the page cache", *load.caching});
  if (judged != Judged::gain) return;
  told.changes.push_back({"have all of it in the page cache; to bring it there takes as long as one load",
                          load.read_all, static_cast<double>(load.bytes) / speeds.warm});
}

// The changes to the part that binds. They cannot be tried.
std::vector<Bound> bounds_of(Binds binds, const Load& load, const Speeds& speeds) {
  if (binds == Binds::drive && speeds.warm > speeds.cold) {
    return {{"have a quicker drive, or lift what limits this one",
             "look for a limit: the cloud volume's, or io.max or blkio.throttle of the cgroup", speeds.warm, 0}};
  }
  if (binds == Binds::cpu && load.cpus < load.cpus_there) {
    const double more = load.cpus_there / load.cpus;
    return {{"let it use all CPUs of the machine",
             "raise the container's CPU limit (resources.limits.cpu, cpu.max, cpu.cfs_quota_us) or its CPU set",
             speeds.drive > 0 ? std::min(speeds.cold * more, speeds.drive) : 0, speeds.warm * more}};
  }
  return {};
}

bool gains_nothing(const ForecastChange& change, const Forecast& told) {
  return change.seconds > kWorthTelling * told.seconds;
}

}  // namespace

Judged judge(const Ratio& with_to_without) {
  if (with_to_without.low >= 1 / kWorthTelling) return Judged::gain;
  return with_to_without.high > 1 / kWorthTelling ? Judged::unknown : Judged::none;
}

const char* binds_name(Binds binds) {
  constexpr const char* kNames[] = {"drive", "page_cache", "link", "cpu", "path", "settings", "unknown"};
  return kNames[static_cast<std::size_t>(binds)];
}

Forecast predict(const Load& load, const Speeds& speeds, const std::vector<Trial>& trials,
                 const std::vector<Bound>& bounds) {
  Forecast told;
  told.seconds = seconds_for(load, speeds.cold, speeds.warm);
  told.cold_seconds = seconds_for({load.bytes - load.cached, 0, 0, 0, 1, ""}, speeds.cold, speeds.warm);
  told.is_brief = told.seconds < kBrief;
  const bool plain_is_known =
      (load.cached == load.bytes || speeds.plain_cold > 0) && (load.cached == 0 || speeds.plain_warm > 0);
  if (plain_is_known) told.plain_seconds = seconds_for(load, speeds.plain_cold, speeds.plain_warm);
  const bool is_cold = told.cold_seconds > told.seconds / 2;
  // CPU time is counted in ticks that are longer than a brief load.
  told.binds = told.is_brief ? Binds::unknown : what_binds(load, speeds, is_cold);
  if (told.is_brief) return told;
  add_caching(load, speeds, told);
  const auto after = [&](const auto& change) {
    return seconds_for(load, or_else(change.cold, speeds.cold), or_else(change.warm, speeds.warm));
  };
  for (const Trial& trial : trials) {
    const double seconds = after(trial);
    if (trial.kind == Trial::Kind::no_settings && seconds <= kSettingsBindTo * told.seconds)
      told.binds = Binds::settings;
    if (trial.kind == Trial::Kind::more_cpu && told.binds == Binds::cpu) continue;
    const ForecastChange change{trial.what, trial.command, seconds};
    if (!gains_nothing(change, told)) told.changes.push_back(change);
    else if (const auto& doubt = is_cold ? trial.cold_doubt : trial.warm_doubt)
      told.doubts.push_back({trial.what, *doubt});
  }
  std::vector<Bound> all = bounds_of(told.binds, load, speeds);
  all.insert(all.end(), bounds.begin(), bounds.end());
  for (const Bound& bound : all) told.changes.push_back({bound.what, bound.command, after(bound), true});
  std::erase_if(told.changes, [&](const ForecastChange& each) { return gains_nothing(each, told); });
  const auto is_better = [](const ForecastChange& a, const ForecastChange& b) { return a.seconds < b.seconds; };
  std::stable_sort(told.changes.begin(), told.changes.end(), is_better);
  return told;
}

}  // namespace penstock::tools
