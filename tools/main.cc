// SPDX-License-Identifier: Apache-2.0

// The penstock command: a table of commands, and what they have in common. All output is theirs; main() turns what they
// throw into one sentence on stderr and an exit code: 0 done, 1 failed, 2 wrong usage, 77 not applicable on this
// machine.
//
// A command is its folder and its row here. Those that NVIDIA has a tool for are also called by that tool's name, by a
// link beside this program.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "k8s/k8s.h"
#include "model/program/model.h"
#include "tools/bench/bench.h"
#include "tools/check/check.h"
#include "tools/common/command_line.h"
#include "tools/common/context.h"
#include "tools/common/environment.h"
#include "tools/common/failure.h"
#include "tools/common/interrupt.h"
#include "tools/common/nearest.h"
#include "tools/common/stack_room.h"
#include "tools/common/terminal.h"
#include "tools/cp/cp.h"
#include "tools/demo/demo.h"
#include "tools/doctor/doctor.h"
#include "tools/explain/explain.h"
#include "tools/gds_stats/gds_stats.h"
#include "tools/gdscheck/gdscheck.h"
#include "tools/gdscheck/install_check.h"
#include "tools/gdsio/gdsio.h"
#include "tools/gdsio/verify.h"
#include "tools/help/help.h"
#include "tools/kv/kv.h"
#include "tools/node/node.h"
#include "tools/odirect/odirect.h"
#include "tools/prepare/prepare.h"
#include "tools/run/run.h"
#include "tools/settings/settings.h"
#include "tools/stats/stats.h"
#include "tools/suite/suite.h"
#include "tools/top/top.h"
#include "tools/topology/topology.h"
#include "tools/validate/validate.h"
#include "tools/version/version.h"

namespace penstock::tools {
namespace {

struct Command {
  const char* name;
  const char* summary;  // "" for a name that help does not list.
  void (*add)(CommandLine& command);
  bool is_program = false;  // Called by its name alone, too, and speaks under it.
  // Signals are its own affair, or that of the program that runs in its place.
  bool has_own_signals = false;
  // The new words for a name of the last release: it answers as it did, unlisted, with a line on stderr that says them.
  const char* replaced_by = nullptr;

  bool is_listed() const { return *summary != '\0' && replaced_by == nullptr; }
};
constexpr Command kCommands[] = {
    {"check", "Say what this machine offers to each path, and what it lacks", add_check},
    {"validate", "Say whether drivers, fabric and a transfer are right, and what to do", add_validate},
    {"explain", "Say by which path a file's bytes would travel, and why by no better one", add_explain},
    {"doctor", "Say why a load is slow, what would make it quicker, and by how much", add_doctor},
    {"bench", "Measure reads or writes of a file", add_bench},
    {"suite", "Measure the published table of saves and loads here, without Penstock and with it", add_suite},
    {"cp", "Copy a file through device memory", add_cp},
    {"settings", "List the library's settings: value, who set it, what it does", add_settings},
    {"demo", "Write data to a file and read it back by each path, and compare", add_demo},
    {"stats", "Show what running processes have moved, and by which paths", add_stats},
    {"top", "Show live how fast processes move bytes, and by which paths", add_top},
    {"topology", "Draw where GPUs, drives and NICs hang, and say who had best read from what", add_topology},
    {"model", "Predict how fast a machine will be, which path pays, what it costs", add_model},
    {"k8s", "Check and make Kubernetes manifests for GPUDirect Storage, and explain logs", add_k8s},
    {"kv", "Stores of KV caches: what they have, whether it is whole, what they are worth", add_kv},
    {"node", "Serve metrics of all processes of a node, and of what the node offers", add_node, false, true},
    {"odirect", "Try on a file system what may keep direct I/O from being direct", add_odirect},
    {"prepare", "Make or extend a file so that direct writes to it stay direct", add_prepare},
    {"run", "Run a program with Penstock's libcufile in front of NVIDIA's", add_run, false, true},
    {"gds_install_check", "Say whether the parts of GPUDirect Storage are installed", add_gds_install_check, true},
    {"gds_stats", "Print a process's cuFile statistics, as NVIDIA's gds_stats does", add_gds_stats, true},
    {"gdscheck", "Check the platform, with the output of NVIDIA's gdscheck", add_gdscheck, true},
    {"gdscheck.py", "", add_gdscheck, true},
    {"gdsio", "Measure with the flags and the result line of NVIDIA's gdsio", add_gdsio, true},
    {"gdsio_verify", "Read a file by cuFile and by the kernel, and compare, as NVIDIA's gdsio_verify does",
     add_gdsio_verify, true},
    {"help", "Explain a command, a path, a reason, a setting, an error or a word", add_help},
};

constexpr const char* kFooter =
    "Examples:\n"
    "  penstock check             what this machine has, and what each path lacks\n"
    "  penstock help explain      the options of a command, with examples\n"
    "Exit code: 0 done, 1 failed, 2 wrong usage, 77 not applicable on this machine. Commands say more of theirs.";

using Words = std::vector<std::string>;

const Command* command_named(std::string_view name) {
  const auto* found = std::find_if(std::begin(kCommands), std::end(kCommands),
                                   [&](const Command& command) { return command.name == name; });
  return found == std::end(kCommands) ? nullptr : found;
}

const Command* program_named(std::string_view path) {
  const Command* command = command_named(path.substr(path.find_last_of('/') + 1));
  return command != nullptr && command->is_program ? command : nullptr;
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (command.replaced_by == nullptr) names.emplace_back(command.name);
  }
  return names;
}

// "help bench" is another way to say "bench --help", and "help PENSTOCK_POLICY" one to say "settings PENSTOCK_POLICY".
Words without_help(Words words) {
  if (words.empty() || words[0] != "help") return words;
  if (words.size() == 1 || words[1].starts_with('-')) return {"--help"};
  if (command_named(words[1]) != nullptr) return {words[1], "--help"};
  if (!topic_text(words[1]) && setting_by_any_name(words[1])) return {"settings", words[1]};
  return words;
}

[[noreturn]] void refuse_command(const std::string& word) {
  throw Failure(fmt::format("there is no command '{}'{}{}", word, proposal(word, command_names()),
                            nearest(word, command_names()).empty() ? "; 'penstock help' lists them" : ""),
                kUsage);
}

// The library passes them over.
void warn_of_misspelt_settings(const std::string& command) {
  if (command == "check" || command == "settings") return;  // They tell it themselves.
  for (const auto& [name, value] : environment_settings().unknown) {
    const std::string meant = nearest_setting(name);
    if (meant.empty()) continue;  // Perhaps the build's, or the user's own.
    print_error("penstock: {} is not a setting of Penstock, and has no effect; did you mean {}?\n", name, meant);
  }
}

int run_program(const Command& command, const Words& words) {
  CommandLine line(command.name, command.summary);
  command.add(line);
  return line.run(words);
}

void tell_new_name(const Command& command) {
  if (command.replaced_by == nullptr) return;
  print_error("penstock: 'penstock {}' is now '{}'; the old name goes with the next release\n", command.name,
              command.replaced_by);
}

int run_penstock(const Words& words) {
  if (words.empty()) throw Failure("no command was given; 'penstock help' lists them", kUsage);
  if (!words[0].starts_with('-')) {
    const Command* command = command_named(words[0]);
    if (command == nullptr) refuse_command(words[0]);
    tell_new_name(*command);
  }
  CommandLine line("penstock", "Moves file data into and out of GPU memory, and says which path it took");
  bool json = false;
  const Option version =
      line.version([&line] { return line.was_given("--json") ? version_json().dump(2) : version_text(); });
  line.flag("--json", json, "With --version: print JSON").needs(version);
  show_colors("auto");
  line.choice("--color", {"auto", "always", "never"}, show_colors, "Whether words are coloured [auto: on a terminal]");
  for (const Command& command : kCommands) {
    if (!command.is_listed() && words[0] != command.name) continue;
    CommandLine added = line.command(command.name, command.summary);
    if (!command.is_program) command.add(added);
  }
  line.footer(kFooter);
  return line.run(words);
}

// The sentence on stderr; with --json also an object on stdout, for the program that reads it.
int give_up(std::string_view name, const std::string& sentence, int exit_code, bool json) {
  print_error("{}: {}\n", name, sentence);
  if (json) print_json({{"error", sentence}, {"exit_code", exit_code}});
  return exit_code;
}

int run(std::string_view name, const Words& words, const std::function<int()>& command) {
  const bool json = std::find(words.begin(), words.end(), "--json") != words.end();
  try {
    make_stack_room();
    return command();
  } catch (const Failure& failure) {
    return give_up(name, failure.what(), failure.exit_code(), json);
  } catch (const std::bad_alloc&) {
    return give_up(name, "there is not enough memory for this; free some, or raise the limit (ulimit -v)", kFailed,
                   json);
  } catch (const std::exception& error) {
    return give_up(name, error.what(), kFailed, json);
  }
}

int run_by_name(std::string_view name, Words words) {
  const Command* program = program_named(name);
  if (program == nullptr) {
    words = without_help(std::move(words));
    program = words.empty() ? nullptr : program_named(words[0]);
    if (program != nullptr) words.erase(words.begin());
  }
  warn_of_misspelt_settings(words.empty() ? "" : words[0]);
  if (program == nullptr) return run("penstock", words, [&] { return run_penstock(words); });
  return run(program->name, words, [&] { return run_program(*program, words); });
}

}  // namespace
}  // namespace penstock::tools

int main(int argc, char** argv) {
  using namespace penstock::tools;
  const Command* command = argc > 1 ? command_named(argv[1]) : nullptr;
  if (command == nullptr || !command->has_own_signals) catch_interrupts();
  std::signal(SIGXFSZ, SIG_IGN);  // A file-size limit is an error like others (EFBIG).
  int result = run_by_name(argc > 0 ? argv[0] : "", {argv + std::min(argc, 1), argv + argc});
  // A full disk or a closed pipe under stdout: the answer did not arrive.
  if (!flush_output() && result == kSuccess) {
    print_error("penstock: could not write the output: {}\n", std::strerror(errno));
    result = kFailed;
  }
  die_of_interrupt();
  return result;
}
