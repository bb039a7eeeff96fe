// SPDX-License-Identifier: Apache-2.0

// The penstock command: dispatches to one sub-command a file. All output is theirs; main() turns what they throw into
// one sentence on stderr and an exit code: 0 done, 1 failed, 2 wrong usage, 77 not applicable on this machine.
//
// The same program answers to the names of NVIDIA's tools, by links beside it (gdsio) or as a sub-command (penstock
// gdsio): these faces read their own arguments.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "tools/bench/bench.h"
#include "tools/check/check.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/help.h"
#include "tools/common/interrupt.h"
#include "tools/common/stack_room.h"
#include "tools/common/terminal.h"
#include "tools/cp/cp.h"
#include "tools/demo/demo.h"
#include "tools/explain/explain.h"
#include "tools/gds_stats/gds_stats.h"
#include "tools/gdscheck/gdscheck.h"
#include "tools/gdscheck/install_check.h"
#include "tools/gdsio/gdsio.h"
#include "tools/gdsio/verify.h"
#include "tools/model/model.h"
#include "tools/prepare/prepare.h"
#include "tools/stats/stats.h"

namespace penstock::tools {
namespace {

struct Face {
  std::string_view name;
  int (*run)(int argc, char** argv);
  const char* summary;
};
constexpr Face kFaces[] = {
    {"gds_install_check", gds_install_check_main, "Whether the pieces of GPUDirect Storage are installed"},
    {"gds_stats", gds_stats_main, "What NVIDIA's gds_stats tells of a running process"},
    {"gdscheck", gdscheck_main, "What NVIDIA's gdscheck tells, of this library"},
    {"gdscheck.py", gdscheck_main, ""},
    {"gdsio", gdsio_main, "Measure with the flags and the result line of NVIDIA's gdsio"},
    {"gdsio_verify", gdsio_verify_main, "Read a file two ways and compare, as NVIDIA's gdsio_verify does"},
};

const Face* face_named(std::string_view path) {
  const std::string_view name = path.substr(path.find_last_of('/') + 1);
  const auto* found =
      std::find_if(std::begin(kFaces), std::end(kFaces), [&](const Face& face) { return face.name == name; });
  return found == std::end(kFaces) ? nullptr : found;
}

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
  add_stats(app, exit_code);
  add_model(app, exit_code);
  add_prepare(app, exit_code);
  for (const Face& face : kFaces) {
    if (*face.summary != '\0') app.add_subcommand(std::string(face.name), face.summary);
  }
  app.add_subcommand("help", "Tell about the tool or one of its commands")->add_option("COMMAND");
}

void refuse_unknown_command(CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty()) throw Failure("no command was given; 'penstock help' lists them", kUsage);
  const std::string& first = arguments[0];
  if (first.starts_with('-') || command_named(app, first) != nullptr) return;
  throw Failure(fmt::format("there is no command '{}'; 'penstock help' lists them", first), kUsage);
}

int run_penstock(const std::vector<std::string>& given) {
  CLI::App app("Moves file data into and out of GPU memory, and says which path it took", "penstock");
  app.set_version_flag("--version", std::string("penstock ") + penstock_version());
  app.require_subcommand(1);
  int exit_code = kSuccess;
  add_commands(app, exit_code);
  refuse_unknown_command(app, given);
  try {
    app.parse(std::vector<std::string>(given.rbegin(), given.rend()));  // As CLI11 wants them.
  } catch (const CLI::Success& asked_for_help) {
    return print_help(app, asked_for_help);
  } catch (const CLI::Error& error) {
    throw Failure(fmt::format("{}; see 'penstock help'", error.what()), kUsage);
  }
  return exit_code;
}

// The sentence on stderr; with --json also an object on stdout, for the program that reads it.
int give_up(std::string_view name, const std::string& sentence, int exit_code, bool json) {
  print_error("{}: {}\n", name, sentence);
  if (json) print_json({{"error", sentence}, {"exit_code", exit_code}});
  return exit_code;
}

int run(std::string_view name, const std::vector<std::string>& arguments, const std::function<int()>& command) {
  const bool json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
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

int run_face(const Face& face, std::vector<std::string> arguments) {
  std::string name(face.name);
  std::vector<char*> argv = {name.data()};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return run(face.name, arguments, [&] { return face.run(static_cast<int>(argv.size()) - 1, argv.data()); });
}

int run_by_name(int argc, char** argv) {
  std::vector<std::string> arguments = arguments_of(argc, argv);
  const Face* face = face_named(argc > 0 ? argv[0] : "");
  if (face != nullptr) return run_face(*face, {argv + 1, argv + argc});
  face = arguments.empty() ? nullptr : face_named(arguments[0]);
  if (face != nullptr) return run_face(*face, {arguments.begin() + 1, arguments.end()});
  return run("penstock", arguments, [&] { return run_penstock(arguments); });
}

}  // namespace
}  // namespace penstock::tools

int main(int argc, char** argv) {
  using namespace penstock::tools;
  catch_interrupts();
  std::signal(SIGXFSZ, SIG_IGN);  // A file-size limit is an error like others (EFBIG).
  int result = run_by_name(argc, argv);
  // A full disk or a closed pipe under stdout: the answer did not arrive.
  if (!flush_output() && result == kSuccess) {
    print_error("penstock: could not write the output: {}\n", std::strerror(errno));
    result = kFailed;
  }
  die_of_interrupt();
  return result;
}
