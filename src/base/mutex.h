// SPDX-License-Identifier: Apache-2.0

// Mutexes that clang can check. Every lock of src/ is one of these: the standard library's, with attributes by which
// clang's -Wthread-safety proves that what a mutex guards is touched with that mutex alone. For other compilers the
// macros are empty; the classes cost the same as the standard's. test/lint/clang.py runs clang over the tree.
//
//   Mutex mutex_;
//   int count_ GUARDED_BY(mutex_) = 0; may be read and written only with the mutex; PT_GUARDED_BY is for the bytes that
//   it points to void grow_locked() REQUIRES(mutex_); may be called only with it void stop() EXCLUDES(mutex_); may be
//   called only without it, because it would deadlock
//
// Clang does not check constructors and destructors, since no other thread uses their object then. A lambda needs its
// own attribute.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>

#ifdef __clang__
#define PENSTOCK_THREAD_ATTRIBUTE(...) __attribute__((__VA_ARGS__))
#else
#define PENSTOCK_THREAD_ATTRIBUTE(...)
#endif

#define CAPABILITY(name) PENSTOCK_THREAD_ATTRIBUTE(capability(name))
#define SCOPED_CAPABILITY PENSTOCK_THREAD_ATTRIBUTE(scoped_lockable)
#define GUARDED_BY(mutex) PENSTOCK_THREAD_ATTRIBUTE(guarded_by(mutex))
#define PT_GUARDED_BY(mutex) PENSTOCK_THREAD_ATTRIBUTE(pt_guarded_by(mutex))
#define ACQUIRED_BEFORE(...) PENSTOCK_THREAD_ATTRIBUTE(acquired_before(__VA_ARGS__))
#define REQUIRES(...) PENSTOCK_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define REQUIRES_SHARED(...) PENSTOCK_THREAD_ATTRIBUTE(requires_shared_capability(__VA_ARGS__))
#define EXCLUDES(...) PENSTOCK_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) PENSTOCK_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define ACQUIRE_SHARED(...) PENSTOCK_THREAD_ATTRIBUTE(acquire_shared_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) PENSTOCK_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define RELEASE(...) PENSTOCK_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define RELEASE_SHARED(...) PENSTOCK_THREAD_ATTRIBUTE(release_shared_capability(__VA_ARGS__))
#define ASSERT_CAPABILITY(mutex) PENSTOCK_THREAD_ATTRIBUTE(assert_capability(mutex))
#define NO_THREAD_SAFETY_ANALYSIS PENSTOCK_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace penstock::core {

class CAPABILITY("mutex") Mutex {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }
  bool try_lock() TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  // Does nothing. It tells clang and the reader that the mutex is held, because a caller holds it or no other thread
  // can reach the guarded members yet.
  void assume_held() const ASSERT_CAPABILITY(this) {}

 private:
  friend class ConditionVariable;
  std::mutex mutex_;
};

// Holds the mutex until the end of its block.
class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  // Takes over a mutex that try_lock() has locked.
  MutexLock(Mutex& mutex, std::adopt_lock_t) REQUIRES(mutex) : mutex_(mutex) {}
  ~MutexLock() RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Releases the mutex until the end of its block, for work that must not be done or waited for with the mutex.
class SCOPED_CAPABILITY MutexUnlock {
 public:
  explicit MutexUnlock(Mutex& mutex) RELEASE(mutex) : mutex_(mutex) { mutex_.unlock(); }
  ~MutexUnlock() RELEASE() { mutex_.lock(); }  // Clang calls this the end of a scope: the mutex is held again.
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits for a change that other threads make with the mutex held. A wait may end spuriously, so call it in a loop that
// checks the condition, where clang sees that the mutex is held.
class ConditionVariable {
 public:
  void wait(Mutex& mutex) REQUIRES(mutex) {
    Lent lent(mutex);
    condition_.wait(lent.lock);
  }
  // False after the time limit.
  bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point end) REQUIRES(mutex) {
    Lent lent(mutex);
    return condition_.wait_until(lent.lock, end) == std::cv_status::no_timeout;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  // The caller holds the mutex before and after.
  struct Lent {
    explicit Lent(Mutex& mutex) : lock(mutex.mutex_, std::adopt_lock) {}
    ~Lent() { lock.release(); }
    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable condition_;
};

// One writer, or any number of readers.
class CAPABILITY("mutex") SharedMutex {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }
  void lock_shared() ACQUIRE_SHARED() { mutex_.lock_shared(); }
  void unlock_shared() RELEASE_SHARED() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

class SCOPED_CAPABILITY WriterLock {
 public:
  explicit WriterLock(SharedMutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~WriterLock() RELEASE() { mutex_.unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mutex_;
};

class SCOPED_CAPABILITY ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) ACQUIRE_SHARED(mutex) : mutex_(mutex) { mutex_.lock_shared(); }
  ~ReaderLock() RELEASE() { mutex_.unlock_shared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

}  // namespace penstock::core
