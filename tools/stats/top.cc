// SPDX-License-Identifier: Apache-2.0

// `penstock stats --live` shows how fast processes with a session move bytes, by path, and goes on until Ctrl-C.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>
#include <memory>
#include <string>

#include "tools/common/command_line.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/interrupt.h"
#include "tools/common/machine_root.h"
#include "tools/common/stats_source.h"
#include "tools/common/terminal.h"
#include "tools/common/variable.h"
#include "tools/stats/page.h"
#include "tools/stats/rates.h"

namespace penstock::tools {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  penstock stats --live                  until q or Ctrl-C\n"
    "  sudo penstock stats --live             processes of other users, too\n"
    "  penstock stats --live --once > now     what was moved within a second\n"
    "  penstock stats --live --json           the same for a program\n"
    "The reason is the one that keeps most of a process's bytes from a better path; 'penstock help REASON' explains "
    "it.\n"
    "Exit code: 0 done, 1 failed, 2 wrong usage.";

constexpr double kIntervalMin = 0.01;
constexpr double kIntervalMax = 86400;
constexpr std::chrono::milliseconds kFirst{250};  // Short, because nobody should wait long for the first rates.
// The rest between looks lasts this many times a look's CPU time, so that looking takes a hundredth of a CPU.
constexpr int kRest = 100;

struct TopSettings {
  double interval = 1;
  bool once = false;
  bool json = false;
};

using Clock = std::chrono::steady_clock;

class Looker {
 public:
  explicit Looker(double interval)
      : interval_(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(interval))) {}

  TopView look() {
    const std::clock_t began = std::clock();
    const Clock::time_point now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    TopView view{rates_.add(look_at_all(), seconds), drive_rates_.add(read_drives(root_), seconds)};
    const std::chrono::duration<double> used(static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC);
    rest_ = std::max(interval_, std::chrono::duration_cast<Clock::duration>(kRest * used));
    last_ = now;
    return view;
  }
  Clock::time_point next() const { return last_ + rest_; }
  Clock::time_point last() const { return last_; }
  Clock::duration interval() const { return interval_; }

 private:
  const core::Root root_ = open_machine_root("");
  Rates rates_;
  DriveRates drive_rates_;
  const Clock::duration interval_;
  Clock::duration rest_{};
  Clock::time_point last_{};
};

bool terminal_has_blocks() {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string locale = variable(name);
    if (locale.empty()) continue;
    return locale.find("UTF-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

// Prints once, after one interval, with as many lines as it takes.
void show_once(Looker& looker, bool json) {
  looker.look();
  const Clock::time_point end = looker.last() + looker.interval();
  while (Clock::now() < end) {
    throw_if_interrupted();
    wait_for_input(-1, end);
  }
  const TopView view = looker.look();
  if (json) return print_json(top_json(view));
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  const Screen::Size size{output_is_terminal() ? output_columns() : kAll, kAll};  // A pipe has no edge to cut at.
  for (const Text& line : top_page(view, size, output_is_terminal() && terminal_has_blocks())) print("{}\n", line);
}

void watch(Looker& looker) {
  const bool has_blocks = terminal_has_blocks();
  Screen screen;
  TopView view = looker.look();
  Clock::time_point next = looker.last() + std::min<Clock::duration>(kFirst, looker.interval());
  while (!interrupted() && screen.show(top_page(view, screen.size(), has_blocks))) {
    const char key = screen.key_until(next);
    if (key == 'q' || key == 'Q') return;
    if (Clock::now() < next) continue;
    view = looker.look();
    next = looker.next();
  }
}

int run_top(const TopSettings& settings) {
  if (!(settings.interval >= kIntervalMin && settings.interval <= kIntervalMax)) {
    throw Failure(fmt::format("--interval {}: expected 0.01 to 86400 seconds", settings.interval), kUsage);
  }
  Looker looker(settings.interval);
  if (settings.once || settings.json || !Screen::is_possible()) show_once(looker, settings.json);
  else watch(looker);
  return kSuccess;
}

}  // namespace

void add_top(CommandLine& command) {
  auto settings = std::make_shared<TopSettings>();
  command.option("--interval", settings->interval, "Time from one look to the next")
      .value_name("SECONDS")
      .default_shown();
  command.flag("--once", settings->once, "Print once, after one interval [where the output is no terminal]");
  command.flag("--json", settings->json, "Print JSON, once");
  command.footer(kExamples);
  command.runs([settings] { return run_top(*settings); });
}

}  // namespace penstock::tools
