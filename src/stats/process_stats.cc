#include "stats/process_stats.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "stats/layout.h"

namespace penstock::core {
namespace {

constexpr const char* kStep = "look at the process";
constexpr const char* kReadStep = "read the statistics";
constexpr off_t kSegmentBytesMax = 64 << 20;
constexpr std::size_t kSegmentsMax = 64;  // Of one process: more are somebody's joke.

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool is_segment(int folder, const char* name) {
  char target[64];
  const ssize_t size = ::readlinkat(folder, name, target, sizeof target);
  const std::string wanted = std::string("/memfd:") + kStatsName + " (deleted)";
  return size > 0 && std::string_view(target, static_cast<std::size_t>(size)) == wanted;
}

class Mapping {
 public:
  Mapping(int fd, std::size_t size) : size_(size), data_(::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0)) {}
  ~Mapping() {
    if (ok()) ::munmap(data_, size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  bool ok() const { return data_ != MAP_FAILED; }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  const std::size_t size_;
  void* const data_;
};

// Whatever stands behind the name: a file that only looks like a segment, say a pipe, must neither block us nor end us
// by shrinking under the mapping, from which the seal protects.
Result<StatsSnapshot> read_descriptor(int folder, const char* name) {
  const UniqueFd fd(::openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) return os_failure(errno, kReadStep);
  struct stat facts {};
  if (::fstat(fd.get(), &facts) != 0) return os_failure(errno, kReadStep);
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (!S_ISREG(facts.st_mode) || seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return failure(Code::bad_setting, kReadStep);
  if (facts.st_size <= 0 || facts.st_size > kSegmentBytesMax) return failure(Code::bad_setting, kReadStep);
  const Mapping mapping(fd.get(), static_cast<std::size_t>(facts.st_size));
  if (!mapping.ok()) return os_failure(errno, kReadStep);
  Result<StatsSnapshot> snapshot = read_segment(mapping.bytes());
  if (snapshot.ok()) snapshot->id = facts.st_ino;
  return snapshot;
}

// What the process calls itself: the last number of "NSpid:", which has one for every PID namespace around it. Our own
// name for it where the kernel does not say.
std::int64_t own_name_of(pid_t pid) {
  const UniqueFd fd(::open(("/proc/" + std::to_string(pid) + "/status").c_str(), O_RDONLY | O_CLOEXEC));
  char text[4096];
  const ssize_t size = fd.valid() ? ::read(fd.get(), text, sizeof text) : 0;
  std::string_view status(text, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  const std::size_t begin = status.find("\nNSpid:");
  if (begin == std::string_view::npos) return pid;
  status = status.substr(begin + 1);
  status = status.substr(0, status.find('\n'));
  return number_of<std::int64_t>(status.substr(status.find_last_of("\t ") + 1)).value_or(pid);
}

void take_in(ProcessStats& process, std::int64_t own_name, Result<StatsSnapshot> snapshot) {
  if (!snapshot.ok()) {
    if (snapshot.status().is_errno(ENOENT)) return;  // Closed just now.
    if (process.refused++ == 0) process.refusal = snapshot.status();
    return;
  }
  // A child that was forked holds its parent's segments too.
  if (snapshot->pid != own_name) return;
  const auto same = [&](const StatsSnapshot& known) { return known.id == snapshot->id; };
  if (std::none_of(process.sessions.begin(), process.sessions.end(), same)) {
    process.sessions.push_back(std::move(*snapshot));
  }
}

}  // namespace

Result<ProcessStats> stats_of_process(pid_t pid) {
  const Folder folder(::opendir(("/proc/" + std::to_string(pid) + "/fd").c_str()));
  if (folder == nullptr) return os_failure(errno, kStep);
  ProcessStats process;
  process.pid = pid;
  const std::int64_t own_name = own_name_of(pid);
  const int fd = ::dirfd(folder.get());
  errno = 0;
  while (const dirent* entry = ::readdir(folder.get())) {
    if (is_segment(fd, entry->d_name) && process.sessions.size() + process.refused < kSegmentsMax)
      take_in(process, own_name, read_descriptor(fd, entry->d_name));
    errno = 0;
  }
  if (errno != 0) return os_failure(errno, kStep);
  std::stable_sort(process.sessions.begin(), process.sessions.end(),
                   [](const StatsSnapshot& a, const StatsSnapshot& b) { return a.opened_ns < b.opened_ns; });
  return process;
}

AllStats stats_of_all_processes() {
  AllStats all;
  const Folder folder(::opendir("/proc"));
  while (const dirent* entry = folder != nullptr ? ::readdir(folder.get()) : nullptr) {
    const std::optional<pid_t> pid = number_of<pid_t>(entry->d_name);
    if (!pid) continue;
    Result<ProcessStats> process = stats_of_process(*pid);
    if (!process.ok()) {
      all.hidden += process.status().is_errno(EACCES) || process.status().is_errno(EPERM) ? 1 : 0;
      continue;
    }
    if (!process->sessions.empty() || process->refused > 0) all.processes.push_back(std::move(*process));
  }
  std::sort(all.processes.begin(), all.processes.end(),
            [](const ProcessStats& a, const ProcessStats& b) { return a.pid < b.pid; });
  return all;
}

}  // namespace penstock::core
