// SPDX-License-Identifier: Apache-2.0

// The penstock command: a table of commands. A command is its folder and its row here. If a flag of a verb asks another
// question, that question has options of its own, and so a row: "penstock bench --suite". A command for which NVIDIA
// has a tool can be called by that tool's name, through a link beside this program.
#include <string>
#include <utility>
#include <vector>

#include "facts/environment.h"
#include "tools/check/check.h"
#include "tools/check/odirect.h"
#include "tools/check/topology.h"
#include "tools/check/validate.h"
#include "tools/common/program.h"
#include "tools/explain/explain.h"
#include "tools/gds_stats/gds_stats.h"
#include "tools/gdscheck/gdscheck.h"
#include "tools/gdscheck/install_check.h"
#include "tools/help/help.h"
#include "tools/serve/serve.h"

namespace penstock::tools {

// Each function adds a command's options and sets its action.
using Add = void(CommandLine&);
Add add_bench, add_cp, add_demo, add_doctor, add_gdsio, add_gdsio_verify, add_kv, add_prepare, add_run, add_settings,
    add_stats, add_suite, add_top;

namespace {

void add_this_help(CommandLine& command);

constexpr Command kCommands[] = {
    {.name = "check",
     .summary = "Say what this machine offers to each path, and what it lacks",
     .add = add_check,
     .reports_misspelt_settings = true},
    {"explain", "Say by which path a file's bytes would travel, and why by no better one", add_explain},
    {"bench", "Measure reads or writes of a file", add_bench},
    {"run", "Run a program with Penstock's libcufile in front of NVIDIA's", add_run, false, true},
    {"stats", "Show what running processes have moved, and by which paths", add_stats},
    {"serve", "Serve metrics of all processes of a node, and of what the node offers", add_serve, false, true},
    {"kv", "Stores of KV caches: what they have, whether it is whole, what they are worth", add_kv},
    {.name = "settings",
     .summary = "List the library's settings: value, who set it, what it does; with FILE, judge a cufile.json",
     .add = add_settings,
     .reports_misspelt_settings = true},
    {"help", "Explain a command, a path, a reason, a setting, an error or a word", add_this_help},
    {"validate", "Say whether drivers, fabric and a transfer are right, and what to do", add_validate, false, false,
     "penstock check"},
    {"topology", "Draw where GPUs, drives and NICs are, and which GPU should read from which drive", add_topology,
     false, false, "penstock check --topology"},
    {"odirect", "Try on a file system what may keep direct I/O from being direct", add_odirect, false, false,
     "penstock check --try FOLDER"},
    question("doctor", "Say why a load is slow, what would make it quicker, and by how much", add_doctor, "explain",
             "--measure"),
    question("prepare", "Make or extend a file so that direct writes to it stay direct", add_prepare, "explain",
             "--fix"),
    question("demo", "Write data to a file and read it back by each path, and compare", add_demo, "bench",
             "--every-path"),
    question("suite", "Measure the published table of saves and loads here, without Penstock and with it", add_suite,
             "bench", "--suite"),
    question("top", "Show live how fast processes move bytes, and by which paths", add_top, "stats", "--live"),
    {"cp", "Copy a file through device memory", add_cp, false, false, "examples/copy.cc"},
    {"node", "Serve metrics of all processes of a node, and of what the node offers", add_serve, false, true,
     "penstock serve"},
    {"gds_install_check", "Say whether the parts of GPUDirect Storage are installed", add_gds_install_check, true},
    {"gds_stats", "Print a process's cuFile statistics, as NVIDIA's gds_stats does", add_gds_stats, true},
    {"gdscheck", "Check the platform, with the output of NVIDIA's gdscheck", add_gdscheck, true},
    {"gdscheck.py", "Check the platform, with the output of NVIDIA's gdscheck", add_gdscheck, true},
    {"gdsio", "Measure with the flags and the result line of NVIDIA's gdsio", add_gdsio, true},
    {"gdsio_verify", "Read a file by cuFile and by the kernel, and compare, as NVIDIA's gdsio_verify does",
     add_gdsio_verify, true},
    // These are separate programs.
    {.name = "k8s", .has_own_signals = true, .replaced_by = "penstock-k8s"},
    {.name = "model", .has_own_signals = true, .replaced_by = "penstock-model"},
};

void add_this_help(CommandLine& command) {
  Topics commands;
  for (const Command& each : kCommands) {
    if (each.is_listed()) commands.emplace_back(each.name, each.summary);
  }
  add_help(command, std::move(commands));
}

constexpr const char* kFooter =
    "Examples:\n"
    "  penstock check             what this machine has, and what each path lacks\n"
    "  penstock check --root A --beside B    what differs between two machines that were captured\n"
    "  penstock help explain      the options of a command, with examples\n"
    "  penstock help slow         what to ask if a load is slow; 'penstock help save': if a checkpoint is\n"
    "  penstock help pod          what to ask on Kubernetes; 'penstock help words' lists more such words\n"
    "Programs beside it: penstock-k8s, penstock-model; gdscheck, gds_install_check, gdsio, gdsio_verify and gds_stats "
    "do\n"
    "what NVIDIA's of these names do. Pages named as docs/...: in the sources, and in share/doc of what is installed.\n"
    "Exit code: 0 done, 1 failed, 2 wrong usage, 77 not applicable on this machine. Commands say more of theirs.";

// Replaces "help PENSTOCK_POLICY", which means the same, by "settings PENSTOCK_POLICY".
std::vector<std::string> meant(std::vector<std::string> words) {
  const bool is_setting = facts::setting_by_any_name(words[1]) || !facts::reason_without_effect(words[1]).empty();
  if (!topic_text(words[1]) && is_setting) words[0] = "settings";
  return words;
}

constexpr Program kPenstock{"penstock", "Moves file data into and out of GPU memory, and says which path it took",
                            kCommands, kFooter, meant};

}  // namespace
}  // namespace penstock::tools

int main(int argc, char** argv) { return penstock::tools::run_program(penstock::tools::kPenstock, argc, argv); }
