// SPDX-License-Identifier: Apache-2.0

#include "stress/watchdog.h"

#include <dirent.h>
#include <execinfo.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace penstock::stress {
namespace {

char last_note[512];  // For signal handlers.

void say(const char* text) { (void)!::write(STDERR_FILENO, text, std::strlen(text)); }

void on_fatal_signal(int number) {
  say("stress: a signal ended the process: ");
  say(::sigabbrev_np(number));
  say("; ");
  say(last_note);
  say("\n");
  std::signal(number, SIG_DFL);
  (void)std::raise(number);
}

void on_stack_wanted(int) {
  void* frames[40];
  const int count = ::backtrace(frames, 40);
  say("stress: the stack of a thread:\n");
  ::backtrace_symbols_fd(frames, count, STDERR_FILENO);
}

std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  (void)std::getline(file, line);
  return line;
}

void print_threads() {
  DIR* const tasks = ::opendir("/proc/self/task");
  if (tasks == nullptr) return;
  while (const dirent* entry = ::readdir(tasks)) {
    if (entry->d_name[0] == '.') continue;
    const std::string task = std::string("/proc/self/task/") + entry->d_name;
    const std::string line = "stress: thread " + std::string(entry->d_name) + " " + first_line(task + "/comm") +
                             " waits in " + first_line(task + "/wchan") + ", system call " +
                             first_line(task + "/syscall") + "\n";
    say(line.c_str());
    (void)::syscall(SYS_tgkill, ::getpid(), std::atoi(entry->d_name), SIGUSR2);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ::closedir(tasks);
}

}  // namespace

Watchdog::Watchdog(std::string note, unsigned limit_s) : note_(std::move(note)), limit_s_(limit_s) {
  std::snprintf(last_note, sizeof last_note, "%s", note_.c_str());
  std::signal(SIGBUS, on_fatal_signal);
  std::signal(SIGUSR2, on_stack_wanted);
  thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  over_.notify_all();
  thread_.join();
  std::signal(SIGBUS, SIG_DFL);
  std::signal(SIGUSR2, SIG_DFL);
}

void Watchdog::watch() {
  std::array<std::uint64_t, kPlaces> seen{};
  std::array<unsigned, kPlaces> idle_s{};
  std::unique_lock lock(mutex_);
  while (!over_.wait_for(lock, std::chrono::seconds(1), [&] { return is_over_; })) {
    for (unsigned i = 0; i < kPlaces; ++i) {
      const std::uint64_t steps = places_[i].steps.load(std::memory_order_relaxed);
      const bool idle = places_[i].what.load(std::memory_order_relaxed) != nullptr && steps == seen[i];
      idle_s[i] = idle ? idle_s[i] + 1 : 0;
      seen[i] = steps;
      if (idle_s[i] >= limit_s_) give_up(i);
    }
  }
}

void Watchdog::give_up(unsigned place) {
  std::string text = "stress: thread " + std::to_string(place) + " made no progress for " + std::to_string(limit_s_) +
                     " s; " + note_ + "\n";
  for (unsigned i = 0; i < kPlaces; ++i) {
    const char* const what = places_[i].what.load();
    if (what != nullptr) text += "stress: thread " + std::to_string(i) + " was to " + what + "\n";
  }
  say(text.c_str());
  print_threads();
  std::abort();
}

}  // namespace penstock::stress
