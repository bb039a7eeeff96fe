// SPDX-License-Identifier: Apache-2.0

// `penstock check [--root DIR | --deepspeed FILE] [--require PATH] [--json]`. Exit code 0: the bounce path is usable.
// 1: it is not, or the environment's settings or cuFile's configuration make no sense. 2: wrong usage.
#include "tools/check/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tools/check/deepspeed.h"
#include "tools/check/report.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/machine.h"
#include "tools/common/served.h"
#include "tools/common/terminal.h"

namespace penstock::tools {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  penstock check                      this machine\n"
    "  penstock check --json               the same for a program\n"
    "  penstock check --require gpu        for a probe: fails where files cannot reach a GPU's memory at all\n"
    "  penstock check --root captured/     a captured machine (scripts/capture-machine, scripts/machine-tree unpack)\n"
    "  penstock check --deepspeed ds_config.json    what DeepSpeed and Penstock make of a configuration\n"
    "Exit code: 0 if the bounce path is usable, 1 if it is not, --require is not met or a setting (of the\n"
    "environment, of cufile.json) makes no sense, 2 wrong usage. With --deepspeed: 0 if no finding is an error, 1 if "
    "one is or FILE cannot be read.";

struct CheckSettings {
  std::string root;       // A captured machine; "" for this one.
  std::string deepspeed;  // A configuration to check instead; "" for none.
  std::string require;    // A path, or "gpu"; "" for none.
  bool json = false;
};

Requirement require_of(const CheckSettings& settings, const Machine& machine, const std::vector<PathReport>& paths) {
  if (settings.require.empty()) return {};
  if (settings.require == "gpu") return {"gpu", has_gpu(machine)};
  const int path = penstock_path_by_name(settings.require.c_str());
  const auto is_it = [&](const PathReport& report) { return report.path == path; };
  if (std::none_of(paths.begin(), paths.end(), is_it)) {
    std::vector<std::string> known = {"gpu"};
    for (const PathReport& report : paths) known.emplace_back(penstock_path_name(report.path));
    throw Failure(fmt::format("--require {}: expected {}", settings.require, fmt::join(known, ", ")), kUsage);
  }
  return {settings.require, is_usable(paths, path)};
}

int run_check(const CheckSettings& settings) {
  if (!settings.deepspeed.empty()) return check_deepspeed(settings.deepspeed, settings.json);
  const Machine machine = read_machine(open_machine_root(settings.root), settings.root);
  const std::vector<PathReport> paths = report_paths(machine);
  const bool can_open = !machine.cufile.must_refuse && (!machine.probe || machine.probe->environment_error.empty());
  const bool usable = can_open && is_usable(paths, PENSTOCK_PATH_BOUNCE);
  const Requirement required = require_of(settings, machine, paths);
  if (settings.json) print_json(check_json(machine, paths, required, usable));
  else print("{}", check_text(machine, paths, required));
  return usable && required.is_met ? kSuccess : kFailed;
}

}  // namespace

void add_check(CommandLine& command) {
  auto settings = std::make_shared<CheckSettings>();
  const Option root = command.option("--root", settings->root, "Read the captured machine in DIR instead of this one");
  Option(root).value_name("DIR");
  command.option("--deepspeed", settings->deepspeed, "Check the DeepSpeed configuration in FILE instead of the machine")
      .value_name("FILE")
      .excludes(root);
  command
      .option("--require", settings->require,
              "Fail unless this path may be used (p2pdma, ...); 'gpu': unless a GPU can be")
      .value_name("PATH");
  command.flag("--json", settings->json, "Print JSON");
  command.footer(kExamples);
  command.runs([settings] { return run_check(*settings); });
}

}  // namespace penstock::tools
