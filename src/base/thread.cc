#include "base/thread.h"

#include <csignal>
#include <cstdio>
#include <memory>

namespace penstock::core {
namespace {

struct Start {
  void (*body)(void*);
  void* argument;
};

void* run(void* start) {
  const Start copy = *std::unique_ptr<Start>(static_cast<Start*>(start));
  copy.body(copy.argument);
  return nullptr;
}

}  // namespace

bool start_thread(pthread_t& thread, const char* name, void (*body)(void*), void* argument) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  auto start = std::make_unique<Start>(Start{body, argument});
  const bool started = ::pthread_create(&thread, nullptr, run, start.get()) == 0;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) return false;
  (void)start.release();
  char shortened[16];
  std::snprintf(shortened, sizeof shortened, "%s", name);
  (void)::pthread_setname_np(thread, shortened);
  return true;
}

}  // namespace penstock::core
