// SPDX-License-Identifier: Apache-2.0

// penstock explain --measure: says why a load or a save takes as long as it does, what would change that, and by how
// much.
#include <fmt/format.h>

#include <memory>

#include "tools/common/command_line.h"
#include "tools/common/failure.h"
#include "tools/common/plots.h"
#include "tools/doctor/examine.h"
#include "tools/doctor/report.h"

namespace penstock::tools {
namespace {

constexpr double kSecondsMost = 60;

constexpr const char* kExamples =
    "Examples:\n"
    "  penstock explain --measure model/                    why these weights take so long to load, and what would "
    "help\n"
    "  penstock explain --measure 'model/*.safetensors'     of some of them\n"
    "  penstock explain --measure model.stripe              of a striped object, by its manifest: its drives together\n"
    "  penstock explain --measure /ckpt --save 140G         the same for a checkpoint of that size, saved into that "
    "folder\n"
    "  penstock explain --measure model/ --html model.html  as a page, too\n"
    "  penstock explain --measure model/ --json             for a program\n"
    "It reads parts of the files, for up to 17 times --time (25 seconds), and leaves the page cache as it was. The "
    "drive "
    "is read past the page cache where the file system allows it, also where a file is cached. With --save "
    "it writes files without a name, of a gibibyte at most, and frees their space again. A time 'at best' is what the "
    "slowest remaining part would allow; all others were measured.\n"
    "Exit code: 0 measured, 1 failed, 2 wrong usage, 77 if there is no such GPU.";

struct Options : ExamineSettings {
  OutputOptions output;
  bool is_save = false;
};

int run_doctor(const Options& options) {
  if (!(options.seconds >= 0.1 && options.seconds <= kSecondsMost)) {
    throw Failure(fmt::format("--time {}: expected seconds, 0.1 to {}", options.seconds, kSecondsMost), kUsage);
  }
  if (options.is_save && options.save == 0) throw Failure("--save 0: expected the size of a checkpoint", kUsage);
  Output output(options.output, doctor_page());
  const Examination found = examine(options);
  output.show(examination_text(found, options), examination_json(found));
  return kSuccess;
}

}  // namespace

void add_doctor(CommandLine& command) {
  auto options = std::make_shared<Options>();
  command
      .option("FILE", options->words,
              "Files, block devices, striped objects, folders with all that is below them, or patterns")
      .required();
  command.option("--gpu", options->gpu, "The GPU into which they are loaded").default_shown();
  command
      .option("--time", options->seconds,
              fmt::format("How long each measurement takes at most; all together up to {} times as long",
                          kMeasurementsMost))
      .value_name("SECONDS")
      .default_shown();
  const Option save = command.size(
      "--save", options->save, "Measure instead how long a checkpoint of this size takes to save into the folder FILE");
  add_output_options(command, options->output);
  command.footer(kExamples);
  command.runs([options, save] {
    options->is_save = save.was_given();
    return run_doctor(*options);
  });
}

}  // namespace penstock::tools
