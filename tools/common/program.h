// SPDX-License-Identifier: Apache-2.0

// Serves the programs of this tree: each is a name, a table of commands, and the text below --help. The commands do all
// output; run_program() turns their exceptions into one sentence on stderr and an exit code: 0 done, 1 failed, 2 wrong
// usage, 77 not applicable on this machine.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/common/command_line.h"

namespace penstock::tools {

struct Command {
  const char* name;
  const char* summary = "";
  void (*add)(CommandLine& command) = nullptr;  // Null if `replaced_by` is a program beside this one.
  bool is_program = false;  // It can also be called by its own name, through a link; help does not list it.
  // True if the command, or the program that it starts, handles signals itself.
  bool has_own_signals = false;
  // Set if this is a name of the last release: the new words for it. The command still works, unlisted, and names them
  // on stderr.
  const char* replaced_by = nullptr;
  bool reports_misspelt_settings = false;  // It warns of misspelt settings itself, so that run_program() need not.
  // Set if this command is a flag of a verb, with options of its own; `name` is its name in the last release.
  const char* verb = nullptr;
  const char* flag = nullptr;

  bool is_old_name() const { return replaced_by != nullptr || verb != nullptr; }
  bool is_listed() const { return !is_program && !is_old_name(); }
};

constexpr Command question(const char* old_name, const char* summary, void (*add)(CommandLine& command),
                           const char* verb, const char* flag) {
  return {.name = old_name, .summary = summary, .add = add, .verb = verb, .flag = flag};
}

struct Program {
  const char* name;
  const char* summary;
  std::span<const Command> commands;
  const char* footer;
  // Translates words with another meaning, if there are more than "help COMMAND".
  std::vector<std::string> (*meant)(std::vector<std::string> words) = nullptr;
};

// Prints one line on stderr, after the program's name, if words of the last release were used: `now` replaces them.
void report_new_name(const char* program, const char* words, const std::string& now);

// Does all that main() has to do.
int run_program(const Program& program, int argc, char** argv);

}  // namespace penstock::tools
