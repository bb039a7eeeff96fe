// SPDX-License-Identifier: Apache-2.0

// Measures every part of the way of a load or a save, and some changes, and makes the forecast from that.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/doctor/forecast.h"
#include "tools/doctor/meter.h"
#include "tools/doctor/survey.h"

namespace penstock::tools {

// One measurement. The name is stable, because the JSON has it.
struct Stage {
  const char* name;
  const char* what;  // The text for people.
  Rate rate;
};

struct Examination {
  Survey survey;            // Has no files for a save.
  std::uint64_t saved = 0;  // The bytes of the checkpoint; 0: it is a load.
  std::vector<Stage> stages;
  std::vector<Trial> trials;
  std::vector<Bound> bounds;
  Forecast forecast;
  double others = 0;                // The part of the processors that other programs had meanwhile.
  std::optional<Ratio> of_part;     // The speed of the whole over that of its slowest part, as in Load.
  std::vector<std::string> causes;  // Causes that are easily overlooked and slow the whole way down.
  std::vector<std::string> notes;   // Measurements that could not be made, and why.
  bool is_decoded = false;          // The CPUs have to decode what the drive delivers, so O_DIRECT is not direct.

  const Rate* rate(const char* name) const;  // Null if it was not measured.
  double speed(const char* name) const;      // 0 if it was not measured.
  bool is_mostly_cold() const { return forecast.cold_seconds > forecast.seconds / 2; }
};

struct ExamineSettings {
  std::vector<std::string> words;  // The user's words.
  unsigned gpu = 0;
  double seconds = 1.5;    // The duration of each measurement.
  std::uint64_t save = 0;  // The bytes of a checkpoint to be written into the folder, the only word.
};

// Adds the causes that can be found without measuring: they are easily overlooked, and slow everything down.
void find_causes(Examination& found);

Examination examine_load(const ExamineSettings& settings);
Examination examine_save(const ExamineSettings& settings);

inline Examination examine(const ExamineSettings& settings) {
  return settings.save > 0 ? examine_save(settings) : examine_load(settings);
}

}  // namespace penstock::tools
