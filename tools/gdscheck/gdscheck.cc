// SPDX-License-Identifier: Apache-2.0

#include "tools/gdscheck/gdscheck.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "tools/common/context.h"
#include "tools/common/cufile_calls.h"
#include "tools/common/explanation.h"
#include "tools/common/failure.h"
#include "tools/common/machine_root.h"
#include "tools/common/terminal.h"
#include "tools/gdscheck/report.h"

namespace penstock::tools {
namespace {

// Prints the explanation of one file. Returns the exit code: 1 if no path is usable.
int explain(const ExplainSettings& settings) {
  const Session session = open_session({});
  if (settings.memory == "device") check_gpu(session.raw(), settings.gpu);
  const Explanation told = look_at(settings, session);
  if (settings.json) print_json(explanation_json(settings, session, told));
  else print_in_full(settings, session, told);
  return told.chosen() != nullptr ? kSuccess : kFailed;
}

constexpr const char* kGdscheckExamples =
    "Examples:\n"
    "  gdscheck -p                    what this platform offers, and the configuration in force\n"
    "  gdscheck -f /mnt/data/file     whether this file can be served, and how\n"
    "  gdscheck -p --root captured/   a machine captured with scripts/capture-machine\n"
    "Exit code: 0 files can be served, 1 they cannot, 2 wrong usage, 77 for what does not apply here.";

struct GdscheckSettings {
  bool wants_platform = false;
  bool wants_versions = false;
  bool wants_file_systems = false;
  std::string file;
  std::string root;
  // Flags of NVIDIA's tool for which this one has no answer.
  bool wants_pairs = false;
  std::string topology, output, seconds, level;
  bool wants_interactive = false;
};

void refuse_what_does_not_apply(const GdscheckSettings& settings) {
  const auto refuse = [](const char* flag, const char* why) {
    throw Failure(fmt::format("{} does not apply: {}", flag, why), kNotApplicable);
  };
  const char* no_topology = "this library chooses no path by the PCIe topology; 'penstock check' shows what is there";
  if (settings.wants_pairs) refuse("-t", no_topology);
  if (!settings.topology.empty() || !settings.output.empty()) refuse("-e and -o", no_topology);
  if (!settings.seconds.empty() || !settings.level.empty()) {
    refuse("-d and -l", "there is no topology measurement to time; 'penstock bench' and gdsio measure");
  }
  if (settings.wants_interactive) refuse("-i", "it changes a topology file, which this library does not read");
}

GdsPlatform read_platform(const std::string& directory) {
  const core::Root root = open_machine_root(directory);
  return {facts::examine(facts::read_machine(root, directory)), facts::variables_for_library()};
}

// Explains the paths of the file, then asks cuFile itself, whose configuration may refuse it.
int check_file(const std::string& path) {
  ExplainSettings settings;
  settings.file = path;
  const int explained = explain(settings);
  int exit_code = explained;
  try {
    open_cufile_driver();
    const CufileFile file(open_file(path, O_RDONLY), true);
    print("cuFile: serves the file\n");
  } catch (const Failure& failure) {
    print("cuFile: refuses the file: {}\n", failure.what());
    exit_code = kFailed;
  }
  (void)cuFileDriverClose();
  return exit_code;
}

int run_gdscheck(const GdscheckSettings& settings) {
  refuse_what_does_not_apply(settings);
  const bool wants_report = settings.wants_platform || settings.wants_versions || settings.wants_file_systems;
  if (!wants_report && settings.file.empty()) {
    throw Failure("no question was given; -p checks this platform, -h lists the flags", kUsage);
  }
  if (!settings.root.empty() && !settings.file.empty()) throw Failure("-f and --root exclude one another", kUsage);
  int exit_code = kSuccess;
  if (wants_report) {
    const GdsPlatform platform = read_platform(settings.root);
    std::string text = version_lines(platform);
    if (settings.wants_platform) text += platform_report(platform);
    if (settings.wants_file_systems) text += file_system_report(platform);
    print("{}", Text(text));
    if (settings.wants_platform && !platform.obstacle().empty()) exit_code = kFailed;
  }
  return settings.file.empty() ? exit_code : std::max(exit_code, check_file(settings.file));
}

}  // namespace

void add_gdscheck(CommandLine& command) {
  auto settings = std::make_shared<GdscheckSettings>();
  command.flag("-p", settings->wants_platform, "Print what the platform offers, and the configuration in force");
  command.flag("-v", settings->wants_versions, "Print versions only");
  command.flag("-V", settings->wants_file_systems, "Print the file systems, and how their files are served");
  command.option("-f", settings->file, "Say whether this file can be served, and how").value_name("FILE");
  command.option("--root", settings->root, "Read the captured machine in DIR instead of this one").value_name("DIR");
  command.flag("-t", settings->wants_pairs, "Does not apply here: pairs of GPUs and drives");
  command.option("-e", settings->topology, "Does not apply here: export the topology").value_name("FORMAT");
  command.option("-o", settings->output, "Does not apply here: the file to export to").value_name("FILE");
  command.option("-d", settings->seconds, "Does not apply here: how long to measure").value_name("SECONDS");
  command.option("-l", settings->level, "Does not apply here: how much to measure").value_name("LEVEL");
  command.flag("-i", settings->wants_interactive, "Does not apply here: ask before measuring");
  command.footer(kGdscheckExamples);
  command.runs([settings] { return run_gdscheck(*settings); });
}

}  // namespace penstock::tools
