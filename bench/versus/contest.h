// SPDX-License-Identifier: Apache-2.0

// A comparison: entries that take turns at the same work, and the ratios computed from them. lines.cc says what is
// compared with what.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/versus/side.h"
#include "bench/versus/task.h"

namespace penstock::versus {

enum class Figure { gb_per_s, cpu_per_gb, kiops, ms, cpu_us, p50_us, p99_us };
const char* unit(Figure figure);
double value(const Sample& sample, Figure figure);

struct Entry {
  std::string name;
  std::string side;  // The side that does the work.
  Task task;
  std::vector<Task> prepare;  // Tasks to run once before the turns.
  std::vector<Task> finish;   // Tasks to run once after the turns.
};

// A ratio of two entries, by name.
struct Measure {
  std::string ours;
  std::string rival;
  Figure figure;
  std::optional<double> target;  // None: only reported.
  bool at_least = true;          // True: the ratio must reach the target; false: must not exceed it.
};

struct Contest {
  std::string lines;  // The letters of the table's lines that it measures.
  std::string title;
  Figure shown[2];  // The figures shown for each entry.
  std::vector<Entry> entries;
  std::vector<Measure> measures;
  unsigned ranks = 1;            // Processes per side, each with one GPU.
  bool fresh_processes = false;  // A new process for each turn.
  bool every_gpu = false;        // One process uses the GPUs and files of all ranks.
  std::string cold_file;         // A file dropped from the page cache before each turn; "" for none.
};

// The sides by name; each starts when first needed.
class Sides {
 public:
  explicit Sides(std::map<std::string, SideSettings> settings) : settings_(std::move(settings)) {}
  // Returns the side's team; ends its teams of another size.
  Team& team(const std::string& name, unsigned ranks);
  void end(const std::string& name) { teams_.erase(name); }
  void end_all() { teams_.clear(); }

 private:
  std::map<std::string, SideSettings> settings_;
  std::map<std::string, Team> teams_;
  unsigned ranks_ = 1;
};

struct Outcome {
  Contest contest;
  std::map<std::string, std::vector<Sample>> samples;  // By entry: one sample per pair.
  std::string failure;                                 // Why there are no samples; "" if there are.
  std::string gpu;

  std::vector<double> ratios(const Measure& measure) const;  // One ratio per pair.
};

// Runs one warm-up round, which compares bytes, then `pairs` rounds that count; each begins with another entry. An
// error becomes the outcome's failure; it is thrown only if no further contest can or should run.
Outcome hold(const Contest& contest, Sides& sides, unsigned pairs, const std::function<bool()>& interrupted);

double median(std::vector<double> values);
bool is_met(const Measure& measure, double ratio);

}  // namespace penstock::versus
