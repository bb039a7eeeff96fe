// SPDX-License-Identifier: Apache-2.0

// Measures every part of the way of a load or a save, and some changes, and has the forecast made of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/doctor/forecast.h"
#include "tools/doctor/meter.h"
#include "tools/doctor/survey.h"

namespace penstock::tools {

// One measurement. The name is stable; JSON has it.
struct Stage {
  const char* name;
  const char* what;  // For people.
  Rate rate;
};

struct Examination {
  Survey survey;            // Without files for a save.
  std::uint64_t saved = 0;  // Bytes of the checkpoint; 0: it is a load.
  std::vector<Stage> stages;
  std::vector<Trial> trials;
  std::vector<Bound> bounds;
  Forecast prognosis;
  double others = 0;                // Other programs' part of the processors meanwhile.
  std::optional<Ratio> of_part;     // The same as in Load.
  std::vector<std::string> causes;  // Easily overlooked, they slow all of the way down.
  std::vector<std::string> notes;   // Measurements that could not be made, and why.
  bool is_decoded = false;          // The CPUs have to process what the drive gives: O_DIRECT is not direct.

  const Rate* rate(const char* name) const;  // Null where it was not measured.
  double speed(const char* name) const;      // 0 there.
  bool is_mostly_cold() const { return prognosis.cold_seconds > prognosis.seconds / 2; }
};

struct ExamineSettings {
  std::vector<std::string> words;  // The user's words.
  unsigned gpu = 0;
  double seconds = 1.5;    // For each measurement.
  std::uint64_t save = 0;  // Bytes of a checkpoint into the folder that is the only word.
};

// Adds the causes that need no measurement: they are easily overlooked, and slow everything down.
void find_causes(Examination& found);

Examination examine_load(const ExamineSettings& settings);
Examination examine_save(const ExamineSettings& settings);

inline Examination examine(const ExamineSettings& settings) {
  return settings.save > 0 ? examine_save(settings) : examine_load(settings);
}

}  // namespace penstock::tools
