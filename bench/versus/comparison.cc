// SPDX-License-Identifier: Apache-2.0

#include "bench/versus/comparison.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <thread>

#include "bench/versus/data_file.h"
#include "bench/versus/failure.h"
#include "bench/versus/report.h"

namespace penstock::versus {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMemoryMin = std::uint64_t{16} << 20;  // Slots of small requests need no more.

bool is_wanted(const Comparison& comparison, const Contest& contest) {
  return comparison.only.empty() || contest.lines.find_first_of(comparison.only) != std::string::npos;
}

std::vector<Contest> wanted_contests(const Comparison& comparison, const Files& files) {
  std::vector<Contest> contests =
      comparison.whole_table ? all_lines(files, comparison.effort) : short_lines(files, comparison.effort);
  std::erase_if(contests, [&](const Contest& contest) { return !is_wanted(comparison, contest); });
  if (contests.empty()) throw Failure("--only names no line that is there; j and o need --ranks", kUsage);
  return contests;
}

std::map<std::string, SideSettings> sides_of(const Comparison& comparison) {
  SideSettings side;
  side.memory_bytes = std::max({comparison.effort.size, comparison.effort.rank_size, kMemoryMin});
  side.stand_in = comparison.stand_in;
  if (comparison.stand_in) side.environment.emplace_back("PENSTOCK_DEVICE", "host");
  std::map<std::string, SideSettings> sides;
  const auto add = [&](const char* name, const std::function<Calls()>& load) -> SideSettings& {
    SideSettings& added = sides[name] = side;
    added.name = name;
    added.load = load;
    return added;
  };
  for (const char* policy : kPolicies) {
    add(policy, comparison.ours).environment.emplace_back("PENSTOCK_POLICY", policy);
  }
  add(kBounce, comparison.ours).environment.emplace_back("PENSTOCK_PATHS", "bounce");
  add(kOurs, comparison.ours);
  add(kRival, [path = comparison.rival] { return load_calls(path); });
  return sides;
}

// The files of a run; those of ranks are created in parallel.
class Workplace {
 public:
  Workplace(const Comparison& comparison, const std::vector<Contest>& contests)
      : written_{ScratchFile(files(comparison).written[0]), ScratchFile(files(comparison).written[1])} {
    const Effort& effort = comparison.effort;
    const Files names = files(comparison);
    const auto any = [&](auto is_so) { return std::any_of(contests.begin(), contests.end(), is_so); };
    if (any([](const Contest& contest) {
          return contest.ranks == 1 && contest.cold_file.empty() && !contest.every_gpu;
        })) {
      files_.push_back(std::make_unique<DataFile>(names.data, effort.size));
    }
    if (any([](const Contest& contest) { return !contest.cold_file.empty(); })) {
      files_.push_back(std::make_unique<DataFile>(names.cold, effort.size / 2));
    }
    if (any([](const Contest& contest) { return contest.ranks > 1 || contest.every_gpu; })) {
      make_rank_files(names.ranks, effort);
    }
  }

  static Files files(const Comparison& comparison) {
    const std::string& file = comparison.file;
    return {.data = file,
            .cold = file + ".cold",
            .written = {file + ".written-ours", file + ".written-rival"},
            .ranks = file + ".rank"};
  }

 private:
  void make_rank_files(const std::string& file, const Effort& effort) {
    std::vector<std::unique_ptr<DataFile>> made(effort.ranks);
    std::vector<std::string> failures(effort.ranks);
    {
      std::vector<std::jthread> threads;
      for (unsigned rank = 0; rank < effort.ranks; ++rank) {
        threads.emplace_back([&, rank] {
          try {
            made[rank] = std::make_unique<DataFile>(rank_file(file, rank, effort.ranks), effort.rank_size);
          } catch (const Failure& failure) {
            failures[rank] = failure.what();
          }
        });
      }
    }
    for (const std::string& failure : failures) {
      if (!failure.empty()) throw Failure(failure);
    }
    std::move(made.begin(), made.end(), std::back_inserter(files_));
  }

  ScratchFile written_[2];
  std::vector<std::unique_ptr<DataFile>> files_;
};

}  // namespace

Json compare(const Comparison& comparison, bool print_too) {
  const std::vector<Contest> contests = wanted_contests(comparison, Workplace::files(comparison));
  Sides sides(sides_of(comparison));
  // Fails before any file is created if nothing can be compared.
  for (const Entry& entry : contests[0].entries) (void)sides.team(entry.side, contests[0].ranks);
  const Workplace workplace(comparison, contests);
  Json report = {{"command", comparison.command},
                 {"machine", Json()},
                 {"pairs", comparison.pairs},
                 {"file_bytes", comparison.effort.size},
                 {"contests", Json::array()}};
  for (const Contest& contest : contests) {
    const Outcome outcome = hold(contest, sides, comparison.pairs, comparison.interrupted);
    if (print_too) print(outcome, comparison.judge);
    if (!outcome.gpu.empty()) report["machine"] = machine_json(outcome.gpu);
    report["contests"].push_back(json(outcome, comparison.judge));
  }
  return report;
}

int exit_code_of(const Json& report) {
  const Json& contests = report.at("contests");
  return std::any_of(contests.begin(), contests.end(), [](const Json& contest) { return contest.contains("failed"); })
             ? kFailed
             : 0;
}

}  // namespace penstock::versus
