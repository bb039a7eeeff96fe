// SPDX-License-Identifier: Apache-2.0

#include "tools/common/program.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "facts/environment.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/interrupt.h"
#include "tools/common/nearest.h"
#include "tools/common/terminal.h"
#include "tools/common/version.h"

namespace penstock::tools {
namespace {

constexpr rlim_t kStackMin = 1u << 20;

// Makes room on the stack for this first thread and for later ones, whatever `ulimit -s` says. The kernel looks at the
// limit when the first thread's stack grows, so it is early enough to raise it here.
void make_stack_room() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kStackMin) return;
  const rlim_t given = limit.rlim_cur;
  limit = {kStackMin, std::max(limit.rlim_max, kStackMin)};
  if (::setrlimit(RLIMIT_STACK, &limit) != 0) {
    throw Failure(fmt::format("the stack is limited to {} KiB and {} are needed; raise the limit (ulimit -s {})",
                              given / 1024, kStackMin / 1024, kStackMin / 1024),
                  kFailed);
  }
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return;
  (void)::pthread_attr_setstacksize(&attributes, kStackMin);
  (void)::pthread_setattr_default_np(&attributes);
  (void)::pthread_attr_destroy(&attributes);
}

using Words = std::vector<std::string>;

const Command* command_named(const Program& program, std::string_view name) {
  const auto found = std::find_if(program.commands.begin(), program.commands.end(),
                                  [&](const Command& command) { return command.name == name; });
  return found == program.commands.end() ? nullptr : &*found;
}

// Finds a command that can be called as a program of its own, by the name under which this program was called.
const Command* face_named(const Program& program, std::string_view path) {
  const Command* command = command_named(program, path.substr(path.find_last_of('/') + 1));
  return command != nullptr && command->is_program ? command : nullptr;
}

// Skips the program's own options, of which only --color has a value.
Words::const_iterator command_word(const Words& words) {
  auto at = words.begin();
  while (at != words.end() && at->starts_with('-')) at += *at == "--color" && std::next(at) != words.end() ? 2 : 1;
  return at;
}

const Command* command_of(const Program& program, const Words& words) {
  const auto at = command_word(words);
  return at == words.end() ? nullptr : command_named(program, *at);
}

bool is_question_of(const Command& question, const Command& verb) {
  return question.verb != nullptr && std::strcmp(question.verb, verb.name) == 0;
}

// The command that a flag selects in place of its verb's own; null if no flag does.
const Command* question_of(const Program& program, const Words& words) {
  const Command* const verb = command_of(program, words);
  if (verb == nullptr) return nullptr;
  const auto found = std::find_if(program.commands.begin(), program.commands.end(), [&](const Command& each) {
    return is_question_of(each, *verb) && std::find(words.begin(), words.end(), each.flag) != words.end();
  });
  return found == program.commands.end() ? nullptr : &*found;
}

// Replaces "help bench --suite", which means the same, by "bench --suite --help". More words are a question.
Words meant(const Program& program, Words words) {
  if (words.empty() || words[0] != "help") return words;
  if (words.size() == 1 || words[1].starts_with('-')) return {"--help"};
  const bool explains_more = command_named(program, "help") != nullptr;
  const Command* const command = command_named(program, words[1]);
  const std::size_t words_of_one = command != nullptr && command->has_own_signals && !command->is_old_name() ? 2 : 3;
  const bool is_question = words.size() > words_of_one && !words[2].starts_with('-');
  if (!explains_more || (!is_question && command != nullptr)) {
    words.erase(words.begin());
    words.emplace_back("--help");
    return words;
  }
  return program.meant == nullptr ? words : program.meant(std::move(words));
}

[[noreturn]] void refuse_command(const Program& program, const std::string& word) {
  std::vector<std::string> names;
  for (const Command& command : program.commands) {
    if (!command.is_old_name()) names.emplace_back(command.name);
  }
  const std::string meant = proposal(word, names);
  const std::string more = meant.empty() ? fmt::format("; '{} help' lists them", program.name) : meant;
  throw Failure(fmt::format("there is no command '{}'{}", word, more), kUsage);
}

// Warns of variables that the library ignores because their names are misspelt.
void warn_of_misspelt_settings(const Program& program) {
  for (const auto& [name, value] : facts::environment_settings().unknown) {
    const std::string meant = facts::nearest_setting(name);
    if (meant.empty()) continue;  // The variable may be one of the build, or of the user.
    print_error("{}: {} is not a setting of Penstock, and has no effect; did you mean {}?\n", program.name, name,
                meant);
  }
}

void report_old_name(const Program& program, const Command& command) {
  const std::string new_words =
      command.verb == nullptr ? command.replaced_by : fmt::format("{} {} {}", program.name, command.verb, command.flag);
  report_new_name(program.name, command.name, new_words);
}

// Replaces this process by the program that took over what was a command here in the last release.
[[noreturn]] void run_instead(const Program& program, const Command& command, Words words) {
  const std::string path = std::filesystem::read_symlink("/proc/self/exe").parent_path() / command.replaced_by;
  if (::access(path.c_str(), F_OK) != 0) {
    throw Failure(fmt::format("'{} {}' is now {}, a program of its own, which is not installed beside this one; the "
                              "package {} has it",
                              program.name, command.name, command.replaced_by, command.replaced_by),
                  kNotApplicable);
  }
  report_old_name(program, command);
  words.erase(command_word(words));
  words.insert(words.begin(), path);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(path.c_str(), argv.data());
  fail_errno(path, "run the program");
}

void tell_options_of(CommandLine& added, const std::string& name, const Command& other) {
  CommandLine there(name, other.summary);
  other.add(there);
  added.options_elsewhere(name, there);
}

// A refusal may name the options of other questions, so they are told of the command that was asked for, and no other.
void add_verb(CommandLine& line, const Program& program, const Command& verb, const Command* question, bool is_asked) {
  const bool is_question = question != nullptr && is_question_of(*question, verb);
  const Command& asked = is_question ? *question : verb;
  CommandLine added = line.command(verb.name, asked.summary);
  if (is_question) added.question(asked.flag);
  asked.add(added);
  const std::string name = fmt::format("{} {}", program.name, verb.name);
  if (is_question) return is_asked ? tell_options_of(added, name, verb) : void();
  for (const Command& each : program.commands) {
    if (!is_question_of(each, verb)) continue;
    added.other_question(each.flag, each.summary);
    if (is_asked) tell_options_of(added, fmt::format("{} {}", name, each.flag), each);
  }
}

int run_words(const Program& program, const Words& words) {
  if (words.empty()) throw Failure(fmt::format("no command was given; '{} help' lists them", program.name), kUsage);
  const Command* const asked = command_of(program, words);
  if (asked == nullptr && !words[0].starts_with('-')) refuse_command(program, words[0]);
  if (asked != nullptr && asked->add == nullptr) run_instead(program, *asked, words);
  if (asked != nullptr && asked->is_old_name()) report_old_name(program, *asked);
  CommandLine line(program.name, program.summary);
  bool json = false;
  const Option version = line.version(
      [&line, &program] { return line.was_given("--json") ? version_json().dump(2) : version_text(program.name); });
  line.flag("--json", json, "With --version: print JSON").needs(version);
  show_colors("auto");
  line.choice("--color", {"auto", "always", "never"}, show_colors, "Whether words are coloured [auto: on a terminal]");
  const Command* const question = question_of(program, words);
  for (const Command& command : program.commands) {
    if (command.is_listed() || &command == asked) add_verb(line, program, command, question, &command == asked);
  }
  line.footer(program.footer);
  return line.run(words);
}

int run_face(const Command& command, const Words& words) {
  CommandLine line(command.name, command.summary);
  command.add(line);
  return line.run(words);
}

// Prints the sentence on stderr; with --json also an object on stdout, for a program that reads it.
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

int run_by_name(const Program& program, std::string_view name, Words words) {
  const Command* face = face_named(program, name);
  if (face == nullptr) {
    words = meant(program, std::move(words));
    face = words.empty() ? nullptr : face_named(program, words[0]);
    if (face != nullptr) words.erase(words.begin());
  }
  const Command* const command = command_of(program, words);
  if (command == nullptr || !command->reports_misspelt_settings) warn_of_misspelt_settings(program);
  if (face == nullptr) return run(program.name, words, [&] { return run_words(program, words); });
  terminal::show_long_lines();
  return run(face->name, words, [&] { return run_face(*face, words); });
}

}  // namespace

void report_new_name(const char* program, const char* words, const std::string& now) {
  print_error("{}: '{} {}' is now '{}'; the old name goes with the next release\n", program, program, words, now);
}

int run_program(const Program& program, int argc, char** argv) {
  const Words words{argv + std::min(argc, 1), argv + argc};
  const Command* command = command_of(program, words);
  if (command == nullptr || !command->has_own_signals) catch_interrupts();
  std::signal(SIGXFSZ, SIG_IGN);  // Makes reaching a file-size limit an error like others (EFBIG).
  int result = run_by_name(program, argc > 0 ? argv[0] : "", words);
  // The output did not arrive if the disk under stdout is full or its pipe closed.
  if (!flush_output() && result == kSuccess) {
    print_error("{}: could not write the output: {}\n", program.name, std::strerror(errno));
    result = kFailed;
  }
  die_of_interrupt();
  return result;
}

}  // namespace penstock::tools
