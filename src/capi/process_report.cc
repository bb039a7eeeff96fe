// SPDX-License-Identifier: Apache-2.0

#include "capi/process_report.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>

#include "base/log.h"
#include "base/new_file.h"
#include "base/process.h"
#include "base/shortage.h"

namespace penstock::core {
namespace {

constexpr std::string_view kStderr = "stderr";
constexpr std::string_view kJson = ".json";

std::uint64_t now() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

// Replaces each %p by the process's PID, and makes the path absolute from the current directory.
std::string whole_name(const std::string& target) {
  if (target == kStderr) return "";
  std::string name = target;
  const std::string number = std::to_string(::getpid());
  for (std::size_t at = name.find("%p"); at != std::string::npos; at = name.find("%p", at)) name.replace(at, 2, number);
  return absolute_path(name);
}

// The path of the library that contains this function, as the loader found it.
std::string own_library() {
  Dl_info facts{};
  const bool found = ::dladdr(reinterpret_cast<const void*>(&own_library), &facts) != 0 && facts.dli_fname != nullptr;
  return found ? facts.dli_fname : "";
}

// Blocks SIGPIPE, which would end the program when the reader of the pipe is gone.
class HeldPipeSignal {
 public:
  HeldPipeSignal() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    (void)::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~HeldPipeSignal() {
    constexpr timespec kNow{};
    if (!was_pending_) (void)::sigtimedwait(&pipe_, nullptr, &kNow);
    (void)::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  HeldPipeSignal(const HeldPipeSignal&) = delete;
  HeldPipeSignal& operator=(const HeldPipeSignal&) = delete;

 private:
  sigset_t pipe_, before_;
  bool was_pending_ = false;
};

void write_to_stderr(std::string_view text) {
  const HeldPipeSignal held;
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// One report for each target. A forked child starts with an empty table: a thread of the parent may hold the mutex.
struct Reports {
  const std::uint32_t forks = fork_count();
  Mutex mutex;
  std::map<std::string, std::unique_ptr<ProcessReport>> by_target GUARDED_BY(mutex);
};

std::atomic<Reports*> all_reports{nullptr};

void write_at_exit() {
  Reports* const reports = all_reports.load(std::memory_order_acquire);
  if (reports == nullptr || reports->forks != fork_count()) return;
  const MutexLock lock(reports->mutex);
  for (const auto& [target, report] : reports->by_target) report->write_if_open();
}

// Never destroyed: sessions may close while static objects are destroyed.
Reports& reports() {
  Reports* known = all_reports.load(std::memory_order_acquire);
  if (known != nullptr && known->forks == fork_count()) return *known;
  auto* const fresh = new Reports;
  if (!all_reports.compare_exchange_strong(known, fresh)) {
    delete fresh;  // Another thread created the table first.
    return *known;
  }
  // A forked child inherits its parent's atexit handler.
  if (known == nullptr) (void)std::atexit(write_at_exit);
  return *fresh;
}

}  // namespace

ProcessReport* ProcessReport::to(const std::string& target) {
  if (target.empty()) return nullptr;
  Reports& all = reports();
  const MutexLock lock(all.mutex);
  std::unique_ptr<ProcessReport>& report = all.by_target[target];
  if (report == nullptr) report = std::make_unique<ProcessReport>(target);
  return report.get();
}

ProcessReport::ProcessReport(const std::string& target)
    : pid_(::getpid()), file_(whole_name(target)), opened_ns_(now()) {
  struct stat facts {};
  if (::fstat(STDERR_FILENO, &facts) != 0) return;
  stderr_device_ = facts.st_dev;
  stderr_inode_ = facts.st_ino;
}

void ProcessReport::session_opened(const Counters& counters, const std::string& placement) {
  const MutexLock lock(mutex_);
  placement_ = placement;
  open_.insert(&counters);  // Behind all else that needs memory: a session that could not be opened is not in it.
  ++sessions_;
}

void ProcessReport::session_closed(const Counters& counters) {
  const MutexLock lock(mutex_);
  open_.erase(&counters);
  const auto add = [&] {
    mutex_.assume_held();
    add_bytes(closed_, counters);
  };
  unless_short_of_memory(add, [] {});
  if (open_.empty()) write_locked();
}

void ProcessReport::write_if_open() {
  const MutexLock lock(mutex_);
  if (!open_.empty()) write_locked();
}

UsageReport ProcessReport::report_locked() const {
  UsageReport report = closed_;
  report.pid = pid_;
  report.program = program_invocation_short_name;
  report.library = own_library();
  report.nanoseconds = now() - opened_ns_;
  report.busy_ns = usage_.busy().total();
  report.sessions = sessions_;
  report.sessions_open = static_cast<unsigned>(open_.size());
  report.placement = placement_;
  for (const Counters* counters : open_) add_bytes(report, *counters);
  report.files = usage_.files();
  report.others = usage_.others();
  report.others_opened = usage_.others_opened();
  return report;
}

void ProcessReport::write_locked() {
  if (::getpid() != pid_) return;  // A child made by a raw clone(2), which runs no fork handlers.
  const auto write = [&] {
    mutex_.assume_held();
    const UsageReport report = report_locked();
    if (file_.empty()) {
      struct stat facts {};
      const bool is_same =
          ::fstat(STDERR_FILENO, &facts) == 0 && facts.st_dev == stderr_device_ && facts.st_ino == stderr_inode_;
      if (is_same) write_to_stderr(report_text(report));
      return;
    }
    const Status status =
        publish_private_file(file_, file_.ends_with(kJson) ? report_json(report) : report_text(report));
    if (!status.ok()) log(LogLevel::error, "the report could not be written to " + file_ + ": " + describe(status));
  };
  unless_short_of_memory(write, [] {});
}

}  // namespace penstock::core
