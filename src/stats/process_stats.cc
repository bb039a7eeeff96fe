// SPDX-License-Identifier: Apache-2.0

#include "stats/process_stats.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/number_text.h"
#include "base/unique_fd.h"
#include "base/unique_folder.h"
#include "stats/look_budget.h"
#include "stats/segment_reader.h"

namespace penstock::core {
namespace {

constexpr const char* kStep = "look at the process";

// The process's PID in its own namespace: the last number of "NSpid:", which has one for every PID namespace around it.
// If the kernel does not show it, the PID that we see.
std::int64_t own_name_of(pid_t pid, int folder) {
  const UniqueFd fd(::openat(folder, "status", O_RDONLY | O_CLOEXEC));
  char text[4096];
  const ssize_t size = fd.valid() ? ::read(fd.get(), text, sizeof text) : 0;
  std::string_view status(text, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  const std::size_t begin = status.find("\nNSpid:");
  if (begin == std::string_view::npos) return pid;
  status = status.substr(begin + 1);
  status = status.substr(0, status.find('\n'));
  return parse_number<std::int64_t>(status.substr(status.find_last_of("\t ") + 1)).value_or(pid);
}

class Look {
 public:
  Look(pid_t pid, int folder, SegmentReader& reader, LookBudget& budget)
      : reader_(reader), budget_(budget), own_name_(own_name_of(pid, folder)) {
    process_.pid = pid;
  }

  Result<ProcessStats> at(DIR* folder) {
    const int fd = ::dirfd(folder);
    errno = 0;
    while (const dirent* entry = ::readdir(folder)) {
      process_.is_cut_short = !budget_.take(&LookLimits::descriptors, 1);
      if (process_.is_cut_short) break;
      const Descriptor descriptor = descriptor_of(fd, entry->d_name);
      if (descriptor == Descriptor::forbidden) return os_failure(EACCES, kStep);
      if (descriptor == Descriptor::segment) take_in(fd, entry->d_name);
      errno = 0;
    }
    if (errno != 0) return os_failure(errno, kStep);
    std::stable_sort(process_.sessions.begin(), process_.sessions.end(),
                     [](const StatsSnapshot& a, const StatsSnapshot& b) { return a.opened_ns < b.opened_ns; });
    return std::move(process_);
  }

 private:
  // A process may have any number of descriptors of one segment.
  void take_in(int folder, const char* name) {
    struct stat facts {};
    if (::fstatat(folder, name, &facts, 0) != 0 || !seen_.emplace(facts.st_dev, facts.st_ino).second) return;
    const Result<SegmentReader::Opened> opened = reader_.open(folder, name, budget_);
    if (!opened.ok()) return leave_out(opened.status());
    // A child that was forked holds its parent's segments too.
    if (opened.value().pid != own_name_) return;
    Result<StatsSnapshot> snapshot = reader_.read(*opened, budget_);
    if (!snapshot.ok()) return leave_out(snapshot.status());
    process_.sessions.push_back(std::move(*snapshot));
  }

  void leave_out(const Status& why) {
    if (why.is_errno(ENOENT)) return;  // The descriptor was closed meanwhile.
    if (why.is(Code::limit)) ++process_.not_read;
    else if (process_.refused++ == 0) process_.refusal = why;
  }

  SegmentReader& reader_;
  LookBudget& budget_;
  const std::int64_t own_name_;
  ProcessStats process_;
  std::set<std::pair<dev_t, ino_t>> seen_;
};

// Reads the statistics of a process, through its folder in /proc.
Result<ProcessStats> look_at(pid_t pid, int folder, SegmentReader& reader, LookBudget budget) {
  UniqueFd fd(::openat(folder, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const UniqueFolder descriptors(fd.valid() ? ::fdopendir(fd.get()) : nullptr);
  if (descriptors == nullptr) return os_failure(errno, kStep);
  (void)fd.release();  // The directory stream owns it from here on.
  return Look(pid, folder, reader, budget).at(descriptors.get());
}

UniqueFd folder_of(int proc, const char* name) {
  return UniqueFd(::openat(proc, name, O_PATH | O_DIRECTORY | O_CLOEXEC));
}

bool has_any(const ProcessStats& process) {
  return !process.sessions.empty() || process.refused > 0 || process.not_read > 0;
}

}  // namespace

Result<ProcessStats> stats_of_process(pid_t pid) {
  SegmentReader reader;
  const UniqueFd folder = folder_of(AT_FDCWD, ("/proc/" + std::to_string(pid)).c_str());
  if (!folder.valid()) return os_failure(errno, kStep);
  return look_at(pid, folder.get(), reader, LookBudget(kProcessLimits));
}

Result<LookResult> look_at_processes(const LookSettings& settings, const VisitProcess& visit) {
  LookResult result;
  SegmentReader reader;
  LookBudget budget(settings.machine);
  const UniqueFolder proc(::opendir(settings.proc.c_str()));
  if (proc == nullptr) return os_failure(errno, "list the processes");
  while (const dirent* entry = ::readdir(proc.get())) {
    const std::optional<pid_t> pid = parse_number<pid_t>(entry->d_name);
    if (!pid) continue;
    if (!budget.take(&LookLimits::processes, 1)) {
      ++result.not_looked_at;
      continue;
    }
    const UniqueFd folder = folder_of(::dirfd(proc.get()), entry->d_name);
    if (!folder.valid()) continue;  // The process is gone.
    const Result<ProcessStats> process = look_at(*pid, folder.get(), reader, LookBudget(settings.process, &budget));
    if (!process.ok()) {
      result.hidden += process.status().is_errno(EACCES) || process.status().is_errno(EPERM) ? 1 : 0;
      continue;
    }
    ++result.looked_at;
    if (has_any(*process)) visit(*process, folder.get());
    else result.not_looked_at += process->is_cut_short ? 1 : 0;
  }
  return result;
}

AllStats stats_of_all_processes() {
  AllStats all;
  const Result<LookResult> result =
      look_at_processes({}, [&](const ProcessStats& process, int) { all.processes.push_back(process); });
  if (result.ok()) {
    all.hidden = result->hidden;
    all.not_looked_at = result->not_looked_at;
  }
  std::sort(all.processes.begin(), all.processes.end(),
            [](const ProcessStats& a, const ProcessStats& b) { return a.pid < b.pid; });
  return all;
}

}  // namespace penstock::core
