// Carries out requests whose callers do not wait for them: the entries of batches, and what streams have arrived at.
// Jobs wait in one line, for a few threads that start with the first of them. Small requests of one thread are in
// flight together, through a queue of its own; a larger one is moved like a call of its own, with the workers' help.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "session/session.h"

namespace penstock::core {

// One request under way. Its owner keeps it alive until finish() was called, or withdraw() said true.
class Job {
 public:
  virtual ~Job() = default;

  RawRequest request;

  // On a thread of the executor, which holds no lock meanwhile. The job may be destroyed in here. Waits for no other
  // job.
  virtual void finish(const Outcome& outcome) = 0;

 private:
  friend class Executor;
  Job* previous_ = nullptr;
  Job* next_ = nullptr;
  bool waiting_ = false;  // In the line; guarded by the executor's mutex.
};

class Executor {
 public:
  Executor(Session& session, unsigned threads_max) : session_(session), threads_max_(threads_max) {}
  // Carries out what waits, then ends. Nobody submits any more.
  ~Executor();

  // From any thread, also from a call-back of the device's driver: takes a lock for a moment and wakes threads, no
  // more. Fails, with nothing of it begun, only where no thread can be had at all.
  Status submit(std::span<Job* const> jobs);
  // True where the job had not begun: then finish() is not called for it.
  bool withdraw(Job& job);

 private:
  class Hand;

  static constexpr unsigned kGrabMax = 16;  // Jobs that a thread takes from the line at once.

  Status start_locked();
  void append_locked(Job& job);
  void unlink_locked(Job& job);
  unsigned take(std::span<Job*> jobs, bool wait);
  void loop();

  Session& session_;
  const unsigned threads_max_;
  std::mutex mutex_;
  std::condition_variable arrivals_;
  bool stopping_ = false;
  std::vector<pthread_t> threads_;
  Job* first_ = nullptr;
  Job* last_ = nullptr;
  std::size_t waiting_ = 0;  // Jobs in the line.
};

}  // namespace penstock::core
