// SPDX-License-Identifier: Apache-2.0

#include "bench/versus/contest.h"

#include <algorithm>
#include <cstdio>

#include "bench/versus/data_file.h"
#include "bench/versus/failure.h"

namespace penstock::versus {
namespace {

void take_turn(const Contest& contest, const Entry& entry, Sides& sides, int pair, Outcome& outcome) {
  if (!contest.cold_file.empty()) drop_from_cache(contest.cold_file);
  if (contest.fresh_processes) sides.end(entry.side);
  Task task = entry.task;
  task.verify = pair < 0;
  task.seed = static_cast<std::uint64_t>(pair + 2);
  const Sample sample = sides.team(entry.side, contest.ranks).run(task);
  if (pair >= 0) outcome.samples[entry.name].push_back(sample);
}

void run_all(const std::vector<Task>& tasks, Team& team) {
  for (const Task& task : tasks) (void)team.run(task);
}

// Which entry has this turn: rounds alternate between forwards and backwards, since the order matters; with more than
// two entries, each round begins with another one.
std::size_t place_of(std::size_t turn, std::size_t round, std::size_t count) {
  const std::size_t shift = count > 2 ? round / 2 : 0;
  return ((round % 2 == 0 ? turn : count - 1 - turn) + shift) % count;
}

void hold_turns(const Contest& contest, Sides& sides, unsigned pairs, const std::function<bool()>& interrupted,
                Outcome& outcome) {
  const std::size_t count = contest.entries.size();
  for (const Entry& entry : contest.entries) {
    Team& team = sides.team(entry.side, contest.ranks);
    outcome.gpu = team.gpu();
    run_all(entry.prepare, team);
  }
  for (int pair = -1; pair < static_cast<int>(pairs); ++pair) {
    std::fprintf(stderr, "versus: %-3s  %s: %s\n", contest.lines.c_str(), contest.title.c_str(),
                 pair < 0 ? "warming up and comparing" : ("pair " + std::to_string(pair + 1)).c_str());
    for (std::size_t i = 0; i < count; ++i) {
      if (interrupted()) throw Failure("interrupted", kInterrupted);
      const std::size_t place = place_of(i, static_cast<std::size_t>(pair + 1), count);
      take_turn(contest, contest.entries[place], sides, pair, outcome);
    }
  }
  for (const Entry& entry : contest.entries) run_all(entry.finish, sides.team(entry.side, contest.ranks));
}

}  // namespace

const char* unit(Figure figure) {
  switch (figure) {
    case Figure::gb_per_s: return "GB/s";
    case Figure::cpu_per_gb: return "CPU s/GB";
    case Figure::kiops: return "kIOPS";
    case Figure::ms: return "ms";
    case Figure::cpu_us: return "CPU us each";
    case Figure::p50_us: return "us p50";
    case Figure::p99_us: return "us p99";
  }
  return "";
}

double value(const Sample& sample, Figure figure) {
  const auto gigabytes = static_cast<double>(sample.bytes) / 1e9;
  const auto operations = static_cast<double>(sample.operations);
  switch (figure) {
    case Figure::gb_per_s: return gigabytes / sample.seconds();
    case Figure::cpu_per_gb: return sample.cpu / gigabytes;
    case Figure::kiops: return operations / sample.seconds() / 1e3;
    case Figure::ms: return sample.seconds() * 1e3;
    case Figure::cpu_us: return sample.cpu / operations * 1e6;
    case Figure::p50_us: return sample.p50;
    case Figure::p99_us: return sample.p99;
  }
  return 0;
}

Team& Sides::team(const std::string& name, unsigned ranks) {
  if (ranks != ranks_) end_all();
  ranks_ = ranks;
  const auto found = teams_.find(name);
  return found != teams_.end() ? found->second : teams_.try_emplace(name, settings_.at(name), ranks).first->second;
}

std::vector<double> Outcome::ratios(const Measure& measure) const {
  std::vector<double> ratios;
  const auto ours = samples.find(measure.ours), rival = samples.find(measure.rival);
  if (ours == samples.end() || rival == samples.end()) return ratios;
  for (std::size_t i = 0; i < std::min(ours->second.size(), rival->second.size()); ++i) {
    ratios.push_back(value(ours->second[i], measure.figure) / value(rival->second[i], measure.figure));
  }
  return ratios;
}

Outcome hold(const Contest& contest, Sides& sides, unsigned pairs, const std::function<bool()>& interrupted) {
  Outcome outcome;
  outcome.contest = contest;
  try {
    hold_turns(contest, sides, pairs, interrupted, outcome);
  } catch (const Failure& failure) {
    sides.end_all();  // Some may be in the middle of a task.
    if (failure.exit_code() != kFailed) throw;
    if (interrupted()) throw Failure("interrupted", kInterrupted);  // The sides got the signal, too.
    outcome.failure = failure.what();
    outcome.samples.clear();
  }
  return outcome;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

bool is_met(const Measure& measure, double ratio) {
  return !measure.target || (measure.at_least ? ratio >= *measure.target : ratio <= *measure.target);
}

}  // namespace penstock::versus
