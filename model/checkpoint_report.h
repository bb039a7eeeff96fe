// SPDX-License-Identifier: Apache-2.0

// The report of `penstock-model checkpoint` and `penstock-model load`: seconds and bottleneck for each kind of path,
// and for checkpoints how often to save and what a run loses.
#pragma once

#include <string>
#include <vector>

#include "model/checkpoint.h"
#include "model/report.h"

namespace penstock::model {

struct CheckpointInput {
  Job job;  // Its bytes come from `model` if that has parameters.
  ModelSize model;
  Fleet fleet;
  double run_hours = 168;
  double checkpoints = 0;                // Number in the run; 0: at the best interval of each path.
  double mtbf_hours = 0;                 // Of the whole run; 0: from the life of an accelerator.
  double restart_s = 0;                  // Restart time besides the load.
  double window_s = 0;                   // Time limit for a save, as before a preemption; 0: none.
  double load_measured_bytes_per_s = 0;  // fleet.measured_bytes_per_s is that of saves.
};

struct Example {
  std::string_view name;
  std::string_view what;
  CheckpointInput input;
};
std::vector<Example> checkpoint_examples(const Constants& constants);
std::vector<Example> load_examples(const Constants& constants);
// Throws InvalidInput with the known names.
CheckpointInput example_named(const std::vector<Example>& examples, const std::string& name);

// What is moved, from and to what: a report's inputs that all reports about checkpoints have.
Json inputs_json(const Job& job, const ModelSize& model, const Fleet& fleet, const Constants& constants);

Report checkpoint_report(const CheckpointInput& input, const Constants& constants, bool with_published);
Report load_report(const CheckpointInput& input, const Constants& constants, bool with_published);

}  // namespace penstock::model
