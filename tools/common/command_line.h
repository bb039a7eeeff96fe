// SPDX-License-Identifier: Apache-2.0

// The words that may follow a command's name, their help, and the action that runs once they are read. CLI11 does the
// work; only the source of this header includes it, because it adds seconds to the compilation of every file that does.
//
// Variables that options write to must live until the command has run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace penstock::tools {

// One option of a command line, while the command line is built. It can be copied freely.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required();
  Option default_shown();  // Shows the default in the help, behind the sentence.
  Option value_name(const char* name);
  Option one_of(std::vector<std::string> words);  // Shows the words as the value's name: "read|write".
  Option between(int least, int most);            // Shown as "1..8".
  Option takes(int count);                        // Requires exactly so many values in the list.
  Option excludes(Option other);
  Option needs(Option other);
  Option hidden();          // Leaves the option out of the help: an old name that is still answered.
  Option one_value_each();  // Makes the option stand before each value of a list.
  bool was_given() const;

 private:
  CLI::Option* option_;
};

// A command line. Copies are the same one, and live no longer than the first: an action may hold one.
class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& summary);
  CommandLine(const CommandLine& other) : CommandLine(other.root_, other.app_) {}

  Option flag(const std::string& names, bool& value, const std::string& help);
  // Without a value the flag has the value `otherwise`. Another value follows "=" only, so that the next word is not
  // taken for one.
  Option flag_or_value(const std::string& name, const std::string& otherwise, std::string& value,
                       const std::string& help);
  // T is std::string, unsigned, std::uint64_t, double, std::optional of int, unsigned or double, or the list
  // std::vector<std::string>.
  template <typename T>
  Option option(const std::string& names, T& value, const std::string& help);
  // Reads a size: "4096", "4k", "1M", "2GiB".
  Option size(const std::string& names, std::uint64_t& value, const std::string& help);
  void group(const char* title);  // Puts a heading above the options that are added from now on.
  // Takes one of the words, and calls `chosen` as soon as it is read, also behind the name of a command.
  Option choice(const std::string& name, std::vector<std::string> words, std::function<void(const std::string&)> chosen,
                const std::string& help);
  Option version(std::function<std::string()> text);  // Makes --version print this text.
  void footer(const std::string& text);               // Ends the help: examples, exit codes.

  // Requires a flag, which the line of usage shows: without it, the command asks another question.
  void question(const char* flag);
  // Adds a flag to the help only. With this flag the command has other options, so main() never lets it be read here.
  void other_question(const char* flag, const char* summary);
  // A refusal of one of these options says that the command `name` has it.
  void options_elsewhere(const std::string& name, const CommandLine& there);

  // Adds a command. If any are added, one must be given.
  CommandLine command(const std::string& name, const std::string& summary);
  // Sets the action, called once all words are read. It returns the command's exit code.
  void runs(std::function<int()> action);
  // Sets an action that reads the words itself, also those that ask for help.
  void runs_on_words(std::function<int(const std::vector<std::string>&)> action);

  // Puts a program and its arguments into `words`, unread: all from the first word on that is no option, or all behind
  // "--".
  void takes_program(std::vector<std::string>& words);

  std::vector<std::string> given() const;  // The names of the options that were given.
  bool was_given(const std::string& name) const;
  bool has(const std::string& name) const;  // True if the command has an option of that name.

  // Reads the words and runs the action that they ask for, which may be to print help. Throws Failure if they make no
  // sense.
  int run(const std::vector<std::string>& words);

 private:
  struct Root;
  CommandLine(Root* root, CLI::App* app) : root_(root), app_(app) {}

  std::shared_ptr<Root> owned_;  // None in a copy.
  Root* root_;
  CLI::App* app_;  // The app of root_, or one of its commands.
};

}  // namespace penstock::tools
