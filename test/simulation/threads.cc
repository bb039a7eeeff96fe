// SPDX-License-Identifier: Apache-2.0

// The C library's calls about threads, waiting and time, for the whole program: those of the library under test, of the
// C++ library and of the simulation's own. A mutex is used in its own bytes; what waits for it is known to the
// scheduler.
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <ctime>

#include "simulation/scheduler.h"

namespace {

using namespace penstock::simulation;

constexpr Nanoseconds kSecond = 1'000'000'000;
// The wall clock is so far ahead of the other one. It is set anew now and then, by up to an hour either way.
constexpr Nanoseconds kWallClock = 1'795'000'000 * kSecond, kStepMax = 3600 * kSecond;
Nanoseconds wall_clock = kWallClock;
constexpr Nanoseconds kLookMax = 3000;
constexpr long kProcessors = 4;
constexpr long kMemoryPages = 1 << 20;

bool is_wall_clock(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE; }

Nanoseconds nanoseconds_of(const timespec& time) {
  return static_cast<Nanoseconds>(time.tv_sec) * kSecond + static_cast<Nanoseconds>(time.tv_nsec);
}

timespec timespec_of(Nanoseconds time) {
  return {static_cast<time_t>(time / kSecond), static_cast<long>(time % kSecond)};
}

// A time of the clock as the scheduler counts.
Nanoseconds deadline_of(clockid_t clock, const timespec& time) {
  const Nanoseconds told = nanoseconds_of(time);
  if (!is_wall_clock(clock)) return told;
  return told - std::min(told, wall_clock);
}

int lock(pthread_mutex_t& mutex) {
  auto& data = mutex.__data;
  const int self = static_cast<int>(scheduler().current()) + 1;
  if (data.__kind == PTHREAD_MUTEX_RECURSIVE && data.__owner == self) return ++data.__count, 0;
  while (data.__lock != 0) scheduler().wait(Call::lock, &mutex);
  data.__lock = 1;
  data.__owner = self;
  return 0;
}

int unlock(pthread_mutex_t& mutex) {
  auto& data = mutex.__data;
  if (scheduler().is_on() && data.__owner != static_cast<int>(scheduler().current()) + 1)
    scheduler().fail("a mutex is unlocked by a thread that does not hold it");
  if (data.__kind == PTHREAD_MUTEX_RECURSIVE && data.__count > 0) return --data.__count, 0;
  data.__lock = 0;
  data.__owner = 0;
  scheduler().wake(&mutex, 1);
  return 0;
}

int wait_on(pthread_cond_t& condition, pthread_mutex_t& mutex, Nanoseconds deadline) {
  Scheduler& all = scheduler();
  all.point(Call::condition);
  Nanoseconds end = deadline;
  if (all.has_spurious_wake_ups() && all.random().one_in(16))
    end = std::min(end, all.now() + all.random().below(100'000));
  unlock(mutex);
  const bool is_woken = all.wait(Call::condition, &condition, end);
  lock(mutex);
  return !is_woken && all.now() >= deadline ? ETIMEDOUT : 0;
}

// Only what a wait of the C++ library asks for.
long simulate_futex(int* word, int operation, int value, const timespec* time) {
  Scheduler& all = scheduler();
  switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET: {
      all.point(Call::futex);
      if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) return errno = EAGAIN, -1;
      Nanoseconds deadline = kForever;
      const bool is_span = (operation & FUTEX_CMD_MASK) == FUTEX_WAIT;
      if (time != nullptr) deadline = nanoseconds_of(*time) + (is_span ? all.now() : 0);
      if (all.wait(Call::futex, word, deadline)) return 0;
      return errno = ETIMEDOUT, -1;
    }
    case FUTEX_WAKE: {
      const unsigned woken = all.wake(word, value < 0 ? ~0u : static_cast<unsigned>(value));
      all.point(Call::futex, woken);
      return woken;
    }
    default: all.fail("a futex operation that is not simulated");
  }
}

int sleep_until(Nanoseconds end) {
  scheduler().wait(Call::sleep, nullptr, end);
  return 0;
}

enum Once { kNotYet, kRunning, kDone };

}  // namespace

extern "C" int __cxa_thread_atexit_impl(void (*function)(void*), void* object, void* library);

bool (*penstock::simulation::answer_call)(long number, const long* arguments, long& answer) = nullptr;

extern "C" {

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  return scheduler().create(thread, attributes, body, argument);
}
int pthread_join(pthread_t thread, void** result) { return scheduler().join(thread, result); }
int pthread_detach(pthread_t thread) { return scheduler().detach(thread); }
pthread_t pthread_self() noexcept {
  static const auto really = REAL(pthread_self);
  return scheduler().is_on() ? scheduler().self() : really();
}
// How the compiler has destructors of thread-local values called.
int __cxa_thread_atexit(void (*function)(void*), void* object, void* library) {
  if (scheduler().is_on()) return scheduler().call_at_end(function, object), 0;
  return __cxa_thread_atexit_impl(function, object, library);
}
int pthread_setname_np(pthread_t thread, const char* name) { return scheduler().name(thread, name), 0; }

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  scheduler().point(Call::lock);
  return lock(*mutex);
}
int pthread_mutex_trylock(pthread_mutex_t* mutex) {
  scheduler().point(Call::lock);
  if (mutex->__data.__lock != 0) return EBUSY;
  return lock(*mutex);
}
int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  unlock(*mutex);
  scheduler().point(Call::unlock);
  return 0;
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  return wait_on(*condition, *mutex, kForever);
}
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* time) {
  return wait_on(*condition, *mutex, deadline_of(clock, *time));
}
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* time) {
  return wait_on(*condition, *mutex, deadline_of(CLOCK_REALTIME, *time));
}
int pthread_cond_signal(pthread_cond_t* condition) {
  scheduler().wake(condition, 1);
  scheduler().point(Call::wake);
  return 0;
}
int pthread_cond_broadcast(pthread_cond_t* condition) {
  scheduler().wake(condition);
  scheduler().point(Call::wake);
  return 0;
}
int pthread_cond_destroy(pthread_cond_t*) { return 0; }

int pthread_rwlock_rdlock(pthread_rwlock_t* lock) {
  scheduler().point(Call::lock);
  while (lock->__data.__cur_writer != 0) scheduler().wait(Call::lock, lock);
  ++lock->__data.__readers;
  return 0;
}
int pthread_rwlock_wrlock(pthread_rwlock_t* lock) {
  scheduler().point(Call::lock);
  while (lock->__data.__cur_writer != 0 || lock->__data.__readers != 0) scheduler().wait(Call::lock, lock);
  lock->__data.__cur_writer = 1;
  return 0;
}
int pthread_rwlock_unlock(pthread_rwlock_t* lock) {
  if (lock->__data.__cur_writer != 0) lock->__data.__cur_writer = 0;
  else --lock->__data.__readers;
  scheduler().wake(lock);
  scheduler().point(Call::unlock);
  return 0;
}

int pthread_once(pthread_once_t* control, void (*body)()) {
  scheduler().point(Call::once);
  while (*control == kRunning) scheduler().wait(Call::once, control);
  if (*control == kDone) return 0;
  *control = kRunning;
  try {
    body();
  } catch (...) {
    *control = kNotYet;
    scheduler().wake(control);
    throw;
  }
  *control = kDone;
  scheduler().wake(control);
  return 0;
}

int sched_yield() {
  if (scheduler().is_on()) scheduler().point(Call::yield, 0, true);
  return 0;
}

int nanosleep(const timespec* time, timespec*) { return sleep_until(scheduler().now() + nanoseconds_of(*time)); }
int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec*) {
  if ((flags & TIMER_ABSTIME) != 0) return sleep_until(deadline_of(clock, *time));
  return sleep_until(scheduler().now() + nanoseconds_of(*time));
}

int clock_gettime(clockid_t clock, timespec* time) {
  static const auto really = REAL(clock_gettime);
  if (!scheduler().is_on() || clock == CLOCK_PROCESS_CPUTIME_ID) return really(clock, time);
  scheduler().point(Call::clock);
  Random& random = scheduler().random();
  scheduler().spend(random.below(kLookMax));  // Who spins looks at the clock once in a while only.
  if (is_wall_clock(clock) && random.one_in(16)) wall_clock = kWallClock - kStepMax + random.below(2 * kStepMax);
  *time = timespec_of(scheduler().now() + (is_wall_clock(clock) ? wall_clock : 0));
  return 0;
}
time_t time(time_t* out) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

ssize_t getrandom(void* memory, std::size_t size, unsigned) {
  auto* const bytes = static_cast<unsigned char*>(memory);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(scheduler().random().next() >> 32);
  return static_cast<ssize_t>(size);
}

// The machine, which must be the same wherever a seed runs.
long sysconf(int name) {
  static const auto really = REAL(sysconf);
  if (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF) return kProcessors;
  if (name == _SC_PHYS_PAGES || name == _SC_AVPHYS_PAGES) return kMemoryPages;
  return really(name);
}
int sched_getaffinity(pid_t, std::size_t size, cpu_set_t* set) {
  std::memset(set, 0, size);
  for (long i = 0; i < kProcessors; ++i) CPU_SET_S(static_cast<std::size_t>(i), size, set);
  return 0;
}
int sched_setaffinity(pid_t, std::size_t, const cpu_set_t*) { return 0; }

long syscall(long number, ...) {
  static const auto really = REAL(syscall);
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& one : arguments) one = va_arg(list, long);
  va_end(list);
  if (number == SYS_futex && scheduler().is_on()) {
    return simulate_futex(reinterpret_cast<int*>(arguments[0]), static_cast<int>(arguments[1]),
                          static_cast<int>(arguments[2]), reinterpret_cast<const timespec*>(arguments[3]));
  }
  if (long answer = 0; answer_call != nullptr && answer_call(number, arguments, answer)) return answer;
  return really(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

}  // extern "C"
