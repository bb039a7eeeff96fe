// SPDX-License-Identifier: Apache-2.0

#include "model/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/checkpoint.h"
#include "model/latency.h"
#include "model/registration.h"
#include "model/words.h"

namespace penstock::model {
namespace {

using enum Constant;
using C = const Constants&;

constexpr double kGigabyte = 1e9, kMebibyte = 1 << 20, kGibibyte = 1 << 30;
constexpr double kOpen = std::numeric_limits<double>::infinity();
constexpr double kLink = 12.5e9;  // 100 Gb/s
constexpr double kWeekOfSaves = 1000;

// The published megabyte takes 80 us on the link and has 256 pages.
RegistrationInput megabyte() {
  RegistrationInput input;
  input.buffer_bytes = kMebibyte;
  input.link_bytes_per_s = kMebibyte / 80e-6;
  return input;
}

// Of what drives read in use, saves reach no more than the data sheets' rate of writes.
Fleet with_drives(double ranks, double drives, Constant read, Constant write, C c) {
  Fleet fleet;
  fleet.ranks = ranks;
  fleet.drives = drives;
  fleet.drive_bytes_per_s = c[read];
  fleet.drive_write_bytes_per_s = std::min(c[read] * c[kDriveShare], c[write]);
  return fleet;
}

// One Gen4 drive and one rank that saves or loads, as in most published rows.
double one_drive(PathModel path, double gigabytes, bool is_load, C c) {
  const Job job{.is_load = is_load, .bytes = gigabytes * kGigabyte, .is_sharded = false};
  return duration(path, job, with_drives(1, 1, kDriveGen4Read, kDriveGen4Write, c), c).seconds;
}

// Eight GPUs and four Gen5 drives; every rank moves its part.
double eight_gpus(PathModel path, double gigabytes, bool is_load, C c) {
  const Job job{.is_load = is_load, .bytes = gigabytes * kGigabyte};
  return duration(path, job, with_drives(8, 4, kDriveGen5Read, kDriveGen5Write, c), c).seconds;
}

// GB/s into `nodes` nodes, each with `drives` Gen5 drives.
double node_rate(double nodes, double drives, C c) {
  Fleet fleet = with_drives(8 * nodes, drives, kDriveGen5Read, kDriveGen5Write, c);
  fleet.nodes = nodes;
  constexpr double kBytes = 1e12;
  return kBytes / kGigabyte / duration(PathModel::kDirect, {.is_load = true, .bytes = kBytes}, fleet, c).seconds;
}

double over_fabric(PathModel path, C c) {
  Fleet fleet{.ranks = 1024, .drives = 1, .drive_bytes_per_s = 1e12};
  fleet.nodes = 128;
  fleet.fabric_bytes_per_s = 250e9;
  return duration(path, {.bytes = 50e12}, fleet, c).seconds;
}

double week_hours(PathModel path, C c) { return kWeekOfSaves * one_drive(path, 140, false, c) / 3600; }
double week_dollars(PathModel path, C c) { return week_hours(path, c) * 8 * c[kGpuHourPrice]; }

double zero3(PathModel path, C c) {
  const ModelSize model{.parameters = 70e9, .weight_bytes = 0, .optimizer_bytes = 8};
  return duration(path, {.bytes = model.bytes()}, with_drives(8, 8, kDriveGen5Read, kDriveGen5Write, c), c).seconds;
}

constexpr std::string_view kWhySmall =
    "2.5 s is 5.6 GB/s, 80 % of the drive's ceiling; the 140 GB row is 59 % of it, and no fixed cost makes the larger "
    "file slower per byte. A drive that takes its first 8.75 GB at its full rate would: 2.50 s, and 32.5 s for 140 GB";
constexpr std::string_view kWhyPoor =
    "292 s (0.48 GB/s, 81 h for 1,000) and 67 h (241 s, 0.58 GB/s) stand in the same text; the model follows 67 h, "
    "on which the money is reckoned, and the rows of 14 and 109 GB";
constexpr std::string_view kWhyEight =
    "8 s is 17.5 GB/s, 31 % of the ceiling of four Gen5 drives, below the published 40-60 %; others measured 42 GB/s "
    "of "
    "writes on four such drives";
constexpr std::string_view kWhyEightPoor =
    "72 s is 1.94 GB/s: neither one rank at the poor path's 0.58 GB/s (241 s) nor eight at once (30 s); one rank of a "
    "host path without overlap would take 52 s";
constexpr std::string_view kWhyLarge =
    "130 s is 5.2 GB/s of FP8 weights: 9 % of the four Gen5 drives that the row names, which give 33.6 GB/s at the "
    "published 60 %; one Gen4 drive and one rank would take 160 s. In BF16 the model says 40 s";
constexpr std::string_view kWhyLargePoor =
    "18 minutes are 0.62 GB/s: one rank of the poor path, which would take 1,157 s; the eight GPUs that the row names "
    "have eight of it at once";
constexpr std::string_view kWhyPrecision =
    "26 s is 4.2 GB/s, the published 60 % of one Gen4 drive, if a weight is one byte; the row names no precision";
constexpr std::string_view kWhyGainLoad =
    "a path that reads, then copies; for saves, which copy twice, it is 2.5. A good host path loses nothing as long as "
    "the drive binds, and the published poor one 7.2 times";
constexpr std::string_view kWhyDataSet =
    "0.95 GB/s is 14 % of one drive, so no path binds; 812,000 files of 123 kB, opened one after the other at 100 us "
    "each, would take 105 s";
constexpr std::string_view kWhyDataSetPoor =
    "0.13 GB/s is a fifth of what the other rows' host path does; what the files cost, not how their bytes move";
constexpr std::string_view kWhyZero =
    "under 5 s is 14 GB/s a rank: a whole Gen5 drive for each at 100 % of its ceiling, against the published 40-60 %";
constexpr std::string_view kWhyFabric = "50 TB in 45 s is 1.1 TB/s; at the published 250 GB/s it takes 200 s";
constexpr std::string_view kWhyFabricPoor =
    "5 minutes are 167 GB/s; the poor path of 1,024 ranks moves 594 GB/s, so that the published 250 GB/s of the fabric "
    "bind with or without it";
constexpr std::string_view kWhyWalk =
    "20-50 us whatever the size, and 1,300 times less than 262 ms, cannot both be: 50 us are 5,243 times less. With 9 "
    "ns "
    "for each of the 16,384 pages the 200 us and the 1,300 hold, and so do 50 us for buffers of some MB";
constexpr std::string_view kWhyFirst =
    "by the formulas GPU memory costs 50 us once, less than the first registration of host memory of 1 MiB (266 us); "
    "the third I/O on average needs the set-up cost of the next row";
constexpr std::string_view kWhyCollective =
    "64 misses of 5 us are 320 us; 640 us needs 128 misses, two for each worker";

void add_registration(std::vector<Figure>& figures) {
  const auto add = [&](std::string_view what, std::string_view unit, double low, double high, auto predicted,
                       std::string_view why = "") {
    figures.push_back({"registration", what, unit, low, high, predicted, why});
  };
  add("pages of 1 GiB", "1", 262144, 262144, [](C c) { return kGibibyte / c[kHostPageBytes]; });
  add("registering 1 GiB of host memory", "s", 0.262, 0.262, [](C c) { return host_register_s(c, kGibibyte); });
  add("transfer of 1 GB at 100 Gb/s", "s", 0.08, 0.08, [](C) { return kGigabyte / kLink; });
  add("pages of a host for one of a GPU", "1", 16, 16, [](C c) { return c[kGpuPageBytes] / c[kHostPageBytes]; });
  add("registering 1 MiB of GPU memory", "s", 0, 50e-6, [](C c) { return gpu_register_s(c, kMebibyte); });
  add("registering 1 GiB of GPU memory", "s", 0, 200e-6, [](C c) { return gpu_register_s(c, kGibibyte); });
  add(
      "its walk, said not to hang on the size", "s", 20e-6, 50e-6,
      [](C c) { return gpu_register_s(c, kGibibyte) - c[kGpuRegisterFixed]; }, kWhyWalk);
  add("host over GPU, 1 GiB", "1", 1300, 1300,
      [](C c) { return host_register_s(c, kGibibyte) / gpu_register_s(c, kGibibyte); });
  add("registration's part of an I/O of 1 MB", "1", 0.6, 0.7,
      [](C c) { return 1 - cost_of(Scheme::kHostEachIo, megabyte(), c).efficiency(1); });
  add("64 misses of the NIC's cache, least", "s", 128e-6, 128e-6, [](C) { return 64 * facts_of(kNicCacheMiss).low; });
  add(
      "64 misses of the NIC's cache, most", "s", 640e-6, 640e-6, [](C) { return 64 * facts_of(kNicCacheMiss).high; },
      kWhyCollective);
  add("hit rate, 64 workers with 8 buffers each", "1", 0.10, 0.15, [](C c) { return cache_hit_rate(c, 512); });
  add("bandwidth lost to misses, 512 KiB each", "1", 0.05, 0.15, [](C c) {
    const double miss_s = (1 - cache_hit_rate(c, 512)) * c[kNicCacheMiss];
    return miss_s / (miss_s + kMebibyte / 2 / kLink);
  });
  add("R_eff of 1 MB registered for each I/O", "1", 0.23, 0.23,
      [](C c) { return cost_of(Scheme::kHostEachIo, megabyte(), c).efficiency(1); });
  add("R_eff of 1 MB of GPU memory after 4 I/Os", "1", 0.86, 1,
      [](C c) { return cost_of(Scheme::kGpuOnce, megabyte(), c).efficiency(4); });
  add(
      "first I/O that pays, mean of 1-256 MiB", "1", 3, 3, [](C c) { return average_first_io(c, 0); }, kWhyFirst);
  add("the same with the set-up cost that gives 3", "1", 3, 3,
      [](C c) { return average_first_io(c, setup_for_average(c, 3)); });
}

void add_checkpoints(std::vector<Figure>& figures) {
  using enum PathModel;
  const auto add = [&](std::string_view what, std::string_view unit, double low, double high, auto predicted,
                       std::string_view why = "") {
    figures.push_back({"checkpoint", what, unit, low, high, predicted, why});
  };
  add("14 GB, poor host path", "s", 22, 22, [](C c) { return one_drive(kPoor, 14, false, c); });
  add(
      "14 GB, direct", "s", 2.5, 2.5, [](C c) { return one_drive(kDirect, 14, false, c); }, kWhySmall);
  add(
      "140 GB, poor host path", "s", 292, 292, [](C c) { return one_drive(kPoor, 140, false, c); }, kWhyPoor);
  add("140 GB, direct", "s", 34, 34, [](C c) { return one_drive(kDirect, 140, false, c); });
  add(
      "140 GB, 8 x H200, four Gen5 drives, poor", "s", 72, 72, [](C c) { return eight_gpus(kPoor, 140, false, c); },
      kWhyEightPoor);
  add(
      "140 GB, 8 x H200, four Gen5 drives, direct", "s", 8, 8, [](C c) { return eight_gpus(kDirect, 140, false, c); },
      kWhyEight);
  add("1,000 saves, poor", "h", 67, 80, [](C c) { return week_hours(kPoor, c); });
  add("1,000 saves, direct", "h", 9.4, 9.4, [](C c) { return week_hours(kDirect, c); });
  add("their price, poor, $4.06 x 8", "$", 2176, 2176, [](C c) { return week_dollars(kPoor, c); });
  add("their price, direct, $4.06 x 8", "$", 305, 305, [](C c) { return week_dollars(kDirect, c); });
  add("saved by the direct path", "$", 1871, 1871,
      [](C c) { return week_dollars(kPoor, c) - week_dollars(kDirect, c); });
  add("their price, poor, $6.88 x 8", "$", 3688, 3688, [](C c) { return week_hours(kPoor, c) * 8 * 6.88; });
  add("a node's hour at $4.06 x 8", "$", 32.48, 32.48, [](C c) { return 8 * c[kGpuHourPrice]; });
  add("a node's hour at $6.88 x 8", "$", 55.04, 55.04, [](C) { return 8 * 6.88; });
  add("its 168 hours at $4.06 x 8", "$", 5457, 5457, [](C c) { return 168 * 8 * c[kGpuHourPrice]; });
  add("its 168 hours at $6.88 x 8", "$", 9247, 9247, [](C) { return 168 * 8 * 6.88; });
  add("gain, save through one Gen4 drive", "1", 2.5, 4,
      [](C c) { return one_drive(kSerial, 140, false, c) / one_drive(kDirect, 140, false, c); });
  add(
      "50 TB over fabric at 250 GB/s, poor", "s", 300, 300, [](C c) { return over_fabric(kPoor, c); }, kWhyFabricPoor);
  add(
      "50 TB over fabric at 250 GB/s, direct", "s", 0, 45, [](C c) { return over_fabric(kDirect, c); }, kWhyFabric);
  add("70B optimizer state", "GB", 560, 560,
      [](C) { return ModelSize{.parameters = 70e9, .weight_bytes = 0, .optimizer_bytes = 8}.bytes() / kGigabyte; });
  add(
      "70B, ZeRO-3, 8 ranks, direct", "s", 0, 5, [](C c) { return zero3(kDirect, c); }, kWhyZero);
  add("70B, ZeRO-3, 8 ranks, poor", "s", 50, kOpen, [](C c) { return zero3(kPoor, c); });
}

void add_loads(std::vector<Figure>& figures) {
  using enum PathModel;
  const auto with_unit = [&](std::string_view what, std::string_view unit, double low, double high, auto predicted,
                             std::string_view why = "") {
    figures.push_back({"load", what, unit, low, high, predicted, why});
  };
  const auto add = [&](std::string_view what, double low, double high, auto predicted, std::string_view why = "") {
    with_unit(what, "s", low, high, predicted, why);
  };
  add("109B weights in FP8, poor host path", 190, 190, [](C c) { return one_drive(kPoor, 109, true, c); });
  add("109B weights in FP8, direct", 26, 26, [](C c) { return one_drive(kDirect, 109, true, c); });
  add(
      "109B weights in BF16, direct", 26, 26, [](C c) { return one_drive(kDirect, 218, true, c); }, kWhyPrecision);
  add(
      "671B in FP8, 8 x H200, four Gen5 drives, poor", 1080, 1080, [](C c) { return eight_gpus(kPoor, 671, true, c); },
      kWhyLargePoor);
  add(
      "671B in FP8, 8 x H200, four Gen5 drives, direct", 130, 130,
      [](C c) { return eight_gpus(kDirect, 671, true, c); }, kWhyLarge);
  add(
      "100 GB data set, poor host path", 780, 780, [](C c) { return one_drive(kPoor, 100, true, c); }, kWhyDataSetPoor);
  add(
      "100 GB data set, direct", 105, 105, [](C c) { return one_drive(kDirect, 100, true, c); }, kWhyDataSet);
  with_unit("a node of eight GPUs and eight Gen5 drives", "GB/s", 50, kOpen, [](C c) { return node_rate(1, 8, c); });
  with_unit("a rack of four nodes, four Gen5 drives each", "GB/s", 100, kOpen, [](C c) { return node_rate(4, 4, c); });
  with_unit(
      "gain, load from one Gen4 drive", "1", 2, 5,
      [](C c) { return one_drive(kSerial, 140, true, c) / one_drive(kDirect, 140, true, c); }, kWhyGainLoad);
}

void add_latency(std::vector<Figure>& figures) {
  const auto save_of = [](double bytes) { return LatencyInput{.bytes = bytes, .is_write = true}; };
  figures.push_back({"latency", "host memory for a save of 140 GB", "GB", 280, 280, [save_of](C c) {
                       return latency_of(LatencyPath::kPinned, save_of(140e9), c).host_memory_bytes / kGigabyte;
                     }});
  figures.push_back(
      {"latency", "the same through the page cache", "GB", 280, 280,
       [save_of](C c) { return latency_of(LatencyPath::kPageCache, save_of(140e9), c).host_memory_bytes / kGigabyte; },
       "published are one pass in and one out; the copy between the page cache and pinned memory reads "
       "and writes every byte once more"});
  figures.push_back({"latency", "gain, one save of 1 MiB, page cache", "1", 2.5, 4,
                     [save_of](C c) {
                       return latency_of(LatencyPath::kPageCache, save_of(kMebibyte), c).total_s() /
                              latency_of(LatencyPath::kDirect, save_of(kMebibyte), c).total_s();
                     },
                     "the drive's 100 us and its 150 us for the bytes are in both; a faster drive or more bytes bring "
                     "it nearer: 2.5 times is what the whole of a large save gains"});
}

std::string range_text(const Figure& figure) {
  const std::string low = count_in_words(figure.low), high = count_in_words(figure.high);
  if (figure.low == figure.high) return fmt::format("{} {}", low, figure.unit);
  if (figure.high == kOpen) return fmt::format("over {} {}", low, figure.unit);
  if (figure.low == 0) return fmt::format("under {} {}", high, figure.unit);
  return fmt::format("{}-{} {}", low, high, figure.unit);
}

}  // namespace

std::vector<Figure> published_figures() {
  std::vector<Figure> figures;
  add_registration(figures);
  add_checkpoints(figures);
  add_loads(figures);
  add_latency(figures);
  return figures;
}

double error_of(const Figure& figure, double predicted) {
  const double nearest = std::clamp(predicted, figure.low, figure.high);
  return nearest == 0 ? 0 : (predicted - nearest) / nearest;
}

Sheet published_sheet(std::string_view model, const Constants& constants) {
  Sheet sheet{"published",
              "Published figures and what the model makes of them",
              {{"figure", "figure"},
               {"published", "published"},
               {"model", "model"},
               {"error", "error, %"},
               {"why", "why not within 10 %"}},
              {}};
  for (const Figure& figure : published_figures()) {
    if (figure.model != model) continue;
    const double predicted = figure.predicted(constants);
    sheet.rows.push_back({figure.what, range_text(figure), number(predicted),
                          number(std::round(1e3 * error_of(figure, predicted)) / 10), figure.why});
  }
  return sheet;
}

}  // namespace penstock::model
