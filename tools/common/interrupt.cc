// SPDX-License-Identifier: Apache-2.0

#include "tools/common/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <vector>

#include "tools/common/failure.h"

namespace penstock::tools {
namespace {

// A second signal takes effect only after this time, so that the library can finish its own tidying up.
constexpr timespec kTimeForTheLibrary{0, 200'000'000};
constexpr timespec kTimeToRest{0, 600'000'000};
constexpr timespec kTimeToRemove{0, 100'000'000};
constexpr std::size_t kStackSize = std::size_t{256} << 10;
constexpr int kNudge = SIGURG;  // This signal is ignored by default, and used for nothing else here.

std::atomic<int> caught_signal{0};
std::atomic<void (*)()> tidy_at_the_end{nullptr};

struct UnfinishedFiles {
  std::mutex mutex;
  std::vector<const Unfinished*> all;
};

// Never destroyed: the thread that waits for signals lives until the process ends.
UnfinishedFiles& unfinished_files() {
  static auto* const files = new UnfinishedFiles;
  return *files;
}

// nohup and scripts that start background jobs ignore some of these signals on purpose.
sigset_t signals_to_catch() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    sigaction(signal_number, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&set, signal_number);
  }
  return set;
}

sigset_t only(int signal_number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal_number);
  return set;
}

// To remove the files may hang for the same reason as the interrupted command. A timer then ends the process by the
// signal, which this thread does not block, unless the kernel keeps the threads waiting through kill -9 as well.
[[noreturn]] void end_by(int signal_number) {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = signal_number;
  timer_t timer{};
  const itimerspec once{{}, kTimeToRemove};
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) == 0) timer_settime(timer, 0, &once, nullptr);
  const sigset_t set = only(signal_number);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  if (void (*const tidy)() = tidy_at_the_end) tidy();
  {
    const std::lock_guard lock(unfinished_files().mutex);
    for (const Unfinished* file : unfinished_files().all) file->remove();
  }
  raise(signal_number);
  _exit(128 + signal_number);
}

struct Watch {
  sigset_t signals;
  pthread_t main_thread;
};

// No other thread takes these signals, so this one gets them even while all others are stuck in the kernel.
void* wait_for_signals(void* argument) {
  const Watch& watch = *static_cast<const Watch*>(argument);
  int signal_number = 0;
  while (sigwait(&watch.signals, &signal_number) != 0) {
  }
  caught_signal = signal_number;
  pthread_kill(watch.main_thread, kNudge);  // Makes fallocate(2) and similar calls end early.
  nanosleep(&kTimeForTheLibrary, nullptr);
  sigtimedwait(&watch.signals, nullptr, &kTimeToRest);
  end_by(signal_number);
}

bool start_thread(const Watch& watch) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackSize);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread{};
  const int error = pthread_create(&thread, &attributes, wait_for_signals, const_cast<Watch*>(&watch));
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error == 0;
}

void handle(int signal_number, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal_number, &action, nullptr);
}

}  // namespace

void catch_interrupts() {
  static const Watch watch{signals_to_catch(), pthread_self()};
  handle(
      kNudge, [](int) {}, SA_RESTART);
  if (start_thread(watch)) {
    pthread_sigmask(SIG_BLOCK, &watch.signals, nullptr);
    return;
  }
  // Without a thread, only the flag and the second signal work.
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    if (sigismember(&watch.signals, signal_number) == 0) continue;
    handle(
        signal_number, [](int number) { caught_signal = number; }, SA_RESTART | static_cast<int>(SA_RESETHAND));
  }
}

bool interrupted() { return caught_signal.load(std::memory_order_relaxed) != 0; }

void throw_if_interrupted() {
  if (interrupted()) throw Failure("interrupted");
}

// Only ppoll(2) lets signals in, so that none can come between the check and the wait.
bool wait_for_input(int fd, std::chrono::steady_clock::time_point end) {
  const std::chrono::nanoseconds left = end - std::chrono::steady_clock::now();
  if (left.count() <= 0) return false;
  const timespec limit{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
  pollfd input{fd, POLLIN, 0};
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool is_there = !interrupted() && ppoll(&input, 1, &limit, &before) > 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return is_there;
}

void before_forced_end(void (*tidy)()) { tidy_at_the_end = tidy; }

void die_of_interrupt() {
  const int signal_number = caught_signal.load();
  if (signal_number == 0) return;
  signal(signal_number, SIG_DFL);
  const sigset_t set = only(signal_number);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  raise(signal_number);
}

Unfinished::Unfinished(int folder_fd, std::string name, Kind kind)
    : folder_fd_(folder_fd), name_(std::move(name)), kind_(kind) {
  const std::lock_guard lock(unfinished_files().mutex);
  unfinished_files().all.push_back(this);
}

Unfinished::Unfinished(int folder_fd, std::string name) : Unfinished(folder_fd, std::move(name), Kind::file) {}

Unfinished::Unfinished(std::string path, Kind kind) : Unfinished(AT_FDCWD, std::move(path), kind) {}

Unfinished::~Unfinished() {
  if (is_kept_) return;
  remove();
  keep();
}

void Unfinished::keep() {
  const std::lock_guard lock(unfinished_files().mutex);
  std::erase(unfinished_files().all, this);
  is_kept_ = true;
}

void Unfinished::remove() const {
  std::error_code ignored;
  if (kind_ == Kind::folder) std::filesystem::remove_all(name_, ignored);
  else unlinkat(folder_fd_, name_.c_str(), 0);
}

}  // namespace penstock::tools
