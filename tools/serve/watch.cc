// SPDX-License-Identifier: Apache-2.0

#include "tools/serve/watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <exception>
#include <utility>

#include "base/new_file.h"
#include "base/unique_fd.h"
#include "stats/look_budget.h"
#include "tools/common/failure.h"
#include "tools/common/rights.h"
#include "tools/common/terminal.h"
#include "tools/serve/feature_file.h"

namespace penstock::tools {
namespace {

using std::chrono::system_clock;

// Reading the facts takes tens of milliseconds, and they rarely change.
constexpr std::chrono::minutes kFactsInterval{1};
// Features expire after this time, or after four looks if that is longer.
constexpr std::chrono::minutes kExpiry{5};
constexpr std::chrono::minutes kPatience{2};  // The time that a look may take, or four intervals if that is longer.

// Limits for a process that looks again and again, on a node where any user may run anything. One of Penstock's
// segments has 0.8 MiB.
constexpr core::LookLimits kProcessLimits{.processes = 1,
                                          .descriptors = 1 << 16,
                                          .segments = 16,
                                          .read_bytes = 32 << 20,
                                          .kept_bytes = 2 << 20,
                                          .time = std::chrono::milliseconds(500)};
constexpr core::LookLimits kMachineLimits{.processes = 1 << 16,
                                          .descriptors = 1 << 21,
                                          .segments = 1 << 12,
                                          .read_bytes = std::uint64_t{1} << 30,
                                          .kept_bytes = std::uint64_t{1} << 40,  // Nothing is kept.
                                          .time = std::chrono::milliseconds(5'000)};

std::uint64_t real_time_ns() {
  const auto since = system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

void check_folder(const char* option, const std::string& folder) {
  struct stat facts {};
  if (folder.empty() || (::stat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode))) return;
  throw Failure(
      fmt::format("{} {}: there is no such folder; make it, or mount it into the container", option, printable(folder)),
      kUsage);
}

// The text of a process's cgroup file, by its folder in /proc.
std::string cgroups_of(int folder) {
  const core::UniqueFd fd(::openat(folder, "cgroup", O_RDONLY | O_CLOEXEC));
  char text[16 << 10];
  const ssize_t size = fd.valid() ? ::read(fd.get(), text, sizeof text) : 0;
  return std::string(text, size > 0 ? static_cast<std::size_t>(size) : 0);
}

}  // namespace

Watch::Watch(WatchSettings settings)
    : settings_(std::move(settings)), facts_(read_facts(settings_.host)), facts_read_(Clock::now()),
      totals_(settings_.counts_whole_sessions ? 0 : real_time_ns()) {
  check_folder("--textfile", settings_.textfile);
  check_folder("--nfd", settings_.nfd);
}

void Watch::start() {
  last_end_ = Clock::now();
  has_stopped_ = false;
  thread_ = std::thread([this] { run(); });
}

Pages Watch::look_once() {
  look();
  return *pages();
}

bool Watch::stop_within(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  shall_stop_ = true;
  changed_.notify_all();
  if (!changed_.wait_for(lock, time, [&] { return has_stopped_; })) return false;
  lock.unlock();
  if (thread_.joinable()) thread_.join();
  return true;
}

std::optional<Pages> Watch::pages() const {
  const std::lock_guard lock(mutex_);
  return pages_;
}

bool Watch::is_looking() const {
  const std::lock_guard lock(mutex_);
  return Clock::now() - last_end_ < std::max<Clock::duration>(kPatience, 4 * settings_.interval);
}

void Watch::run() {
  std::unique_lock lock(mutex_);
  for (Clock::time_point next = Clock::now(); !shall_stop_; next = std::max(next + settings_.interval, Clock::now())) {
    if (changed_.wait_until(lock, next, [&] { return shall_stop_; })) break;
    lock.unlock();
    try {
      look();
    } catch (const std::exception& error) {
      print_error("penstock serve: a look failed: {}\n", error.what());
    }
    lock.lock();
  }
  has_stopped_ = true;
  changed_.notify_all();
}

void Watch::refresh_facts(Clock::time_point now) {
  if (looks_ == 0 || now - facts_read_ < kFactsInterval) return;
  facts_read_ = now;
  try {
    facts_ = read_facts(settings_.host);
    last_complaint_.clear();
  } catch (const Failure& failure) {
    if (std::exchange(last_complaint_, failure.what()) != failure.what())
      print_error("penstock serve: {}\n", failure.what());
  }
}

core::LookResult Watch::count_processes(unsigned& segments_refused) {
  const auto count = [&](const core::ProcessStats& process, int folder) {
    segments_refused += process.refused + process.not_read;
    if (process.sessions.empty()) return;
    const ContainerName name = container_of(cgroups_of(folder));
    for (const core::StatsSnapshot& session : process.sessions) totals_.add(name, session);
  };
  const std::string proc = settings_.host + "/proc";
  const auto result = core::look_at_processes({proc, kProcessLimits, kMachineLimits}, count);
  return result.ok() ? *result : core::LookResult{};
}

void Watch::look() {
  const Clock::time_point begin = Clock::now();
  refresh_facts(begin);
  totals_.begin_look(begin.time_since_epoch());
  NodeView view{facts_, totals_};
  view.processes = count_processes(view.segments_refused);
  view.looks = ++looks_;
  view.look_timestamp = static_cast<double>(real_time_ns()) / 1e9;
  view.look_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  view.textfile_errors = textfile_errors_;
  view.feature_file_errors = feature_file_errors_;
  const Pages pages{std::make_shared<const std::string>(metrics_text(view, MetricFormat::openmetrics)),
                    std::make_shared<const std::string>(metrics_text(view, MetricFormat::prometheus))};
  {
    const std::lock_guard lock(mutex_);
    pages_ = pages;
    last_end_ = Clock::now();
  }
  report_what_is_hidden(view.processes);
  write_files(pages);
}

void Watch::write_files(const Pages& pages) {
  if (!settings_.textfile.empty()) {
    write(settings_.textfile + "/penstock.prom", *pages.prometheus, textfile_errors_);
  }
  if (settings_.nfd.empty()) return;
  const auto lasts = std::max<std::chrono::milliseconds>(kExpiry, 4 * settings_.interval);
  write(settings_.nfd + "/penstock", feature_file_text(facts_, system_clock::now() + lasts), feature_file_errors_);
}

// Told once, until it works again.
void Watch::write(const std::string& path, const std::string& text, std::uint64_t& errors) {
  const core::Status status = core::publish_file(path, text);
  if (status.ok()) return;
  if (errors++ == 0)
    print_error("penstock serve: {}: {}; it is tried again at each look\n", path, core::describe(status));
}

void Watch::report_what_is_hidden(const core::LookResult& processes) {
  if (processes.hidden == 0 || std::exchange(has_reported_hidden_, true)) return;
  print_error("penstock serve: {}; what they move is not counted, of {} processes in all\n",
              hidden_text(processes.hidden, own_rights()), processes.hidden + processes.looked_at);
}

}  // namespace penstock::tools
