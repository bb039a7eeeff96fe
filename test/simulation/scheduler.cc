// SPDX-License-Identifier: Apache-2.0

#include "simulation/scheduler.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "simulation/fiber.h"

namespace penstock::simulation {

struct Scheduler::Task {
  enum class State : std::uint8_t { ready, waiting, over };
  struct LastCall {
    void (*function)(void*);
    void* object;
  };

  unsigned number = 0;
  char name[16] = "main";
  Fiber fiber;
  // By which the program knows it, until it has joined it: the system's may be another thread's by then.
  pthread_t thread() const { return reinterpret_cast<pthread_t>(this); }
  State state = State::ready;
  Call call = Call::start;
  const void* what = nullptr;
  Nanoseconds deadline = kForever;
  bool is_woken = false;
  bool is_detached = false, is_joined = false;
  void* (*body)(void*) = nullptr;
  void* argument = nullptr;
  void* result = nullptr;
  std::vector<LastCall> last_calls;  // The destructors of its thread-local values.
};

namespace {

constexpr Nanoseconds kMillisecond = 1'000'000;
constexpr std::uint64_t kPointsMax = 50'000'000;
constexpr Nanoseconds kBegin = 1'000'000'000'000;
constexpr const char* kNames[] = {"start", "end",   "lock",  "unlock", "condition", "wake", "once",   "join",
                                  "futex", "yield", "sleep", "clock",  "file",      "ring", "program"};

thread_local unsigned current_task = 0;
void show_stack() {
  void* frames[20];
  const int count = ::backtrace(frames, 20);
  ::backtrace_symbols_fd(frames + 2, count - 2, STDERR_FILENO);
}

}  // namespace

void* real_function(const char* name) {
  void* const found = ::dlsym(RTLD_NEXT, name);
  if (found == nullptr) std::abort();
  return found;
}

Scheduler& scheduler() {
  static auto* const only = new Scheduler;  // Threads may outlive the end of main().
  return *only;
}

std::uint64_t Random::next() {  // SplitMix64, by its published constants.
  std::uint64_t mixed = state_ += 0x9e3779b97f4a7c15;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return mixed ^ (mixed >> 31);
}

void Scheduler::begin(std::uint64_t seed, bool is_traced) {
  random_ = Random(seed * 2 + 1);
  is_traced_ = is_traced;
  now_ = kBegin;
  constexpr std::uint64_t kStays[] = {0, 32, 56, 62};
  stay_ = kStays[random_.below(4)];
  pause_ = random_.one_in(2) ? 1u << random_.between(8, 14) : 0;
  spurious_ = random_.one_in(4);
  void* frame[1];
  (void)::backtrace(frame, 1);  // It loads a library the first time.
  tasks_.push_back(std::make_unique<Task>());
  running_ = tasks_[0].get();
  Fiber::begin();
  here_ = running_;
  running_->fiber.adopt();
  is_on_ = true;
}

unsigned Scheduler::current() const { return current_task; }

unsigned Scheduler::tasks_alive() const {
  return static_cast<unsigned>(
      std::count_if(tasks_.begin(), tasks_.end(), [](const auto& one) { return one->state != Task::State::over; }));
}

// ---- Who runs -------------------------------------------------------------------------------------------------------

void Scheduler::note(Call call, std::uint64_t detail) {
  if (is_traced_) {
    std::fprintf(stderr, "%12llu %2u %-9s %llx\n", static_cast<unsigned long long>(now_ - kBegin), running_->number,
                 kNames[static_cast<int>(call)], static_cast<unsigned long long>(detail));
  }
  trace_ = Random(trace_ ^ (detail << 16) ^ (std::uint64_t{running_->number} << 8) ^ static_cast<std::uint64_t>(call) ^
                  now_ << 24)
               .next();
}

void Scheduler::look_at_time() {
  while (!events_.empty() && events_.begin()->first <= now_) {
    const auto event = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    is_in_event_ = true;
    event();
    is_in_event_ = false;
  }
}

// Moves time to what comes next; false if nothing does.
bool Scheduler::advance() {
  Nanoseconds next = events_.empty() ? kForever : events_.begin()->first;
  for (const auto& task : tasks_) {
    if (task->state == Task::State::waiting) next = std::min(next, task->deadline);
  }
  if (next == kForever) return false;
  now_ = std::max(now_, next);
  look_at_time();
  return true;
}

Scheduler::Task* Scheduler::choose(bool must_leave) {
  while (true) {
    ready_.clear();
    for (const auto& task : tasks_) {
      if (task->state == Task::State::waiting && task->deadline <= now_) task->state = Task::State::ready;
      if (task->state == Task::State::ready) ready_.push_back(task.get());
    }
    if (must_leave && ready_.size() > 1 && !random_.one_in(8)) std::erase(ready_, running_);
    if (!ready_.empty()) return pick(ready_);
    if (!advance()) fail("deadlock: no thread can go on");
  }
}

Scheduler::Task* Scheduler::pick(const std::vector<Task*>& ready) {
  if (points_ >= starved_until_) {
    starved_ = random_.one_in(4) ? ready[random_.below(ready.size())] : nullptr;
    starved_until_ = points_ + random_.between(100, 2000);
  }
  Task* const picked = ready[random_.below(ready.size())];
  if (picked != starved_ || random_.one_in(8)) return picked;
  return running_->state == Task::State::ready ? running_ : ready[random_.below(ready.size())];
}

void Scheduler::point(Call call, std::uint64_t detail, bool must_leave) {
  if (!is_on_ || is_in_event_) return;
  if (++points_ > kPointsMax) fail("the run does not end");
  const std::uint64_t drawn = random_.next();
  now_ += 50 + (drawn & 127);
  if (pause_ != 0 && (drawn >> 16) % pause_ == 0) now_ += random_.below(5 * kMillisecond);
  note(call, detail);
  look_at_time();
  if (!must_leave && (drawn >> 8 & 63) < stay_) return;
  running_->call = call;
  Task* const next = choose(must_leave);
  if (next != running_) hand_to(*next);
}

bool Scheduler::wait(Call call, const void* what, Nanoseconds deadline) {
  if (!is_on_) return true;
  if (is_in_event_) fail("an event waits");
  note(call, 1);
  Task& self = *running_;
  self.state = Task::State::waiting;
  self.call = call;
  self.what = what;
  self.deadline = deadline;
  self.is_woken = false;
  Task* const next = choose(false);
  if (next != &self) hand_to(*next);
  self.what = nullptr;
  self.deadline = kForever;
  return self.is_woken;
}

unsigned Scheduler::wake(const void* what, unsigned most) {
  if (!is_on_) return 0;
  unsigned count = 0;
  while (count < most) {
    ready_.clear();
    for (const auto& task : tasks_) {
      if (task->state == Task::State::waiting && task->what == what) ready_.push_back(task.get());
    }
    if (ready_.empty()) return count;
    Task& woken = *ready_[most == ~0u ? 0 : random_.below(ready_.size())];
    woken.state = Task::State::ready;
    woken.is_woken = true;
    woken.what = nullptr;
    ++count;
  }
  return count;
}

void Scheduler::at(Nanoseconds time, std::function<void()> event) { events_.emplace(time, std::move(event)); }

// ---- The baton ------------------------------------------------------------------------------------------------------

// A task is gone on with: by the one that left, or by one that ended, or to show its stack.
void Scheduler::arrive() {
  while (Task* const asks = std::exchange(asks_for_stack_, nullptr)) {
    show_stack();
    go_to(*asks);
  }
  if (ended_ != nullptr) std::exchange(ended_, nullptr)->fiber.end();
}

void Scheduler::go_to(Task& next) {
  Task& self = *here_;
  here_ = &next;
  self.fiber.go_to(next.fiber);
}

void Scheduler::hand_to(Task& next) {
  running_ = &next;
  go_to(next);
  arrive();
}

void Scheduler::run(void* argument) {
  Task& task = *static_cast<Task*>(argument);
  Scheduler& all = scheduler();
  current_task = task.number;
  all.arrive();
  task.result = task.body(task.argument);
  all.end_values();
  all.note(Call::end, 0);
  task.state = Task::State::over;
  all.wake(&task);
  all.ended_ = &task;
  all.hand_to(*all.choose(false));
}

void Scheduler::call_at_end(void (*function)(void*), void* object) {
  running_->last_calls.push_back({function, object});
}

void Scheduler::end_values() {
  Task& task = *running_;
  while (!task.last_calls.empty()) {
    const Task::LastCall call = task.last_calls.back();
    task.last_calls.pop_back();
    call.function(call.object);
  }
}

// ---- Threads --------------------------------------------------------------------------------------------------------

int Scheduler::create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  if (!is_on_) return REAL(pthread_create)(thread, attributes, body, argument);
  if (refused_threads_ != 0 && random_.one_in(refused_threads_)) return EAGAIN;
  auto task = std::make_unique<Task>();
  task->number = static_cast<unsigned>(tasks_.size());
  std::snprintf(task->name, sizeof task->name, "%s", "?");
  task->body = body;
  task->argument = argument;
  if (const int error = task->fiber.make(attributes, run, task.get()); error != 0) return error;
  *thread = task->thread();
  tasks_.push_back(std::move(task));
  point(Call::start, tasks_.back()->number);
  return 0;
}

Scheduler::Task* Scheduler::find(pthread_t thread) {
  const auto found =
      std::find_if(tasks_.begin(), tasks_.end(), [&](const auto& task) { return task->thread() == thread; });
  return found == tasks_.end() || (*found)->is_joined ? nullptr : found->get();
}

pthread_t Scheduler::self() const { return tasks_[current_task]->thread(); }

int Scheduler::join(pthread_t thread, void** result) {
  Task* const task = find(thread);
  if (task == nullptr || task->is_detached) return ESRCH;
  point(Call::join, task->number);
  while (task->state != Task::State::over) wait(Call::join, task);
  task->is_joined = true;
  if (result != nullptr) *result = task->result;
  return 0;
}

int Scheduler::detach(pthread_t thread) {
  Task* const task = find(thread);
  if (task == nullptr) return ESRCH;
  task->is_detached = true;
  return 0;
}

void Scheduler::name(pthread_t thread, const char* name) {
  if (Task* const task = find(thread)) std::snprintf(task->name, sizeof task->name, "%s", name);
}

void Scheduler::forget_others() {
  for (const auto& task : tasks_) {
    if (task.get() != running_) task->state = Task::State::over;
  }
  static const auto* const never_to_come = new auto(std::move(events_));
  (void)never_to_come;
  events_ = {};
}

// ---- What went wrong ------------------------------------------------------------------------------------------------

void Scheduler::describe(const Task& task) const {
  std::fprintf(stderr, "thread %u (%s): ", task.number, task.name);
  if (&task == running_) std::fprintf(stderr, "runs\n");
  else if (task.state == Task::State::ready)
    std::fprintf(stderr, "could go on at %s\n", kNames[static_cast<int>(task.call)]);
  else std::fprintf(stderr, "waits at %s for %p\n", kNames[static_cast<int>(task.call)], task.what);
}

void Scheduler::fail(const char* what) {
  is_on_ = false;  // Unwinding stacks takes locks.
  std::fprintf(stderr, "%s\n%s\nafter %llu points, at %.6f s\n", what, context_.c_str(),
               static_cast<unsigned long long>(points_), static_cast<double>(now_ - kBegin) / 1e9);
  for (const auto& task : tasks_) {
    if (task->state == Task::State::over) continue;
    describe(*task);
    if (task.get() != running_) asks_for_stack_ = running_, go_to(*task);
    else show_stack();
  }
  ::_exit(1);
}

}  // namespace penstock::simulation
