// SPDX-License-Identifier: Apache-2.0

// Shared by the programs of this tree: each is a name, a table of commands, and the text of --help below it. All output
// is the commands'; run_program() turns their exceptions into one sentence on stderr and an exit code: 0 done, 1
// failed, 2 wrong usage, 77 not applicable on this machine.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/common/command_line.h"

namespace penstock::tools {

struct Command {
  const char* name;
  const char* summary = "";
  void (*add)(CommandLine& command) = nullptr;  // nullptr where `replaced_by` is a program beside this one.
  bool is_program = false;                      // Called by its name alone, too, by a link; help does not list it.
  // Signals are its own affair, or that of the program that runs in its place.
  bool has_own_signals = false;
  // The new words for a name of the last release: it answers as it did, unlisted, with a line on stderr that says them.
  const char* replaced_by = nullptr;
  bool tells_misspelt_settings = false;  // Itself, so that nothing else needs to.
  // For a flag of this verb that asks a question of its own, with options of its own; the name is the last release's.
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
  // The meaning of other words, where there is more to say than "help COMMAND".
  std::vector<std::string> (*meant)(std::vector<std::string> words) = nullptr;
};

// One line on stderr for words of the last release, said behind the program's name: `now` are the words in their place.
void tell_new_name(const char* program, const char* words, const std::string& now);

// The whole of main().
int run_program(const Program& program, int argc, char** argv);

}  // namespace penstock::tools
