// The penstock command: dispatches to one sub-command a file. All output is theirs; main() turns what they throw into
// one sentence on stderr and an exit code: 0 done, 1 failed, 2 wrong usage, 77 not applicable on this machine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "bench.h"
#include "check.h"
#include "context.h"
#include "cp.h"
#include "demo.h"
#include "explain.h"
#include "failure.h"
#include "interrupt.h"

namespace penstock::tools {
namespace {

CLI::App* command_named(CLI::App& app, const std::string& name) {
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

// "help bench" is another way to say "bench --help".
std::vector<std::string> arguments_of(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty() || arguments[0] != "help") return arguments;
  arguments.erase(arguments.begin());
  arguments.resize(std::min<std::size_t>(arguments.size(), 1));
  arguments.push_back("--help");
  return arguments;
}

void add_commands(CLI::App& app, int& exit_code) {
  add_check(app, exit_code);
  add_explain(app, exit_code);
  add_bench(app, exit_code);
  add_cp(app, exit_code);
  add_demo(app, exit_code);
  app.add_subcommand("help", "Tell about the tool or one of its commands")->add_option("COMMAND");
}

void refuse_unknown_command(CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty()) throw Failure("no command was given; 'penstock help' lists them", kUsage);
  const std::string& first = arguments[0];
  if (first.starts_with('-') || command_named(app, first) != nullptr) return;
  throw Failure(fmt::format("there is no command '{}'; 'penstock help' lists them", first), kUsage);
}

// The sentence on stderr; with --json also an object on stdout, for the program that reads it.
int give_up(const std::string& sentence, int exit_code, bool json) {
  fmt::print(stderr, "penstock: {}\n", sentence);
  if (json) print_json({{"error", sentence}, {"exit_code", exit_code}});
  return exit_code;
}

int run(CLI::App& app, std::vector<std::string> arguments, const int& exit_code) {
  const bool json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  try {
    refuse_unknown_command(app, arguments);
    std::reverse(arguments.begin(), arguments.end());  // As CLI11 wants them.
    app.parse(std::move(arguments));
    return exit_code;
  } catch (const CLI::Success& asked_for_help) {
    return app.exit(asked_for_help);
  } catch (const CLI::Error& error) {
    return give_up(fmt::format("{}; see 'penstock help'", error.what()), kUsage, json);
  } catch (const Failure& failure) {
    return give_up(failure.what(), failure.exit_code(), json);
  } catch (const std::exception& error) {
    return give_up(error.what(), kFailed, json);
  }
}

}  // namespace
}  // namespace penstock::tools

int main(int argc, char** argv) {
  using namespace penstock::tools;
  catch_interrupts();
  std::signal(SIGXFSZ, SIG_IGN);  // A file-size limit is an error like others (EFBIG).
  CLI::App app("Moves file data into and out of GPU memory, and says which path it took", "penstock");
  app.set_version_flag("--version", std::string("penstock ") + penstock_version());
  app.require_subcommand(1);
  int exit_code = kSuccess;
  add_commands(app, exit_code);
  int result = run(app, arguments_of(argc, argv), exit_code);
  // A full disk or a closed pipe under stdout: the answer did not arrive.
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && result == kSuccess) {
    std::perror("penstock: could not write the output");
    result = kFailed;
  }
  die_of_interrupt();
  return result;
}
