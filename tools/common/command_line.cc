// SPDX-License-Identifier: Apache-2.0

#include "tools/common/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <type_traits>
#include <utility>

#include "tools/common/failure.h"
#include "tools/common/nearest.h"
#include "tools/common/terminal.h"
#include "tools/common/units.h"
#include "tools/common/wrapping.h"

namespace penstock::tools {
namespace {

constexpr const char* kHidden = "";  // A group that help does not show.

// The flag with which a command asks another question, as " --suite".
std::string question_of(const CLI::App* app) {
  for (const CLI::Option* option : app->get_options()) {
    if (option->get_required() && option->get_group() == kHidden) return " --" + option->get_lnames().front();
  }
  return "";
}

// Formats the help of an option. Its value stands by a name, not by a type of C++; behind the sentence stand its value
// if it is not given, and the options that it cannot be given with.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    return CLI::Formatter::make_usage(app, name + question_of(app));
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_positional() || option->get_type_size() == 0) return "";
    const bool is_list = option->get_expected_max() == CLI::detail::expected_max_vector_size;
    return " " + option->get_type_name() + (is_list ? " ..." : "");
  }

  // Shows a flag that takes a value only behind "=".
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    const std::string name = CLI::Formatter::make_option_name(option, is_positional);
    const std::size_t brace = name.find('{');
    return brace == std::string::npos ? name : name.substr(0, brace) + "[=FILE]";
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text = option->get_description();
    if (option->get_required() && !option->get_positional()) text += "; required";
    if (!option->get_default_str().empty()) text += " [" + option->get_default_str() + "]";
    std::set<std::string> excluded;  // Sorted here, because CLI11 gives them in no order.
    for (const CLI::Option* other : option->get_excludes()) excluded.insert(other->get_name());
    excluded.erase("");  // An option that the help does not show has no name here.
    if (!excluded.empty()) text += fmt::format("; not with {}", fmt::join(excluded, ", "));
    return text;
  }
};

// Takes out one of the two empty lines that CLI11 puts between groups, and breaks lines for a terminal.
std::string help_text(std::string text) {
  for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
  return output_is_terminal() ? wrapped(text, output_columns()) : text;
}

// The command whose words were wrong, as "penstock bench".
std::string name_of_parsed(const CLI::App* app) {
  std::string name = app->get_name();
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    name += " " + app->get_name();
  }
  return name + question_of(app);
}

const CLI::App* innermost(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

// The options of the command whose words were wrong.
std::vector<std::string> option_names(const CLI::App* app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

// The options that take a file or folder, as ": --dir DIR", or "".
std::string options_of_places(const CLI::App* app) {
  std::string text;
  for (const CLI::Option* option : app->get_options()) {
    const std::string type = option->get_type_name();
    if (option->get_positional() || option->get_group() == kHidden || (type != "DIR" && type != "FILE")) continue;
    text += fmt::format("{} {} {}", text.empty() ? ":" : ",", option->get_name(), type);
  }
  return text;
}

std::vector<std::string> command_names(const CLI::App* app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app->get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

// The first word that no option or command takes. An option goes before a word that may have been its value.
// `elsewhere` names the command that has an option, of those that were told.
std::string unknown_word_text(const CLI::App* app,
                              const std::map<std::pair<const CLI::App*, std::string>, std::string>& elsewhere) {
  const std::vector<std::string> words = app->remaining(true);
  const auto is_option = [](const std::string& word) { return word.size() > 1 && word[0] == '-'; };
  const auto option = std::find_if(words.begin(), words.end(), is_option);
  if (option != words.end()) {
    const std::string name = option->substr(0, option->find('='));
    const auto other = elsewhere.find({innermost(app), name});
    if (other != elsewhere.end()) return fmt::format("there is no option '{}'; '{}' has it", name, other->second);
    return fmt::format("there is no option '{}'{}", name, proposal(name, option_names(innermost(app))));
  }
  const std::string word = words.empty() ? "" : words.front();
  const std::vector<std::string> commands = command_names(innermost(app));
  if (commands.empty())
    return fmt::format("'{}' is not expected here; if it is the value of an option, put it behind that option{}", word,
                       options_of_places(innermost(app)));
  return fmt::format("there is no command '{}'{}", word, proposal(word, commands));
}

template <typename T>
constexpr const char* value_name_of() {
  if constexpr (std::is_same_v<T, double>) return "NUMBER";
  else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::vector<std::string>>) return "TEXT";
  else return "N";
}

}  // namespace

Option Option::required() {
  option_->required();
  return *this;
}

Option Option::default_shown() {
  option_->capture_default_str();
  return *this;
}

Option Option::value_name(const char* name) {
  option_->type_name(name);
  // A script's variable that is not set would else stand for the current folder, or for this machine.
  const auto is_there = [](const std::string& value) { return std::string(value.empty() ? "is empty" : ""); };
  const std::string_view kind = name;
  if (kind == "DIR" || kind == "FILE") option_->check(CLI::Validator(is_there, ""));
  return *this;
}

Option Option::one_of(std::vector<std::string> words) {
  option_->type_name(fmt::format("{}", fmt::join(words, "|")));
  option_->check(CLI::IsMember(std::move(words)).description(""));
  return *this;
}

Option Option::between(int least, int most) {
  option_->type_name(fmt::format("{}..{}", least, most));
  option_->check(CLI::Range(least, most).description(""));
  return *this;
}

Option Option::takes(int count) {
  option_->expected(count);
  return *this;
}

Option Option::excludes(Option other) {
  option_->excludes(other.option_);
  return *this;
}

Option Option::needs(Option other) {
  option_->needs(other.option_);
  return *this;
}

Option Option::hidden() {
  option_->group(kHidden);
  return *this;
}

Option Option::one_value_each() {
  option_->allow_extra_args(false);
  return *this;
}

bool Option::was_given() const { return option_->count() > 0; }

struct CommandLine::Root {
  CLI::App app;
  std::function<int()> chosen;
  std::function<int(const std::vector<std::string>&)> reader;  // Takes all words, if set.
  // The command that has an option, for those of a command that has not.
  std::map<std::pair<const CLI::App*, std::string>, std::string> elsewhere;
};

CommandLine::CommandLine(const std::string& name, const std::string& summary)
    : owned_(std::make_shared<Root>()), root_(owned_.get()) {
  app_ = &root_->app;
  app_->name(name);
  app_->description(summary);
  app_->formatter(std::make_shared<HelpFormatter>());
}

Option CommandLine::flag(const std::string& names, bool& value, const std::string& help) {
  return Option(app_->add_flag(names, value, help));
}

Option CommandLine::flag_or_value(const std::string& name, const std::string& otherwise, std::string& value,
                                  const std::string& help) {
  return Option(app_->add_flag(name + "{" + otherwise + "}", value, help));
}

template <typename T>
Option CommandLine::option(const std::string& names, T& value, const std::string& help) {
  return Option(app_->add_option(names, value, help)->type_name(value_name_of<T>()));
}

template Option CommandLine::option(const std::string&, std::string&, const std::string&);
template Option CommandLine::option(const std::string&, unsigned&, const std::string&);
template Option CommandLine::option(const std::string&, std::uint64_t&, const std::string&);
template Option CommandLine::option(const std::string&, double&, const std::string&);
template Option CommandLine::option(const std::string&, std::optional<int>&, const std::string&);
template Option CommandLine::option(const std::string&, std::optional<unsigned>&, const std::string&);
template Option CommandLine::option(const std::string&, std::optional<double>&, const std::string&);
template Option CommandLine::option(const std::string&, std::vector<std::string>&, const std::string&);

Option CommandLine::size(const std::string& names, std::uint64_t& value, const std::string& help) {
  const auto read = [&value, names](const std::string& text) {
    const auto parsed = parse_size(text);
    if (!parsed) {
      throw CLI::ValidationError(names, fmt::format("'{}' is not a size; write 4096, 4k, 1M or 2GiB", text));
    }
    value = *parsed;
  };
  return Option(app_->add_option_function<std::string>(names, read, help)->type_name("SIZE"));
}

void CommandLine::question(const char* flag) { app_->add_flag(flag)->required()->group(kHidden); }

void CommandLine::other_question(const char* flag, const char* summary) {
  app_->add_flag_callback(
          flag, [] {}, summary)
      ->group("Other questions");
}

void CommandLine::options_elsewhere(const std::string& name, const CommandLine& there) {
  for (const std::string& option : option_names(there.app_)) root_->elsewhere.emplace(std::pair(app_, option), name);
}

void CommandLine::group(const char* title) { app_->option_defaults()->group(title); }

Option CommandLine::choice(const std::string& name, std::vector<std::string> words,
                           std::function<void(const std::string&)> chosen, const std::string& help) {
  return Option(app_->add_option_function<std::string>(name, std::move(chosen), help)).one_of(std::move(words));
}

Option CommandLine::version(std::function<std::string()> text) {
  return Option(
      app_->set_version_flag("--version", std::move(text), "Print the version and how this was built, and exit"));
}

void CommandLine::footer(const std::string& text) { app_->footer(text); }

CommandLine CommandLine::command(const std::string& name, const std::string& summary) {
  app_->require_subcommand(1);
  return {root_, app_->add_subcommand(name, summary)->fallthrough()};
}

void CommandLine::runs(std::function<int()> action) {
  app_->callback([root = root_, action = std::move(action)] { root->chosen = action; });
}

void CommandLine::runs_on_words(std::function<int(const std::vector<std::string>&)> action) {
  root_->reader = std::move(action);
}

void CommandLine::takes_program(std::vector<std::string>& words) {
  app_->positionals_at_end();
  app_->add_option("PROGRAM", words, "A program, and what it is called with")->type_name("WORD");
}

std::vector<std::string> CommandLine::given() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : app_->get_options()) {
    if (option->count() > 0) names.push_back(option->get_name());
  }
  return names;
}

bool CommandLine::was_given(const std::string& name) const { return app_->count(name) > 0; }

bool CommandLine::has(const std::string& name) const { return app_->get_option_no_throw(name) != nullptr; }

int CommandLine::run(const std::vector<std::string>& words) {
  if (root_->reader) return root_->reader(words);
  try {
    app_->parse(std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 wants them in reverse.
  } catch (const CLI::Success& asked_for_help) {
    std::ostringstream text;
    const int exit_code = app_->exit(asked_for_help, text, text);
    print("{}", Text(help_text(text.str())));
    return exit_code;
  } catch (const CLI::Error& error) {
    // A word that nothing takes may be a misspelt command: "model lod".
    const std::string what = app_->remaining(true).empty() ? error.what() : unknown_word_text(app_, root_->elsewhere);
    throw Failure(fmt::format("{}{} '{} --help'", what, what.ends_with('?') ? " See" : "; see", name_of_parsed(app_)),
                  kUsage);
  }
  return root_->chosen();
}

}  // namespace penstock::tools
