// SPDX-License-Identifier: Apache-2.0

#include "tools/doctor/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tools/common/context.h"
#include "tools/common/machine_use.h"
#include "tools/common/page.h"
#include "tools/common/pci_text.h"
#include "tools/common/table.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

constexpr double kWide = 1.5;  // The fastest turn over the slowest: if they differ by more, a rate says little.
constexpr double kLess = 0.9;  // Penstock's time as a part of the plain program's: a smaller difference is noise.

std::string rate_text(const Examination& found, const char* stage) {
  const Rate* const rate = found.rate(stage);
  return rate == nullptr ? "?" : format_rate(rate->bytes_per_second);
}

const char* path_name(const Examination& found) {
  const Verdict* const best = found.survey.places[0].told.chosen();
  return best == nullptr ? "no path" : best->path_name();
}

// "the whole way gives 3.10 GB/s, 97 % of the 3.20 GB/s that the drive alone gives"
std::string whole_beside(const Examination& found, const char* stage, const char* part) {
  const char* const whole = found.is_mostly_cold() ? "cold" : "warm";
  const double all = found.speed(whole), alone = found.speed(stage);
  const std::string gives = fmt::format("the whole way gives {}", rate_text(found, whole));
  if (all <= 0 || alone <= 0) return gives;
  return fmt::format("{}, {:.0f} % of the {} that {} alone gives", gives, 100 * all / alone, rate_text(found, stage),
                     part);
}

// Says which part binds, and by which figures.
std::string binds_text(const Examination& found) {
  const bool is_cold = found.is_mostly_cold();
  const std::string beside = is_cold ? whole_beside(found, "drive", "the drive")
                                     : whole_beside(found, "page_cache", "copying out of the page cache");
  if (found.forecast.is_brief) return fmt::format("That is too short to say what binds: {}.", beside);
  switch (found.forecast.binds) {
    case Binds::drive:
      return fmt::format("{}: {}.",
                         found.is_decoded ? "Reading and decoding what the drive gives binds" : "The drive binds",
                         whole_beside(found, "drive", "the drive"));
    case Binds::page_cache:
      return fmt::format("The page cache binds: {}.",
                         whole_beside(found, "page_cache", "copying out of the page cache"));
    case Binds::link: return fmt::format("The link to the GPU binds: {}.", whole_beside(found, "link", "the link"));
    case Binds::cpu:
      return fmt::format("The CPUs bind: {:.1f} of {:g} are busy; {}.",
                         found.rate(is_cold ? "cold" : "warm")->cpus_busy, found.survey.cpu_limit, beside);
    case Binds::settings: return fmt::format("The settings of the environment bind; {}.", beside);
    case Binds::unknown:
      return fmt::format("What binds is unknown, since in each turn another part was the slowest: {}.", beside);
    case Binds::path: break;
  }
  return fmt::format("No single part binds: {}; the rest is lost on the path {}.", beside, path_name(found));
}

std::string title_of(const Examination& found, const ExamineSettings& settings) {
  const Survey& survey = found.survey;
  if (found.saved > 0) return fmt::format("{}: a checkpoint of {}", settings.words[0], format_size(found.saved));
  const std::string name = settings.words.size() == 1 ? settings.words[0] : survey.shards[0].path + ", ...";
  const std::string cached = !survey.is_residency_known            ? "unknown how much"
                             : survey.cached_bytes >= survey.bytes ? "all of it"
                             : survey.cached_bytes == 0            ? "nothing of it"
                                                                   : format_size(survey.cached_bytes);
  const std::size_t members = survey.shards.size() == 1 ? survey.shards[0].members.size() : 0;
  const std::string what = members > 0
                               ? fmt::format("a striped object of {} member{}", members, members == 1 ? "" : "s")
                               : fmt::format("{} file{}", survey.shards.size(), survey.shards.size() == 1 ? "" : "s");
  return fmt::format("{}: {}, {}, {} in the page cache", name, what, format_size(survey.bytes), cached);
}

// Says to measure again, and why, if what was measured says little; else "".
std::string again_text(const Examination& found) {
  const Rate* const whole = found.rate(found.is_mostly_cold() ? "cold" : "warm");
  std::vector<std::string> reasons;
  if (is_shared(found.others)) reasons.push_back(shared_text(found.others));
  if (whole != nullptr && whole->fastest() > kWide * whole->slowest()) {
    reasons.push_back(fmt::format("turns of the whole way gave {} to {}", format_rate(whole->slowest()),
                                  format_rate(whole->fastest())));
  }
  if (reasons.empty() && (found.forecast.binds != Binds::unknown || found.forecast.is_brief)) return "";
  return fmt::format("Measure again when the machine is idle, or for longer (--time 10){}{}.",
                     reasons.empty() ? "" : ": ", fmt::join(reasons, ", and "));
}

// Says that the time is the page cache's, and what the drive would take. It is "" if most of the time is the drive's.
std::string cached_note(const Examination& found) {
  const Survey& survey = found.survey;
  if (found.saved > 0) return "";
  const double cold = found.speed("cold");
  if (cold <= 0) {
    return "All of it was read through the page cache, so this is the page cache's time. The drive cannot be measured: "
           "the file system has no direct I/O.";
  }
  if (found.is_mostly_cold() || survey.cached_bytes == 0) return "";
  const std::string much = survey.cached_bytes >= survey.bytes ? "All" : format_size(survey.cached_bytes);
  return fmt::format(
      "{} of it is in the page cache, so this is the page cache's time. From the drive, which was read past the cache, "
      "it takes {}: the drive gives {}, the whole way {}.",
      much, format_duration(static_cast<double>(survey.bytes) / cold), rate_text(found, "drive"),
      rate_text(found, "cold"));
}

void print_verdict(Page& page, const Examination& found) {
  const Forecast& told = found.forecast;
  const bool is_save = found.saved > 0;
  page.wrap("", fmt::format("{} takes {} by Penstock. {}", is_save ? "Saving it, flushed to the drive," : "Loading it",
                            format_duration(told.seconds), binds_text(found)));
  page.paint(Color::bold, format_duration(told.seconds));
  if (const std::string note = cached_note(found); !note.empty()) page.wrap("", note);
  if (told.plain_seconds > 0) {
    page.wrap("",
              fmt::format("A program that {} by itself, in one thread, takes {}{}.",
                          is_save ? "writes with write(2)" : "reads with read(2)", format_duration(told.plain_seconds),
                          told.plain_seconds < kLess * told.seconds ? ": less than by Penstock" : ""));
  }
  if (const std::string again = again_text(found); !again.empty()) page.wrap("", again);
}

std::vector<std::string> causes_of(const Examination& found) {
  std::vector<std::string> causes = found.causes;
  if (is_shared(found.others)) causes.push_back(shared_text(found.others));
  return causes;
}

void print_causes(Page& page, const Examination& found) {
  const std::vector<std::string> causes = causes_of(found);
  if (causes.empty()) return;
  page.section("What slows all of it down");
  for (const std::string& cause : causes) page.wrap("  ", cause);
}

std::string heading_of_changes(const Examination& found) {
  const Forecast& told = found.forecast;
  if (!told.changes.empty()) return "What would make it quicker";
  if (told.is_brief) return "It takes so little time that no change is looked for";
  if (told.doubts.empty()) return "Nothing that was tried would make it quicker";
  return "It is unknown what would make it quicker: " +
         (is_shared(found.others) ? shared_text(found.others)
                                  : "the turns differ too much; --time 10 measures for longer");
}

void print_changes(Page& page, const Examination& found) {
  const Forecast& told = found.forecast;
  page.section(heading_of_changes(found));
  for (const ForecastChange& each : told.changes) {
    page.wrap("  ",
              fmt::format("{}: {}{:.1f} times as fast, {} in place of {}", each.what, each.is_bound ? "at best " : "",
                          told.seconds / each.seconds, format_duration(each.seconds), format_duration(told.seconds)));
    page.wrap("    -> ", each.command);
  }
  for (const Doubt& each : told.doubts) {
    page.wrap("  ", fmt::format("{}: unknown, between {:.1f} and {:.1f} times as fast", each.what, each.ratio.low,
                                each.ratio.high));
  }
  if (!told.left_out.empty()) page.row("not", told.left_out);
}

std::string gb_text(double bytes_per_second) {
  const double rate = bytes_per_second / 1e9;
  return rate < 0.005 ? fmt::format("{:.2g}", rate) : fmt::format("{:.2f}", rate);
}

Text stages_text(const Examination& found) {
  Table table({"  measured", ">GB/s", ">range", ">CPUs"});
  for (const Stage& stage : found.stages) {
    const Rate& rate = stage.rate;
    table.add({fmt::format("  {}", stage.what), gb_text(rate.bytes_per_second),
               fmt::format("{}-{}", gb_text(rate.slowest()), gb_text(rate.fastest())),
               rate.cpus_busy > 0 ? fmt::format("{:.1f}", rate.cpus_busy) : ""});
  }
  return table.text();
}

std::string bus_text(const Bus& bus) {
  const core::PciDevice& device = bus.device;
  std::string text = device.address;
  if (device.current_link.width > 0) text += ", PCIe " + link_text(device);
  if (device.numa_node >= 0) text += fmt::format(", NUMA node {}", device.numa_node);
  return bus.relation.empty() ? text : text + ", " + bus.relation;
}

void print_places(Page& page, const Examination& found) {
  page.section("Where it lies");
  for (const Place& place : found.survey.places) {
    const auto& mount = place.told.direct.report.mount;
    page.row("file system", fmt::format("{}{}{}", place.told.info.file_system, mount ? " on " + mount->mount_point : "",
                                        place.told.direct.stack ? ", " + place.told.direct.stack->text() : ""));
    const Verdict* const best = place.told.chosen();
    if (best == nullptr) continue;
    const Verdict& first = place.told.verdicts[0];
    page.row("path", path_sentence(best->path, first.usable != 0 ? PENSTOCK_REASON_NONE : first.reason, first.path));
  }
  for (const Bus& bus : found.survey.buses) page.row(bus.name, bus_text(bus));
  page.wrap("  ", found.survey.device);
  for (const std::string& note : found.notes) page.wrap("  note: ", note);
}

Json rate_json(const Stage& stage) {
  const Rate& rate = stage.rate;
  return {{"name", stage.name},        {"what", stage.what},         {"bytes_per_second", rate.bytes_per_second},
          {"slowest", rate.slowest()}, {"fastest", rate.fastest()},  {"bytes", rate.bytes},
          {"seconds", rate.seconds},   {"cpus_busy", rate.cpus_busy}};
}

Json bus_json(const Bus& bus) {
  return {{"name", bus.name},
          {"pci_address", bus.device.address},
          {"numa_node", bus.device.numa_node},
          {"link", link_json(bus.device.current_link)},
          {"link_max", link_json(bus.device.max_link)},
          {"relation", bus.relation}};
}

Json place_json(const Place& place) {
  const Verdict* const best = place.told.chosen();
  const Verdict& first = place.told.verdicts[0];
  return {{"file", place.file},
          {"bytes", place.bytes},
          {"file_system", place.told.info.file_system},
          {"block_device", place.told.direct.stack ? Json(place.told.direct.stack->name) : Json()},
          {"path", best != nullptr ? Json(best->path_name()) : Json()},
          {"reason", first.usable != 0 ? "none" : first.reason_name()},
          {"refused_path", first.usable != 0 ? Json() : Json(first.path_name())}};
}

Json forecast_json(const Examination& found) {
  const Forecast& told = found.forecast;
  return {{"seconds", told.seconds},
          {"plain_seconds", told.plain_seconds > 0 ? Json(told.plain_seconds) : Json()},
          {"cold_seconds", told.cold_seconds},
          {"binds", binds_name(told.binds)},
          {"binds_text", binds_text(found)},
          {"cached_text", cached_note(found)},
          {"changes_text", heading_of_changes(found)}};
}

}  // namespace

Text examination_text(const Examination& found, const ExamineSettings& settings) {
  Page page;
  page.wrap("", title_of(found, settings));
  print_verdict(page, found);
  print_causes(page, found);
  print_changes(page, found);
  Text text = page.shown();
  text += Text("\n");
  text += stages_text(found);
  Page places;
  print_places(places, found);
  text += Text("\n" + places.text());
  return text;
}

Json examination_json(const Examination& found) {
  const Survey& survey = found.survey;
  const Forecast& told = found.forecast;
  Json json = {{"schema", 1},
               {"files", Json::array()},
               {"bytes", survey.bytes},
               {"cached_bytes", survey.cached_bytes},
               {"memory_available", survey.memory_available},
               {"places", Json::array()},
               {"buses", Json::array()},
               {"device", survey.device_facts},
               {"stages", Json::array()},
               {"operation", found.saved > 0 ? "save" : "load"},
               {"forecast", forecast_json(found)},
               {"changes", Json::array()},
               {"doubts", Json::array()},
               {"cpu_share_of_others", found.others},
               {"causes", causes_of(found)},
               {"notes", found.notes}};
  for (const Shard& each : survey.shards) {
    json["files"].push_back({{"path", each.path},
                             {"size", each.size},
                             {"cached_bytes", each.cached ? Json(*each.cached) : Json()},
                             {"members", each.members}});
  }
  for (const Place& each : survey.places) json["places"].push_back(place_json(each));
  for (const Bus& each : survey.buses) json["buses"].push_back(bus_json(each));
  for (const Stage& each : found.stages) json["stages"].push_back(rate_json(each));
  for (const ForecastChange& each : told.changes) {
    json["changes"].push_back(
        {{"what", each.what}, {"command", each.command}, {"seconds", each.seconds}, {"at_best", each.is_bound}});
  }
  for (const Doubt& each : told.doubts) {
    json["doubts"].push_back({{"what", each.what}, {"low", each.ratio.low}, {"high", each.ratio.high}});
  }
  return json;
}

}  // namespace penstock::tools
