// SPDX-License-Identifier: Apache-2.0

#include "bench/versus/report.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "base/printable.h"

namespace penstock::versus {
namespace {

using Json = nlohmann::ordered_json;

struct Spread {
  explicit Spread(const std::vector<double>& values)
      : middle(median(values)), low(*std::min_element(values.begin(), values.end())),
        high(*std::max_element(values.begin(), values.end())) {}
  double middle, low, high;
};

Spread spread_of(const std::vector<Sample>& samples, Figure figure) {
  std::vector<double> values;
  for (const Sample& sample : samples) values.push_back(value(sample, figure));
  return Spread(values);
}

std::string verdict(const Measure& measure, double ratio, bool judge) {
  if (!judge || !measure.target) return "";
  char text[64];
  std::snprintf(text, sizeof text, "  target %s %.2f: %s", measure.at_least ? ">=" : "<=", *measure.target,
                is_met(measure, ratio) ? "met" : "missed");
  return text;
}

void print_entry(const Contest& contest, const std::string& name, const std::vector<Sample>& samples) {
  const Spread first = spread_of(samples, contest.shown[0]), second = spread_of(samples, contest.shown[1]);
  std::printf("      %-24s %9.2f [%.2f %.2f] %s, %.4g [%.4g %.4g] %s\n", name.c_str(), first.middle, first.low,
              first.high, unit(contest.shown[0]), second.middle, second.low, second.high, unit(contest.shown[1]));
}

void print_measure(const Measure& measure, const std::vector<double>& ratios, bool judge) {
  const Spread ratio(ratios);
  const std::string name = measure.ours + " / " + measure.rival + ", " + unit(measure.figure);
  std::printf("      %-44s x%.2f [%.2f %.2f]%s\n", name.c_str(), ratio.middle, ratio.low, ratio.high,
              verdict(measure, ratio.middle, judge).c_str());
}

Json sample_json(const Sample& sample) {
  Json json = {{"seconds", sample.seconds()},
               {"cpu_seconds", sample.cpu},
               {"bytes", sample.bytes},
               {"operations", sample.operations}};
  if (sample.p50 > 0) json["p50_us"] = sample.p50, json["p99_us"] = sample.p99;
  return json;
}

Json measure_json(const Measure& measure, const std::vector<double>& ratios, bool judge) {
  Json json = {{"ours", measure.ours},
               {"rival", measure.rival},
               {"figure", unit(measure.figure)},
               {"ratio", median(ratios)},
               {"ratios", ratios}};
  if (!judge || !measure.target) return json;
  json["target"] = *measure.target;
  json["target_is"] = measure.at_least ? "at least" : "at most";
  json["met"] = is_met(measure, median(ratios));
  return json;
}

}  // namespace

void print(const Outcome& outcome, bool judge) {
  std::printf("%-4s  %s\n", outcome.contest.lines.c_str(), outcome.contest.title.c_str());
  if (!outcome.failure.empty()) std::printf("      not measured: %s\n", core::printable(outcome.failure).c_str());
  for (const Entry& entry : outcome.contest.entries) {
    const auto samples = outcome.samples.find(entry.name);
    if (samples != outcome.samples.end()) print_entry(outcome.contest, entry.name, samples->second);
  }
  for (const Measure& measure : outcome.contest.measures) {
    const std::vector<double> ratios = outcome.ratios(measure);
    if (!ratios.empty()) print_measure(measure, ratios, judge);
  }
  std::fflush(stdout);
}

Json json(const Outcome& outcome, bool judge) {
  Json json = {{"lines", outcome.contest.lines}, {"title", outcome.contest.title}, {"ranks", outcome.contest.ranks}};
  if (!outcome.failure.empty()) json["failed"] = outcome.failure;
  json["entries"] = Json::array();
  for (const auto& [name, samples] : outcome.samples) {
    Json entry = {{"name", name}, {"samples", Json::array()}};
    for (const Sample& sample : samples) entry["samples"].push_back(sample_json(sample));
    json["entries"].push_back(std::move(entry));
  }
  json["measures"] = Json::array();
  for (const Measure& measure : outcome.contest.measures) {
    const std::vector<double> ratios = outcome.ratios(measure);
    if (!ratios.empty()) json["measures"].push_back(measure_json(measure, ratios, judge));
  }
  return json;
}

Json machine_json(const std::string& gpu) {
  utsname system{};
  ::uname(&system);
  char date[32] = "";
  const std::time_t moment = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&moment));
  return {{"date", date}, {"gpu", gpu}, {"cpus", ::sysconf(_SC_NPROCESSORS_ONLN)}, {"kernel", system.release}};
}

}  // namespace penstock::versus
