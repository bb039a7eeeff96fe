// SPDX-License-Identifier: Apache-2.0

// `penstock check [FOLDER... --try] [--root DIR] [--beside DIR] [--require PATH] [--topology] [--all] [--json]`. Exit
// code 0: the bounce path is usable. 1: it is not, or the environment's settings or cuFile's configuration are wrong.
// 2: wrong usage.
#include "tools/check/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "facts/examination.h"
#include "tools/check/beside.h"
#include "tools/check/deepspeed.h"
#include "tools/check/report.h"
#include "tools/check/topology.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/machine_root.h"
#include "tools/common/terminal.h"

namespace penstock::tools {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  penstock check                      this machine\n"
    "  penstock check --all                every row: what passed, too\n"
    "  penstock check --try /mnt/nvme0     and a transfer there, proven byte by byte; in a GPU's memory, where there "
    "is one\n"
    "  penstock check --topology           which device is where, how far apart, and which GPU should read from which "
    "drive\n"
    "  penstock check --json               the same for a program\n"
    "  penstock check --require gpu        for a probe: fails where files cannot reach a GPU's memory at all\n"
    "  penstock check --root captured/     a captured machine (share/penstock/capture-machine, machine-tree)\n"
    "  penstock check --root fast/ --beside slow/    two captured machines: what differs, and which is more direct\n"
    "  penstock check --env PENSTOCK_NVIDIA_EXPORT=on    a program that switches the path p2pdma on\n"
    "A finding is 'pass', 'warn' (off, or slower than it could be), 'fail', 'unknown' (nothing here tells) or 'n/a'. "
    "First comes what stands between files and a direct path, then what else is wrong: each cause with its remedy, and "
    "below it what follows from it ('so').\n"
    "Exit code: 0 if bytes can move, by the bounce path at least, also where findings fail that keep a direct path "
    "away or make it slower (--require PATH asks for that path); 1 if they cannot, --require is not met, a transfer of "
    "--try failed or a setting (of the environment, of cufile.json) makes no sense, 2 wrong usage, 77 nothing to draw "
    "for --topology.";

struct CheckSettings {
  std::vector<std::string> folders;  // The folders to try.
  bool tries = false;
  bool draws_topology = false;
  unsigned gpu = 0;
  std::string root;                    // A captured machine; "" for this one.
  std::string beside;                  // Another, which it is compared with; "" for none.
  std::string deepspeed;               // A configuration to check instead, as in the last release; "" for none.
  std::string require;                 // A path, or "gpu"; "" for none.
  std::vector<std::string> variables;  // NAME=VALUE, for the process in question.
  bool all = false;
  bool json = false;
};

Requirement require_of(const CheckSettings& settings, const facts::Examination& examined) {
  if (settings.require.empty()) return {};
  if (settings.require == "gpu") return {"gpu", can_use_gpu(examined.machine)};
  const auto path = path_by_name(settings.require);
  const auto is_it = [&](const facts::PathOutlook& one) { return path && one.path == *path; };
  const auto& paths = examined.whole.paths;
  if (std::none_of(paths.begin(), paths.end(), is_it)) {
    std::vector<std::string> known = {"gpu"};
    for (const facts::PathOutlook& one : paths) known.emplace_back(penstock_path_name(one.path));
    throw Failure(fmt::format("--require {}: expected {}", settings.require, fmt::join(known, ", ")), kUsage);
  }
  return {settings.require, examined.whole.may_use(*path)};
}

// Makes a transfer in each folder, and tries direct I/O there under all conditions that may keep it from being direct.
Tries try_folders(const CheckSettings& settings) {
  Tries tries;
  if (!settings.tries) return tries;
  validate::judge_transfers(settings.folders, settings.gpu, tries.findings, tries.details);
  for (const std::string& folder : settings.folders) tries.odirect.push_back(try_odirect(folder));
  return tries;
}

int compare(const CheckSettings& settings, const facts::Examination& examined, const facts::Variables& variables) {
  const core::Root root = open_machine_root(settings.beside);
  const facts::Examination other = facts::examine(facts::read_machine(root, settings.beside, variables));
  if (settings.json) print_json(beside_json(examined, other));
  else print("{}", beside_text(examined, other));
  return kSuccess;
}

// Tells what was meant by a FOLDER without --try.
std::string instead_of(const std::string& folder) {
  return path_by_name(folder)
             ? fmt::format("{0}: a path is asked for by 'penstock check --require {0}'", folder)
             : fmt::format(
                   "FOLDER {}: expected with --try, which moves bytes in it; to ask how a file is read, run "
                   "'penstock explain FILE'",
                   folder);
}

int run_check(const CheckSettings& settings) {
  if (!settings.deepspeed.empty()) check_deepspeed(settings.deepspeed, settings.json);
  if (settings.tries != !settings.folders.empty()) {
    throw Failure(settings.tries ? "--try: expected a FOLDER, one on each file system to try"
                                 : instead_of(settings.folders.front()),
                  kUsage);
  }
  const std::string& directory = settings.root;
  const core::Root root = open_machine_root(directory);
  if (settings.draws_topology) return draw_topology(root, settings.json);
  const facts::Variables variables = variables_of(settings.variables);
  if (directory.empty()) set_variables(variables);
  const facts::Examination examined = facts::examine(facts::read_machine(root, directory, variables));
  if (!settings.beside.empty()) return compare(settings, examined, variables);
  const bool usable = examined.whole.may_use(PENSTOCK_PATH_BOUNCE);
  const Requirement required = require_of(settings, examined);
  const Tries tries = try_folders(settings);
  if (settings.json) print_json(check_json(examined, required, usable, tries));
  else print("{}", check_text(examined, required, tries, settings.all));
  return passes(examined, required, tries) ? kSuccess : kFailed;
}

}  // namespace

void add_check(CommandLine& command) {
  auto settings = std::make_shared<CheckSettings>();
  Option folders = command.option("FOLDER", settings->folders,
                                  "With --try: a folder in which bytes are moved; no file is left in it");
  const Option root = command
                          .option("--root", settings->root,
                                  "Read the captured machine in DIR instead of this one; 'penstock-k8s verify' takes "
                                  "several")
                          .value_name("DIR");
  folders.excludes(root);  // On a captured machine no bytes can be moved.
  Option beside = command
                      .option("--beside", settings->beside,
                              "Compare with the captured machine in DIR: which paths and checks differ, and why")
                      .value_name("DIR");
  folders.excludes(beside);
  command.flag("--try", settings->tries,
               "Move 8 MiB between each FOLDER and a GPU, and try there what may keep direct I/O from being direct");
  command.option("--gpu", settings->gpu, "The GPU whose memory takes part in --try").default_shown();
  const Option topology =
      command.flag("--topology", settings->draws_topology,
                   "Draw instead where GPUs, drives and NICs are, and which GPU should read from which drive");
  const Option require = command
                             .option("--require", settings->require,
                                     "Fail unless this path may be used (p2pdma, ...); 'gpu': unless a GPU can be")
                             .value_name("PATH");
  for (const Option& option : {topology, require}) beside.excludes(option);
  command.option("--env", settings->variables, "As if the program had this variable of Penstock's or cuFile's as well")
      .value_name("NAME=VALUE")
      .one_value_each();
  command.flag("--all", settings->all, "Also print every row: devices, file systems, pairs, needs of paths, checks");
  command.flag("--json", settings->json, "Print JSON");
  command.option("--deepspeed", settings->deepspeed, "Now python -m penstock check --deepspeed FILE")
      .excludes(root)
      .hidden();
  command.footer(kExamples);
  command.runs([settings] { return run_check(*settings); });
}

}  // namespace penstock::tools
