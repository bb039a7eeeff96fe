// SPDX-License-Identifier: Apache-2.0

// One thread at a time, chosen by a seed, in a time of its own. Each thread of a simulated program has thread-local
// values and a stack of its own (fiber.h), but only the one with the baton runs. It may hand the baton on at every call
// that threads.cc and the other files of this folder answer in place of the C library: at a "point". Time
// moves by a little with each point, and to the next deadline or event where nobody can go on. If there is none either,
// that is a deadlock: the run ends, and says where each thread stands.
//
// A run is decided by its seed alone. Its trace, of which only a hash is kept, has no addresses.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace penstock::simulation {

using Nanoseconds = std::uint64_t;
inline constexpr Nanoseconds kForever = ~Nanoseconds{0};

class Random {
 public:
  explicit Random(std::uint64_t seed = 0) : state_(seed) {}
  std::uint64_t next();
  std::uint64_t below(std::uint64_t end) { return next() % end; }
  std::uint64_t between(std::uint64_t first, std::uint64_t last) { return first + below(last - first + 1); }
  bool one_in(std::uint64_t count) { return below(count) == 0; }

 private:
  std::uint64_t state_;
};

// What a thread is doing at a point.
enum class Call : std::uint8_t {
  start,
  end,
  lock,
  unlock,
  condition,
  wake,
  once,
  join,
  futex,
  yield,
  sleep,
  clock,
  file,
  ring,
  program
};

class Scheduler {
 public:
  // The calling thread becomes the first task. What was called before was not simulated.
  void begin(std::uint64_t seed, bool is_traced);
  bool is_on() const { return is_on_; }

  Nanoseconds now() const { return now_; }
  Random& random() { return random_; }
  unsigned current() const;  // The number of the task that runs.
  std::uint64_t trace() const { return trace_; }
  std::uint64_t points() const { return points_; }
  unsigned tasks_alive() const;
  bool has_spurious_wake_ups() const { return spurious_; }

  // Another task may run before this returns. `must_leave`: one mostly does, if any can. `detail` goes into the trace.
  void point(Call call, std::uint64_t detail = 0, bool must_leave = false);
  // Waits until wake(what) or the deadline; false if it was the deadline.
  bool wait(Call call, const void* what, Nanoseconds deadline = kForever);
  // Has up to `most` tasks go on that wait for this, and returns how many.
  unsigned wake(const void* what, unsigned most = ~0u);
  // Calls this once at that time, by whichever task is at a point. It must not wait; no other task runs meanwhile.
  void at(Nanoseconds time, std::function<void()> event);
  void spend(Nanoseconds time) { now_ += time; }

  // From now on one thread in so many cannot be had; 0: each can.
  void refuse_threads(unsigned one_in) { refused_threads_ = one_in; }
  bool refuses_threads() const { return refused_threads_ != 0; }
  int create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument);
  int join(pthread_t thread, void** result);
  int detach(pthread_t thread);
  void name(pthread_t thread, const char* name);
  pthread_t self() const;
  // When the running thread ends, before those that were told earlier.
  void call_at_end(void (*function)(void*), void* object);
  // It ends now, or its process does by its call of exit().
  void end_values();

  // In a forked child: only the calling thread is left, and no event is to come. What they held stays as it was.
  void forget_others();

  // What is being looked at, if the next failure comes before the next call of this.
  void say_on_failure(const char* text) { context_ = text; }
  // Says what is wrong and where each thread stands, and ends the process.
  [[noreturn]] void fail(const char* what);

 private:
  struct Task;
  static void run(void* task);
  Task* find(pthread_t thread);
  Task* choose(bool must_leave);
  Task* pick(const std::vector<Task*>& ready);
  void look_at_time();
  bool advance();
  void hand_to(Task& next);
  void go_to(Task& next);
  void arrive();
  void note(Call call, std::uint64_t detail);
  void describe(const Task& task) const;

  bool is_on_ = false, is_traced_ = false, spurious_ = false, is_in_event_ = false;
  unsigned refused_threads_ = 0;
  Random random_;
  Nanoseconds now_ = 0;
  std::uint64_t trace_ = 0, points_ = 0;
  std::string context_;
  std::uint64_t stay_ = 0;   // Of 64 points, at how many nobody else is asked.
  std::uint64_t pause_ = 0;  // One in so many points takes milliseconds.
  std::vector<std::unique_ptr<Task>> tasks_;
  Task* running_ = nullptr;
  Task* here_ = nullptr;            // Whose fiber runs: another one only while stacks are shown.
  Task* asks_for_stack_ = nullptr;  // And then is gone on with.
  Task* ended_ = nullptr;           // Its thread is about to be gone: the next task waits for that.
  Task* starved_ = nullptr;         // It gets no turn for a while, where others can go on.
  std::uint64_t starved_until_ = 0;
  std::multimap<Nanoseconds, std::function<void()>> events_;
  std::vector<Task*> ready_;  // Scratch of choose().
};

Scheduler& scheduler();

// Answers a call of syscall(), other than a futex's, that is not the kernel's; null: all are.
extern bool (*answer_call)(long number, const long* arguments, long& answer);

// The C library's own function of this name, behind ours.
void* real_function(const char* name);
#define REAL(name) reinterpret_cast<decltype(&::name)>(::penstock::simulation::real_function(#name))

}  // namespace penstock::simulation
