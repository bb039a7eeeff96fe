// SPDX-License-Identifier: Apache-2.0

#include "base/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <utility>

#include "base/new_file.h"
#include "base/unique_fd.h"

namespace penstock::core {
namespace {

constexpr std::string_view kNames[] = {"NOTICE", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"};
// The form of a line's beginning, behind a blank; each 0 stands for a digit.
constexpr std::string_view kLineStart = "00-00-0000 00:00:00:000 [pid=";
constexpr std::size_t kTextMax = 2000;  // Bytes; together with the beginning a line is shorter than PIPE_BUF.

// Targets are kept for ever, since another thread may be writing to one.
struct Kept {
  LogTarget target;
  const Kept* earlier = nullptr;
};
std::atomic<const Kept*> current{nullptr};

std::string line_of(LogLevel level, std::string_view text, std::string_view file, int line) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  ::localtime_r(&now.tv_sec, &parts);
  char date[32];
  (void)std::strftime(date, sizeof date, "%d-%m-%Y %H:%M:%S", &parts);
  const std::string_view name = file.substr(file.rfind('/') + 1);
  char start[200];
  const int length = std::snprintf(
      start, sizeof start, " %s:%03ld [pid=%d tid=%d] %s  %.*s:%d ", date, now.tv_nsec / 1'000'000, ::getpid(),
      ::gettid(), kNames[static_cast<unsigned>(level)].data(), static_cast<int>(name.size()), name.data(), line);
  std::string whole(
      start, static_cast<std::size_t>(length) < sizeof start ? static_cast<std::size_t>(length) : sizeof start - 1);
  for (const char letter : text.substr(0, kTextMax)) {
    whole.push_back(static_cast<unsigned char>(letter) < ' ' || letter == '\x7f' ? '?' : letter);
  }
  return whole + "\n";
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

bool begins_as_a_log(int fd) {
  char start[kLineStart.size() + 1];
  const ssize_t size = ::pread(fd, start, sizeof start, 0);
  if (size == 0) return true;
  if (size < static_cast<ssize_t>(sizeof start) || start[0] != ' ') return false;
  const auto fits = [](char wanted, char letter) { return wanted == '0' ? is_digit(letter) : letter == wanted; };
  return std::equal(kLineStart.begin(), kLineStart.end(), start + 1, fits);
}

// Follows no link and opens no pipe or device: the path may be in a folder that others can write to.
UniqueFd open_log(const char* path, int flags, struct stat& facts) {
  UniqueFd fd(::open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600));
  const bool is_file = fd.valid() && ::fstat(fd.get(), &facts) == 0 && S_ISREG(facts.st_mode);
  return is_file ? std::move(fd) : UniqueFd();
}

}  // namespace

std::optional<LogLevel> log_level_named(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] == name) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

void log_to(LogTarget target) {
  target.path = absolute_path(target.path);
  const Kept* earlier = current.load();
  if (earlier != nullptr && earlier->target == target) return;
  auto* const kept = new Kept{std::move(target)};
  do {
    kept->earlier = earlier;
  } while (!current.compare_exchange_weak(earlier, kept));
}

bool is_no_log(const std::string& path) {
  struct stat facts {};
  const UniqueFd fd = open_log(path.c_str(), O_RDONLY, facts);
  return fd.valid() && !begins_as_a_log(fd.get());
}

bool logs(LogLevel level) {
  const Kept* const kept = current.load();
  return kept != nullptr && !kept->target.path.empty() && level <= kept->target.level;
}

void log(LogLevel level, std::string_view text, const char* file, int line) {
  if (!logs(level)) return;
  const LogTarget& target = current.load()->target;
  struct stat facts {};
  const UniqueFd fd = open_log(target.path.c_str(), O_RDWR | O_APPEND | O_CREAT, facts);
  if (!fd.valid() || !begins_as_a_log(fd.get())) return;
  const std::string whole = line_of(level, text, file, line);
  const bool is_full =
      target.bytes_max > 0 && static_cast<std::uint64_t>(facts.st_size) + whole.size() > target.bytes_max;
  if (is_full && ::ftruncate(fd.get(), 0) != 0) return;
  if (!is_within_file_size_limit((is_full ? 0 : static_cast<std::uint64_t>(facts.st_size)) + whole.size())) return;
  (void)!::write(fd.get(), whole.data(), whole.size());
}

}  // namespace penstock::core
