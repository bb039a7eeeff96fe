#include "interrupt.h"

#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "failure.h"

namespace penstock::tools {
namespace {

std::atomic<int> caught_signal{0};
std::atomic<bool> has_leftover{false};
char leftover[PATH_MAX];

static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void on_signal(int signal_number) {
  if (caught_signal.exchange(signal_number) == 0) return;
  if (has_leftover.load()) unlink(leftover);
  _exit(128 + signal_number);
}

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old {};
    sigaction(signal_number, nullptr, &old);
    // nohup and background jobs of a script ignore these on purpose.
    if (old.sa_handler != SIG_IGN) sigaction(signal_number, &action, nullptr);
  }
}

bool interrupted() { return caught_signal.load(std::memory_order_relaxed) != 0; }

void throw_if_interrupted() {
  if (interrupted()) throw Failure("interrupted");
}

void die_of_interrupt() {
  const int signal_number = caught_signal.load();
  if (signal_number == 0) return;
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void remove_on_second_interrupt(const char* path) {
  has_leftover.store(false);
  const std::size_t size = std::strlen(path);
  if (size == 0 || size >= sizeof leftover) return;
  std::memcpy(leftover, path, size + 1);
  has_leftover.store(true);
}

}  // namespace penstock::tools
