// SPDX-License-Identifier: Apache-2.0

#include "base/thread.h"

#include <csignal>
#include <cstdio>
#include <memory>
#include <new>

namespace penstock::core {
namespace {

constexpr std::size_t kStackMin = 1u << 20;

struct Start {
  void (*body)(void*);
  void* argument;
  char name[16];
};

// The thread takes its name itself: whoever started it would come late, and may find it gone.
void* run(void* start) {
  const Start copy = *std::unique_ptr<Start>(static_cast<Start*>(start));
  (void)::pthread_setname_np(::pthread_self(), copy.name);
  copy.body(copy.argument);
  return nullptr;
}

// Creates the thread with a stack of at least kStackMin.
bool create(pthread_t& thread, Start& start) {
  pthread_attr_t attributes;
  if (::pthread_getattr_default_np(&attributes) != 0) return false;
  std::size_t stack = 0;
  (void)::pthread_attr_getstacksize(&attributes, &stack);
  if (stack < kStackMin) (void)::pthread_attr_setstacksize(&attributes, kStackMin);
  const bool created = ::pthread_create(&thread, &attributes, run, &start) == 0;
  (void)::pthread_attr_destroy(&attributes);
  return created;
}

}  // namespace

bool start_thread(pthread_t& thread, const char* name, void (*body)(void*), void* argument) {
  std::unique_ptr<Start> start(new (std::nothrow) Start{body, argument, {}});
  if (start == nullptr) return false;
  std::snprintf(start->name, sizeof start->name, "%s", name);
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool started = create(thread, *start);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (started) (void)start.release();
  return started;
}

void run_apart(const char* name, void (*body)(void*), void* argument) {
  pthread_t thread;
  if (start_thread(thread, name, body, argument)) ::pthread_join(thread, nullptr);
  else body(argument);
}

}  // namespace penstock::core
