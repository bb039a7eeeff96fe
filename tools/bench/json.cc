// SPDX-License-Identifier: Apache-2.0

// bench's result as JSON. `penstock-model` reads settings.{rw,block_size,threads,depth}, result.{bytes,seconds,
// direct_bytes,cached_bytes} and bytes_by_path; `bench --compare` reads result.rate and result.with_fsync.
#include "tools/bench/report.h"
#include "tools/bench/words.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

const char* descriptor(const BenchSettings& settings) {
  return settings.direct ? "O_DIRECT" : settings.buffered ? "buffered" : "automatic";
}

Json settings_json(const BenchOutcome& outcome) {
  const BenchSettings& settings = outcome.settings;
  return {{"file", settings.label()},
          {"files", outcome.files},
          {"file_system", outcome.file_system},
          {"rw", settings.operation},
          {"block_size", settings.block_size},
          {"offset", outcome.offset},
          {"size", outcome.size},
          {"threads", settings.threads},
          {"depth", settings.depth},
          {"seconds_max", settings.seconds},
          {"repeat", settings.repeat},
          {"descriptor", descriptor(settings)},
          {"memory", settings.memory},
          {"registered", settings.register_memory},
          {"verify", settings.verify},
          {"seed", settings.seed},
          {"require", settings.require},
          {"warm", settings.warm},
          {"drop_cache", settings.drop_cache},
          {"environment", library_settings(settings)}};
}

// low, high: the 95 % interval, null where there is none.
Json estimate_json(const Estimate& told) {
  if (told.batches.empty()) return nullptr;
  Json batches = Json::array();
  for (const double batch : told.batches) batches.push_back(batch / 1e9);
  return {{"gb_per_s", told.rate / 1e9},
          {"low", told.has_interval() ? Json(told.low / 1e9) : Json()},
          {"high", told.has_interval() ? Json(told.high / 1e9) : Json()},
          {"degrees_of_freedom", told.degrees},
          {"drift", told.drift},
          {"stretches", batches}};
}

Json latency_json(const Tally& tally) {
  const Latency told = latency_of(tally);
  return {{"min", told.least}, {"mean", told.mean},   {"p50", told.p50}, {"p90", told.p90},
          {"p99", told.p99},   {"p99.9", told.p99_9}, {"max", told.most}};
}

Json histogram_json(const Tally& tally) {
  Json bars = Json::array();
  for (const auto& bar : tally.latency_ns.bars()) {
    bars.push_back({{"from_us", static_cast<double>(bar.from) / 1e3},
                    {"below_us", static_cast<double>(bar.below) / 1e3},
                    {"operations", bar.count}});
  }
  return bars;
}

Json result_json(const Measured& measured) {
  const JobResult& result = measured.result;
  Json json = {{"bytes", result.tally.bytes},
               {"operations", result.tally.operations},
               {"seconds", result.seconds},
               {"gb_per_s", per_second(result.tally.bytes, result.seconds) / 1e9},
               {"gib_per_s", per_second(result.tally.bytes, result.seconds) / static_cast<double>(1 << 30)},
               {"iops", per_second(result.tally.operations, result.seconds)},
               {"rate", estimate_json(measured.rate())},
               {"with_fsync", estimate_json(measured.rate_with_fsync())},
               {"passes", measured.passes},
               {"latency_us", latency_json(result.tally)},
               {"cpu_seconds", result.cpu_seconds},
               {"cpu_seconds_per_gb", cpu_per_gigabyte(result)},
               {"cpu_share_of_others", measured.share_of_others()},
               {"direct_bytes", result.tally.direct_bytes},
               {"cached_bytes", result.tally.cached_bytes},
               {"interrupted", result.was_interrupted}};
  json["drive_bytes"] = measured.drive_bytes ? Json(*measured.drive_bytes) : Json();
  json["flush_seconds"] = measured.with_fsync.empty() ? Json() : Json(measured.flush_seconds);
  json["verified_bytes"] = measured.verified_bytes ? Json(*measured.verified_bytes) : Json();
  return json;
}

}  // namespace

Json bench_json(const BenchOutcome& outcome) {
  const Tally& tally = outcome.measured.result.tally;
  Json json = {{"schema", 1},
               {"settings", settings_json(outcome)},
               {"device", outcome.device_facts},
               {"result", result_json(outcome.measured)}};
  json["paths"] = Json::array();
  for (const auto& [key, way] : tally.chosen) {
    if (way.bytes == 0) continue;
    json["paths"].push_back(path_json(key.first, key.second, way.refused_path));
    json["paths"].back()["bytes"] = way.bytes;
  }
  json["path_reason"] = penstock_reason_name(tally.path_reason);
  if (outcome.settings.histogram) json["result"]["latency_histogram"] = histogram_json(tally);
  for (std::uint32_t path = 0; path < penstock_path_count(); ++path) {
    json["bytes_by_path"][penstock_path_name(static_cast<int>(path))] = tally.bytes_by_path[path];
  }
  json["warnings"] = Json::array();
  for (const Warning& warning : warnings_of(outcome)) {
    json["warnings"].push_back({{"name", warning.name}, {"sentence", warning.sentence}});
  }
  return json;
}

}  // namespace penstock::tools
