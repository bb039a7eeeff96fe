// SPDX-License-Identifier: Apache-2.0

#include "model/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "model/input.h"
#include "model/words.h"

namespace penstock::model {
namespace {

// Number of ranks of a node that move bytes in parallel.
double movers(const Job& job, const Fleet& fleet) {
  return job.is_sharded || job.is_replicated ? std::max(1.0, fleet.ranks / fleet.nodes) : 1;
}

double stored_bytes(const Job& job, const Fleet& fleet) {
  return job.is_replicated ? job.bytes : job.bytes / fleet.nodes;
}

double moved_bytes(const Job& job, const Fleet& fleet) {
  return job.is_replicated ? job.bytes * movers(job, fleet) : stored_bytes(job, fleet);
}

double ceiling(const Fleet& fleet) { return fleet.drives * fleet.drive_bytes_per_s; }

// A save goes at what the drives write, if that was said.
double drives_rate(const Job& job, const Fleet& fleet, const Constants& constants) {
  const bool is_said = !job.is_load && fleet.drive_write_bytes_per_s > 0;
  return fleet.drives * (is_said ? fleet.drive_write_bytes_per_s : drive_in_use(fleet, constants));
}

// The drives' cache absorbs its part at the full rate; the rest moves at the rate of real use.
Stage drives(const Job& job, const Fleet& fleet, const Constants& constants, double bytes) {
  if (fleet.fabric_bytes_per_s > 0) return {"fabric", bytes, fleet.fabric_bytes_per_s / fleet.nodes};
  const double cached = job.is_load ? 0 : std::min(bytes, fleet.drive_cache_bytes);
  const double seconds = cached / ceiling(fleet) + (bytes - cached) / drives_rate(job, fleet, constants);
  return {"drives", bytes, bytes / seconds};
}

Stage gpu_links(const Job& job, const Fleet& fleet, const Constants& constants) {
  const double count = movers(job, fleet);
  const double alone = count * constants[Constant::kGpuLink];
  return {"GPU links", moved_bytes(job, fleet), count > 1 ? std::min(alone, constants[Constant::kNodeLinks]) : alone};
}

Stage by_each(std::string_view name, const Job& job, const Fleet& fleet, double each, double all) {
  return {name, moved_bytes(job, fleet), std::min(movers(job, fleet) * each, all)};
}

}  // namespace

double drive_in_use(const Fleet& fleet, const Constants& constants) {
  return fleet.drive_bytes_per_s * (fleet.drive_share > 0 ? fleet.drive_share : constants[Constant::kDriveShare]);
}

std::string_view path_model_name(PathModel kind) {
  switch (kind) {
    case PathModel::kDirect: return "direct";
    case PathModel::kBounce: return "good host";
    case PathModel::kSerial: return "host, no overlap";
    case PathModel::kPoor: return "poor host";
    case PathModel::kTorchSave: return "torch.save";
    case PathModel::kMeasured: return "measured here";
  }
  return "";
}

void check(const Fleet& fleet) {
  require_positive("the number of nodes", fleet.nodes, 1e6);
  require_positive("the number of ranks", fleet.ranks, 1e7);
  if (std::fmod(fleet.ranks, fleet.nodes) != 0) {
    throw InvalidInput(fmt::format(
        "the number of ranks is {} with {} nodes; it must be a multiple of them, since nodes are all alike: without "
        "--ranks there are 8 in each",
        count_in_words(fleet.ranks), count_in_words(fleet.nodes)));
  }
  require_positive("the number of drives", fleet.drives, 1e6);
  require_positive("the rate of a drive in B/s", fleet.drive_bytes_per_s, 1e13);
  require_not_negative("the rate of a drive's writes in B/s", fleet.drive_write_bytes_per_s, 1e13);
  require_not_negative("the drives' cache in bytes", fleet.drive_cache_bytes, 1e16);
  require_not_negative("the rate of the fabric in B/s", fleet.fabric_bytes_per_s, 1e16);
  require_not_negative("the measured rate in B/s", fleet.measured_bytes_per_s, 1e16);
}

Job sized(Job job, const ModelSize& model) {
  if (model.parameters == 0) return job;
  require_positive("the number of parameters", model.parameters, 1e15);
  require_not_negative("the bytes of a weight", model.weight_bytes, 64);
  require_not_negative("the optimizer's bytes for a parameter", model.optimizer_bytes, 256);
  job.bytes = model.bytes();
  return job;
}

void check(const Job& job) {
  require_positive("the size in bytes", job.bytes, 1e18);
  require_not_negative("the number of files", job.files, 1e12);
}

void check(const Training& run) {
  require_positive("the length of the run in hours", run.hours, 1e7);
  require_positive("the time between failures in s", run.failure_s, 1e13);
  require_not_negative("the time to recover in s", run.recovery_s, 1e9);
  require_not_negative("the interval in s", run.period_s, 1e10);
  require_not_negative("the price of a GPU-hour", run.gpu_hour_price, 1e6);
}

void check_room(double saves, double hours, const std::vector<double>& saves_s) {
  if (saves_s.empty()) return;
  const double run_s = hours * 3600, save_s = *std::min_element(saves_s.begin(), saves_s.end());
  if (saves * save_s <= run_s) return;
  throw InvalidInput(fmt::format(
      "{} checkpoints in {} h are one every {}, and one takes {} at least: no more than {} fit into the run",
      count_in_words(saves), count_in_words(hours), time_in_words(run_s / saves), time_in_words(save_s),
      count_in_words(std::floor(run_s / save_s))));
}

std::vector<Stage> stages(PathModel kind, const Job& job, const Fleet& fleet, const Constants& constants) {
  using enum Constant;
  const double once = stored_bytes(job, fleet), all = moved_bytes(job, fleet);
  switch (kind) {
    case PathModel::kDirect: return {drives(job, fleet, constants, all), gpu_links(job, fleet, constants)};
    case PathModel::kBounce:
      return {drives(job, fleet, constants, once), gpu_links(job, fleet, constants),
              by_each("host copy", job, fleet, constants[kHostCopyGpu], constants[kHostCopyNode])};
    case PathModel::kSerial: {
      std::vector<Stage> all_stages = {
          drives(job, fleet, constants, once),
          by_each("pageable copy", job, fleet, constants[kPageableCopy], constants[kHostCopyNode])};
      if (!job.is_load) {
        all_stages.push_back(
            by_each("page-cache write", job, fleet, constants[kPageCacheWrite], constants[kHostCopyNode]));
      }
      return all_stages;
    }
    case PathModel::kPoor:
      return {drives(job, fleet, constants, once),
              by_each("poor host path", job, fleet, constants[kPoorHost], constants[kHostCopyNode])};
    case PathModel::kTorchSave:
      return {drives(job, fleet, constants, job.bytes), {"torch.save", job.bytes, constants[kTorchSave]}};
    case PathModel::kMeasured: return {{"measured path", all, fleet.measured_bytes_per_s}};
  }
  throw InvalidInput("there is no such path");
}

Duration duration(PathModel kind, const Job& job, const Fleet& fleet, const Constants& constants) {
  const std::vector<Stage> all = stages(kind, job, fleet, constants);
  const auto slowest = std::max_element(all.begin(), all.end(),
                                        [](const Stage& a, const Stage& b) { return a.seconds() < b.seconds(); });
  double seconds = slowest->seconds();
  if (kind == PathModel::kSerial) {
    seconds = 0;
    for (const Stage& stage : all) seconds += stage.seconds();
  }
  const double opening = job.files * constants[Constant::kFileLatency];
  return {seconds + opening, opening > seconds ? "one file after the other" : slowest->name};
}

namespace {

// The largest number from `low` on for which `holds` is true, to a part in 10^12; `holds` must be true up to some
// number and false above.
double last_where(double low, const std::function<bool(double)>& holds) {
  double high = low;
  while (holds(high) && high < 1e18) high *= 2;
  for (int i = 0; i < 100 && high - low > 1e-12 * high; ++i) {
    const double middle = (low + high) / 2;
    (holds(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace

double bytes_within(PathModel kind, Job job, const Fleet& fleet, const Constants& constants, double window_s) {
  return last_where(0.5, [&](double bytes) {
    job.bytes = bytes;
    return duration(kind, job, fleet, constants).seconds <= window_s;
  });
}

double drives_within(PathModel kind, const Job& job, Fleet fleet, const Constants& constants, double window_s) {
  constexpr double kDrivesMost = 1 << 20;
  const auto is_late = [&](double drives) {
    fleet.drives = drives;
    return duration(kind, job, fleet, constants).seconds > window_s;
  };
  if (!is_late(1)) return 1;
  if (kind == PathModel::kMeasured || fleet.fabric_bytes_per_s > 0 || is_late(kDrivesMost)) return 0;
  return std::ceil(last_where(1, is_late) * (1 - 1e-9));
}

double snapshot_s(const Job& job, const Fleet& fleet, const Constants& constants) {
  return gpu_links(job, fleet, constants).seconds();
}

double failure_s(double ranks, const Constants& constants) { return constants[Constant::kAcceleratorLife] / ranks; }

double young_daly_s(double save_s, double failure_s) { return std::sqrt(2 * save_s * failure_s); }

// A failure costs, on average, half a period plus the part of the save during which training had continued.
static double lost_to_failure_s(const Training& run, double period_s) {
  return period_s / 2 + std::max(0.0, run.save_s - run.stall_s);
}

double goodput(const Training& run, double period_s) {
  const double working = 1 - std::min(1.0, run.stall_s / period_s);
  return working * run.failure_s / (run.failure_s + run.recovery_s + lost_to_failure_s(run, period_s));
}

// The maximum of goodput() over the period. One save must end before the next begins.
double best_period_s(const Training& run) {
  const double between = run.failure_s + run.recovery_s + std::max(0.0, run.save_s - run.stall_s);
  const double best = run.stall_s + std::sqrt(2 * between * run.stall_s + run.stall_s * run.stall_s);
  return std::max(best, run.save_s);
}

Losses losses(const Training& run) {
  const double period_s = run.period_s > 0 ? std::max(run.period_s, run.save_s) : best_period_s(run);
  const double rework_s = lost_to_failure_s(run, period_s);
  const double failures = run.hours * 3600 / (run.failure_s + run.recovery_s + rework_s);
  const double stalled = std::min(1.0, run.stall_s / period_s);
  Losses lost{period_s,
              goodput(run, period_s),
              failures * run.failure_s * stalled / 3600,
              failures * rework_s / 3600,
              failures * run.recovery_s / 3600,
              0};
  lost.money = lost.hours() * run.gpus * run.gpu_hour_price;
  return lost;
}

}  // namespace penstock::model
