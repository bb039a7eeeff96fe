// SPDX-License-Identifier: Apache-2.0

// penstock bench: measures reads or writes of one file through a session.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "tools/bench/compare.h"
#include "tools/bench/report.h"
#include "tools/bench/settings.h"
#include "tools/bench/sweep.h"
#include "tools/bench/versus.h"
#include "tools/common/command_line.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/terminal.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  penstock bench data --rw write --create --size 4G --direct      a file of 4 GiB, from device memory\n"
    "  penstock bench data --bs 1M --depth 16 --direct                 sequential read\n"
    "  penstock bench data --rw randread --bs 4k --depth 64 --time 10  random reads for ten seconds\n"
    "  penstock bench data --rw write --verify --overwrite && penstock bench data --verify\n"
    "  penstock bench data --require p2pdma --json                     fails if any byte took another path\n"
    "  penstock bench model/ --compare direct buffered                 which is faster, and whether that is no chance\n"
    "  penstock bench --compare before.json after.json                 two results of --json, or of run --report\n"
    "  penstock bench data --sweep bs=4k,64k,1M depth=1,16 --html sweep.html\n"
    "  penstock bench --versus /usr/local/cuda/lib64/libcufile.so.0    this library against that one, in turns\n"
    "The library's settings (PENSTOCK_IO_URING=off, PENSTOCK_BOUNCE_MIB=512, ...) apply, and are printed.\n"
    "--versus measures whole reads, latencies and a write, by both libraries in turns. It only reads FILE; if FILE "
    "does not exist it creates one, and removes it again.\n"
    "Exit code: 0 done, 1 failed or --require not met, 2 wrong usage, 77 if there is no such GPU, or no "
    "GPU and --require names a path that only one can prove.";

int judge(const BenchOutcome& outcome) {
  const std::string& required = outcome.settings.require;
  if (required.empty()) return kSuccess;
  const std::uint64_t others = bytes_not_by(outcome.measured.result.tally, *path_by_name(required));
  if (others == 0) return kSuccess;
  print_error("penstock: --require {}: {} travelled by another path\n", required, format_size(others));
  return kFailed;
}

int run_bench(const BenchSettings& settings) {
  check_settings(settings);
  std::optional<TimeLog> log;
  if (!settings.log.empty()) log.emplace(settings.log, settings.overwrite);
  Bench bench(settings, log ? &*log : nullptr);
  BenchOutcome outcome = outcome_of(bench);
  if (!settings.json) print_settings(outcome);
  flush_output();
  outcome.measured = bench.measure();
  if (log) log->publish();
  if (settings.json) print_json(bench_json(outcome));
  else print_result(outcome, bench.usable_paths());
  if (outcome.measured.result.was_interrupted) return kFailed;
  bench.keep_created();
  return judge(outcome);
}

void add_what(CommandLine& command, BenchSettings& settings) {
  command.option("FILE", settings.files,
                 "A regular file or a block device; to read, also several, and folders of files");
  command.option("--rw", settings.operation, "What the requests do")
      .one_of({"read", "write", "randread", "randwrite"})
      .default_shown();
  command.size("--bs", settings.block_size, "Bytes of one request [1M]");
  command.size("--size", settings.size, "Bytes of the file to work on [to its end]");
  command.size("--offset", settings.offset, "Where in the file they begin [0]");
  command.group("How much at a time");
  command.option("--threads", settings.threads, "Threads, each with requests of its own").default_shown();
  command.option("--depth", settings.depth, "Requests that each thread keeps in flight; 1: synchronous calls")
      .default_shown();
  command.option("--seed", settings.seed, "Seed of random offsets and of content").default_shown();
  command.group("How long");
  command
      .option("--time", settings.seconds,
              "How long to run, over and over [until the rate is known within 3 %, but 5 s at most]")
      .value_name("SECONDS");
  command.option("--repeat", settings.repeat, "How often to go over the size, or share --time among so many runs")
      .between(1, 100'000);
  command.option("--ramp", settings.ramp, "How long to run before the clock does; 0: not at all [a short time]")
      .value_name("SECONDS");
}

void add_how(CommandLine& command, BenchSettings& settings) {
  command.group("How bytes move");
  const Option direct = command.flag("--direct", settings.direct, "Open the file with O_DIRECT, and always use it");
  command.flag("--buffered", settings.buffered, "Never use O_DIRECT").excludes(direct);
  command.option("--memory", settings.memory, "Whose memory takes part: a GPU's or the host's")
      .one_of({"device", "host"})
      .default_shown();
  command.option("--gpu", settings.gpu, "The GPU whose memory takes part").default_shown();
  command.option("--device", settings.device, "Which devices take part, as in PENSTOCK_DEVICE [auto]")
      .value_name("KIND");
  command.flag("--register", settings.register_memory, "Register the memory with the session first");
  command.group("How the file is treated");
  command.flag("--create", settings.create, "Create the file if it does not exist; needs --size");
  command.flag("--overwrite", settings.overwrite,
               "Allow writes to a file or device that holds data, and replace those of --log and --html");
  command.flag("--verify", settings.verify, "Write known content and read it back; reads: compare with such content");
  const Option warm = command.flag("--warm", settings.warm, "Read the range into the page cache first");
  command
      .flag("--drop-cache", settings.drop_cache,
            "Ask the kernel to drop the file from the page cache first (it may keep some)")
      .excludes(warm);
  command.group("What is reported");
  command.option("--require", settings.require, "Fail if bytes take any other path").value_name("PATH");
  command.flag("--histogram", settings.histogram, "Show how latencies are spread");
  const Option log = command.option("--log", settings.log, "Write rate and latencies over the time to FILE, as CSV")
                         .value_name("FILE");
  command.option("--interval", settings.interval, "Seconds of each line of --log").needs(log).default_shown();
  const Option json = command.flag("--json", settings.json, "Print JSON");
  command.flag("--csv", settings.csv, "Print the table of --sweep for spreadsheets").excludes(json);
  command.option("--html", settings.html, "Also write a page with plots of --sweep to PAGE; it needs no network")
      .value_name("PAGE");
}

void add_compare(CommandLine& command, BenchSettings& settings) {
  command.group("Comparisons");
  command
      .option(
          "--compare", settings.compare,
          "Two settings in turns, such as direct, bs=4M,depth=4 or PENSTOCK_POLICY=cpu; without FILE, two files that "
          "--json wrote")
      .value_name("SETTING")
      .takes(2);
  command
      .option("--sweep", settings.sweep,
              "Every combination of such settings, NAME=VALUE,VALUE...: bs=4k,64k,1M depth=1,16 threads=1,4")
      .value_name("SETTING");
}

void add_versus(CommandLine& command, BenchSettings& settings) {
  command
      .option("--versus", settings.versus,
              "Compare with another libcufile.so.0; goes with --size, --pairs, --device and --json alone")
      .value_name("LIBRARY");
  command.option("--pairs", settings.pairs, "How many turns each has with --versus [5] or --compare [10]")
      .between(1, 1000);
}

void refuse_others(const CommandLine& command, const char* mode, const std::vector<std::string>& known) {
  for (const std::string& name : command.given()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw Failure(fmt::format("{} does not go with {}", name, mode), kUsage);
  }
}

void refuse_with(const CommandLine& command, const char* mode, const std::vector<std::string>& others) {
  for (const std::string& name : others) {
    if (!command.was_given(mode) || !command.was_given(name)) continue;
    throw Failure(fmt::format("{} does not go with {}", name, mode), kUsage);
  }
}

int run_any(const BenchSettings& settings) {
  if (!settings.versus.empty()) return run_bench_versus(settings);
  if (!settings.sweep.empty()) return run_sweep(settings);
  if (settings.compare.empty()) return run_bench(settings);
  return settings.files.empty() ? compare_results(settings) : compare_settings(settings);
}

// Refuses options that would have no effect.
void check_words(const CommandLine& command, const BenchSettings& settings) {
  const bool versus = command.was_given("--versus");
  if (versus) refuse_others(command, "--versus", {"--versus", "--pairs", "--size", "--device", "--json", "FILE"});
  const bool compare = command.was_given("--compare"), sweep = command.was_given("--sweep");
  if (compare && settings.files.empty()) refuse_others(command, "--compare without FILE", {"--compare", "--json"});
  refuse_with(command, "--compare", {"--sweep", "--repeat", "--create", "--verify", "--log", "--histogram"});
  refuse_with(command, "--sweep", {"--create", "--verify", "--log", "--histogram"});
  if (!compare && !versus && command.was_given("--pairs")) {
    throw Failure("--pairs goes with --versus and --compare", kUsage);
  }
  for (const char* name : {"--csv", "--html"}) {
    if (!sweep && command.was_given(name)) throw Failure(fmt::format("{} goes with --sweep", name), kUsage);
  }
  if (!versus && !compare && settings.files.empty())
    throw Failure("FILE is required; see 'penstock bench --help'", kUsage);
}

}  // namespace

void add_bench(CommandLine& command) {
  auto settings = std::make_shared<BenchSettings>();
  add_what(command, *settings);
  add_how(command, *settings);
  add_compare(command, *settings);
  add_versus(command, *settings);
  command.footer(kExamples);
  command.runs([settings, command] {
    check_words(command, *settings);
    return run_any(*settings);
  });
}

}  // namespace penstock::tools
