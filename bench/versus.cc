// SPDX-License-Identifier: Apache-2.0

// Penstock's libcufile.so.0 against another one, every line of the table in docs/internals/performance.md, in one run.
//
// Each side is a separate process that gets its tasks in turns; see versus/contest.h. Needs a GPU, and for NVIDIA's
// library a udev record of the disk (docs/internals/performance.md). With --stand-in, host memory stands in for the
// GPU, and both libraries must be Penstock's: that only checks that everything runs, and measures nothing.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <fstream>

#include "base/printable.h"
#include "bench/versus/comparison.h"
#include "bench/versus/failure.h"

namespace {

using namespace penstock::versus;

volatile std::sig_atomic_t interrupted = 0;

constexpr const char* kLines =
    "Lines: a first read, b the same against the link, c its CPU under policy cpu, d read of a registered file, e "
    "latencies,\n"
    "f batches, g small reads of eight threads, h writes, i O_DIRECT read of a cold file, j one process a GPU,\n"
    "k larger reads of several threads, l reads on streams, m opening, n paged blocks, o one process with all GPUs,\n"
    "p first read by calls of some mebibytes, q reads that are bounced.\n"
    "Exit code: 0 all measured, 1 a line could not be, 2 wrong usage, 77 there is no GPU, or NVIDIA's library refuses.";

struct Options {
  Comparison comparison;
  std::string ours;
  std::string json;
  std::uint64_t size_mib = 4096;
  std::uint64_t rank_size_mib = 1536;
};

void add_options(CLI::App& app, Options& options) {
  Comparison& comparison = options.comparison;
  Effort& effort = comparison.effort;
  app.add_option("FILE", comparison.file, "Made where there is none, and then taken away again")->required();
  app.add_option("OURS", options.ours, "Penstock's libcufile.so.0")->required();
  app.add_option("RIVAL", comparison.rival, "The other libcufile.so.0")->required();
  app.add_option("--only", comparison.only, "Lines to measure, such as a,b,e [all]");
  app.add_option("--pairs", comparison.pairs, "Turns of each entry that count")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--size", options.size_mib, "Of FILE, MiB")->check(CLI::Range(2, 1 << 20))->capture_default_str();
  app.add_option("--ranks", effort.ranks, "Line j with so many processes, a GPU each [no line j]")
      ->check(CLI::Range(2, 64));
  app.add_option("--rank-size", options.rank_size_mib, "Of each rank's file, MiB")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  app.add_option("--seconds", effort.seconds, "Of one turn of lines f and g")
      ->check(CLI::Range(0.001, 60.0))
      ->capture_default_str();
  app.add_option("--times", effort.times, "Requests of one turn of line e")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  app.add_option("--json", options.json, "All samples, into this file");
  app.add_flag("--stand-in", comparison.stand_in, "Host memory plays the GPU; nothing is judged");
  app.footer(kLines);
}

int run(Options& options) {
  Comparison& comparison = options.comparison;
  comparison.effort.size = options.size_mib << 20;
  comparison.effort.rank_size = options.rank_size_mib << 20;
  comparison.ours = [path = options.ours] { return load_calls(path); };
  comparison.judge = !comparison.stand_in;
  comparison.interrupted = [] { return interrupted != 0; };
  const nlohmann::ordered_json report = compare(comparison, true);
  if (!options.json.empty() && !(std::ofstream(options.json) << report.dump(1) << '\n')) {
    throw Failure(options.json + ": could not write it");
  }
  return exit_code_of(report);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Penstock against another cuFile library, all lines of docs/internals/performance.md", "versus");
  Options options;
  add_options(app, options);
  for (int i = 0; i < argc; ++i) options.comparison.command += (i > 0 ? " " : "") + std::string(argv[i]);
  // Ctrl-C ends the sides; this process then gives up and removes its files.
  std::signal(SIGINT, [](int) { interrupted = 1; });
  try {
    app.parse(argc, argv);
    return run(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const Failure& failure) {
    std::fprintf(stderr, "versus: %s\n", penstock::core::printable(failure.what()).c_str());
    return failure.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "versus: %s\n", penstock::core::printable(error.what()).c_str());
    return kFailed;
  }
}
