// SPDX-License-Identifier: Apache-2.0

// The words that may follow a command's name, their help, and what runs once they are read. Behind it is CLI11, which
// only the source of this header includes: it takes seconds of every file that does.
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

// One option of a command line, while it is put together. To be copied at will.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required();
  Option default_shown();  // In the help, behind the sentence.
  Option value_name(const char* name);
  Option one_of(std::vector<std::string> words);  // These become the value's name: "read|write".
  Option between(int least, int most);            // As "1..8".
  Option takes(int count);                        // Values of a list, no more and no fewer.
  Option excludes(Option other);
  Option needs(Option other);
  Option one_value_each();  // A list's option stands before each value.
  bool was_given() const;

 private:
  CLI::Option* option_;
};

// To be copied at will: all copies are the same one.
class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& summary);

  Option flag(const std::string& names, bool& value, const std::string& help);
  // Without a value it has this one; another follows "=" alone, so that the next word is none.
  Option flag_or_value(const std::string& name, const std::string& otherwise, std::string& value,
                       const std::string& help);
  // T: std::string, unsigned, std::uint64_t, double, std::optional of int, unsigned or double, or a list,
  // std::vector<std::string>.
  template <typename T>
  Option option(const std::string& names, T& value, const std::string& help);
  // Reads "4096", "4k", "1M", "2GiB".
  Option size(const std::string& names, std::uint64_t& value, const std::string& help);
  void group(const char* title);  // Heads the options that are added from now on, in the help.
  // One of the words, told at once; also behind the name of a command.
  Option choice(const std::string& name, std::vector<std::string> words, std::function<void(const std::string&)> chosen,
                const std::string& help);
  Option version(std::function<std::string()> text);  // Makes the output of --version.
  void footer(const std::string& text);               // The end of the help: examples, exit codes.

  // A flag without which this command asks something else; it stands in the line of usage.
  void question(const char* flag);
  // A flag of which main() has seen to it that it is never read here: with it the command has other options.
  void other_question(const char* flag, const char* summary);

  CommandLine command(const std::string& name, const std::string& summary);  // One of which one must be given.
  // Called once all words are read. Returns the command's exit code.
  void runs(std::function<int()> action);
  // Instead of all that: the words are the action's to read, those that ask for help as well.
  void runs_on_words(std::function<int(const std::vector<std::string>&)> action);

  // From the first word on that is no option, or behind "--": a program and its arguments, which are not read.
  void takes_program(std::vector<std::string>& words);

  std::vector<std::string> given() const;  // The names of the options that were given.
  bool was_given(const std::string& name) const;

  // Reads the words and runs what they ask for, which may be help. Throws Failure for words that make no sense.
  int run(const std::vector<std::string>& words);

 private:
  struct Root;
  CommandLine(std::shared_ptr<Root> root, CLI::App* app) : root_(std::move(root)), app_(app) {}

  std::shared_ptr<Root> root_;
  CLI::App* app_;  // root_'s, or a command of it.
};

}  // namespace penstock::tools
