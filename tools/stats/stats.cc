// SPDX-License-Identifier: Apache-2.0

// `penstock stats`: shows the bytes that running processes have moved, by which paths and for what reasons.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "tools/common/command_line.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/interrupt.h"
#include "tools/common/machine_use.h"
#include "tools/common/nvidia_fs_page.h"
#include "tools/common/stats_source.h"
#include "tools/common/terminal.h"
#include "tools/stats/odirect.h"
#include "tools/stats/report.h"

namespace penstock::tools {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  penstock stats                        all processes with a session or a libcufile, and their paths\n"
    "  penstock stats 4711                   its bytes and operations by path and reason\n"
    "  penstock stats 4711 --watch           once a second, with rates, until it ends\n"
    "  penstock stats 4711 --odirect         how much of them was direct, and what stands in the way of the rest\n"
    "  penstock stats --prometheus           these processes for a scraper; 'penstock serve' has the node's metrics\n"
    "Exit code: 0 done, 1 there is no such process or this user may not look at it, 2 wrong usage, 77 if the process "
    "has no session open.";

constexpr double kIntervalMin = 0.01;
constexpr double kIntervalMax = 86400;
constexpr std::chrono::milliseconds kSleep{50};  // The longest that Ctrl-C may go unnoticed.

struct StatsSettings {
  std::optional<pid_t> pid;
  bool watch = false;
  double interval = 1;
  bool json = false;
  bool prometheus = false;
  bool odirect = false;
};

using Clock = std::chrono::steady_clock;

// False if it was interrupted.
bool rest_until(Clock::time_point end) {
  while (Clock::now() < end) {
    if (interrupted()) return false;
    std::this_thread::sleep_for(std::min<Clock::duration>(end - Clock::now(), kSleep));
  }
  return !interrupted();
}

// The machine's interrupts from one look to the next, whoever caused them.
struct Interrupts {
  double per_second = 0;
  std::optional<double> per_gigabyte;  // Nothing if no byte moved.
};

// Returns nothing at the first look, and if the kernel does not count them.
std::optional<Interrupts> interrupts_between(std::optional<std::uint64_t> before, std::optional<std::uint64_t> after,
                                             const Moved& moved) {
  if (!before || !after || *after < *before) return std::nullopt;
  const auto [read, written] = sums_of(moved.ways);
  const std::uint64_t count = *after - *before;
  return Interrupts{moved.per_second(count), interrupts_per_gigabyte(count, read.bytes + written.bytes)};
}

std::string interrupts_text(const std::optional<Interrupts>& interrupts) {
  if (!interrupts) return "";
  std::string text = fmt::format("interrupts of the machine: {:.0f}/s", interrupts->per_second);
  if (interrupts->per_gigabyte) text += fmt::format(", {:.0f} per GB", *interrupts->per_gigabyte);
  return text + "\n";
}

void add_interrupts(nlohmann::ordered_json& json, const std::optional<Interrupts>& interrupts) {
  json["interrupts_per_second"] = json["interrupts_per_gb"] = nullptr;
  if (interrupts) json["interrupts_per_second"] = interrupts->per_second;
  if (interrupts && interrupts->per_gigabyte) json["interrupts_per_gb"] = *interrupts->per_gigabyte;
}

// Tells what nvidia-fs counted itself, where it is loaded.
std::string beside_ours() {
  const std::string text = nvidia_fs_text(this_machines_nvidia_fs());
  return text.empty() ? "" : "\n" + text;
}

nlohmann::ordered_json with_nvidia_fs(nlohmann::ordered_json json) {
  json["nvidia_fs"] = nvidia_fs_json(this_machines_nvidia_fs());
  return json;
}

// Prints until the process ends or has no session any more, the user interrupts, or the output is closed.
void watch(pid_t pid, const StatsSettings& settings) {
  const auto pause = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(settings.interval));
  const bool redraw = output_is_terminal() && !settings.json;
  Rates rates;
  bool is_first = true;
  Clock::time_point then{};
  std::optional<std::uint64_t> interrupts_before;
  for (std::optional<ProcessView> process = look_at(pid); process; process = look_again(pid)) {
    const Clock::time_point now = Clock::now();
    const std::optional<std::uint64_t> interrupts_now = machine_interrupts();
    const Moved moved = rates.add({{*process}}, std::chrono::duration<double>(now - then).count()).processes[0].moved;
    const auto interrupts = interrupts_between(std::exchange(interrupts_before, interrupts_now), interrupts_now, moved);
    if (settings.json) {
      nlohmann::ordered_json json = with_nvidia_fs(process_json(*process));
      add_interrupts(json, interrupts);
      print_json(json, -1);
    } else {
      if (redraw) print("\033[H\033[2J");
      print("{}", Text(process_text(*process, is_first ? nullptr : &moved)));
      print("{}", Text(interrupts_text(interrupts) + beside_ours()));
      if (!redraw) print("\n");
    }
    if (!flush_output() || !rest_until(now + pause)) return;
    is_first = false;
    then = now;
  }
}

void show(const ProcessView& process, const StatsSettings& settings) {
  if (settings.json) {
    print_json(with_nvidia_fs(process_json(process)));
  } else if (settings.prometheus) {
    print_document(Text(prometheus_text({process})));
  } else {
    print("{}", Text(process_text(process) + beside_ours()));
  }
}

void show(const MachineView& machine, const StatsSettings& settings) {
  if (settings.json) {
    print_json(with_nvidia_fs(machine_json(machine)));
  } else if (settings.prometheus) {
    print_document(Text(prometheus_text(machine.processes)));
  } else {
    print("{}", Text(machine_text(machine) + beside_ours()));
  }
}

int show_one(pid_t pid, const StatsSettings& settings) {
  try {
    show(look_at(pid), settings);
  } catch (const Failure& failure) {
    // The JSON also says whose library the process has.
    if (failure.exit_code() != kNotApplicable || !settings.json) throw;
    print_json(other_json({pid, command_of(pid), cufile_libraries_of(pid).value_or(std::vector<CuFileLibrary>{})}));
    return kNotApplicable;
  }
  return kSuccess;
}

void check(const StatsSettings& settings) {
  if (settings.pid && *settings.pid <= 0)
    throw Failure(fmt::format("PID {}: expected the number of a process, 1 or above", *settings.pid), kUsage);
  if (settings.json && settings.prometheus) throw Failure("--json and --prometheus exclude each other", kUsage);
  if (settings.watch && settings.prometheus)
    throw Failure("--prometheus prints once; it does not go with --watch", kUsage);
  if (settings.watch && !settings.pid)
    throw Failure("--watch needs the PID of a process; 'penstock stats --live' shows all of them", kUsage);
  if (settings.odirect && !settings.pid) throw Failure("--odirect needs the PID of a process", kUsage);
  if (settings.odirect && (settings.watch || settings.prometheus))
    throw Failure("--odirect looks once; it goes with --json, not with --watch or --prometheus", kUsage);
  if (!(settings.interval >= kIntervalMin && settings.interval <= kIntervalMax)) {
    throw Failure(fmt::format("--interval {}: expected 0.01 to 86400 seconds", settings.interval), kUsage);
  }
}

int run_stats(const StatsSettings& settings) {
  check(settings);
  if (!settings.pid) {
    show(look_at_all(), settings);
  } else if (settings.odirect) {
    const DirectShare job = look_at_job(*settings.pid);
    if (settings.json) print_json(job_json(job));
    else print("{}", Text(job_text(job)));
  } else if (settings.watch) {
    watch(*settings.pid, settings);
  } else {
    return show_one(*settings.pid, settings);
  }
  return kSuccess;
}

}  // namespace

void add_stats(CommandLine& command) {
  auto settings = std::make_shared<StatsSettings>();
  command.option("PID", settings->pid, "One process [all that this user may look at]");
  command.flag("--odirect", settings->odirect,
               "Say what share of the bytes was direct, and what of the open files stands in the way");
  command.flag("--watch", settings->watch, "Print again and again, with rates, until the process ends");
  command.option("--interval", settings->interval, "Time from one look to the next with --watch")
      .value_name("SECONDS")
      .default_shown();
  command.flag("--json", settings->json, "Print JSON; with --watch one line each time");
  command.flag("--prometheus", settings->prometheus,
               "Print the processes in the text format of Prometheus; 'penstock serve --once' has the node's metrics");
  command.footer(kExamples);
  command.runs([settings] { return run_stats(*settings); });
}

}  // namespace penstock::tools
