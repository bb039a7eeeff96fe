// SPDX-License-Identifier: Apache-2.0

// A comparison: entries that take turns at the same work, and the ratios that are read off them. What is compared with
// what stands in lines.cc.
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
  std::string side;  // Who does it.
  Task task;
  std::vector<Task> prepare;  // Once, before the turns begin.
  std::vector<Task> finish;   // Once, after them.
};

// Of two entries, by name.
struct Measure {
  std::string ours;
  std::string rival;
  Figure figure;
  std::optional<double> target;  // None: for information.
  bool at_least = true;          // Of the target; otherwise at most.
};

struct Contest {
  std::string lines;  // Of the table: the letters of those that it measures.
  std::string title;
  Figure shown[2];  // Of each entry.
  std::vector<Entry> entries;
  std::vector<Measure> measures;
  unsigned ranks = 1;            // Processes a side, a GPU each.
  bool fresh_processes = false;  // One for each turn.
  bool every_gpu = false;        // A process works with the GPUs and files of all ranks.
  std::string cold_file;         // Leaves the page cache before each turn; "" for none.
};

// The sides by name; each starts when it is first needed.
class Sides {
 public:
  explicit Sides(std::map<std::string, SideSettings> settings) : settings_(std::move(settings)) {}
  // Ends teams of another size.
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
  std::map<std::string, std::vector<Sample>> samples;  // By entry, a pair each.
  std::string failure;                                 // Why there are none; "" where there are.
  std::string gpu;

  std::vector<double> ratios(const Measure& measure) const;  // A pair each.
};

// One round to warm up, in which bytes are compared, then `pairs` that count; each begins with another entry. What goes
// wrong is the outcome's failure, unless no contest can be held at all, or none should any more: that is thrown.
Outcome hold(const Contest& contest, Sides& sides, unsigned pairs, const std::function<bool()>& interrupted);

double median(std::vector<double> values);
bool is_met(const Measure& measure, double ratio);

}  // namespace penstock::versus
