// SPDX-License-Identifier: Apache-2.0

#include "storage/lease.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <memory>
#include <new>
#include <vector>

#include "base/mutex.h"
#include "base/process.h"
#include "base/thread.h"

namespace penstock::core {
namespace {

// A look without a signal: a program that sets SIGIO to SIG_IGN makes the kernel drop one that is on its way.
constexpr std::chrono::nanoseconds kLooksAtLeast = std::chrono::milliseconds(100);
constexpr std::chrono::nanoseconds kLooksAtMost = std::chrono::milliseconds(1);

timespec lease_wait_of(std::chrono::nanoseconds time) {
  constexpr long kSecond = 1'000'000'000;
  return {static_cast<time_t>(time.count() / kSecond), static_cast<long>(time.count() % kSecond)};
}

// Returns after the signal, or after the time.
void wait_for_signal(std::chrono::nanoseconds time) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGIO);
  const timespec limit = lease_wait_of(time);
  (void)::sigtimedwait(&set, nullptr, &limit);
}

}  // namespace

// The leases that this process holds, and the thread that the kernel signals about them.
class LeaseKeeper {
 public:
  // Null if there is no memory. Never destroyed: its thread uses it until the process ends.
  static LeaseKeeper* of_process();

  // Adds a lease that is about to be taken, so that no signal is missed. Returns the errno.
  int add(Lease& lease) EXCLUDES(mutex_);
  void remove(Lease& lease) EXCLUDES(mutex_);
  pid_t thread() const { return thread_.load(std::memory_order_acquire); }
  bool is_inherited() const { return forks_ != fork_count(); }

 private:
  int start() REQUIRES(mutex_);
  static void run(void* keeper) { static_cast<LeaseKeeper*>(keeper)->run(); }
  [[noreturn]] void run() EXCLUDES(mutex_);
  std::chrono::nanoseconds look() EXCLUDES(mutex_);
  void forget(Lease& lease) REQUIRES(mutex_) { std::replace(leases_.begin(), leases_.end(), &lease, kNobody); }

  static constexpr Lease* kNobody = nullptr;

  const std::uint32_t forks_ = fork_count();
  std::atomic<pid_t> thread_{0};
  Mutex mutex_;
  ConditionVariable changed_;
  bool is_started_ GUARDED_BY(mutex_) = false;
  std::vector<Lease*> leases_ GUARDED_BY(mutex_);  // With gaps, for those that went during a look.
};

// Without a lock: in a forked child, the parent's could be held for ever.
LeaseKeeper* LeaseKeeper::of_process() {
  static std::atomic<LeaseKeeper*> current{nullptr};
  LeaseKeeper* known = current.load(std::memory_order_acquire);
  if (known != nullptr && !known->is_inherited()) return known;
  std::unique_ptr<LeaseKeeper> made(new (std::nothrow) LeaseKeeper);
  if (made == nullptr) return nullptr;
  return current.compare_exchange_strong(known, made.get()) ? made.release() : known;
}

int LeaseKeeper::start() {
  if (!is_started_) {
    pthread_t handle;
    if (!start_thread(handle, "penstock-lease", run, this)) return ENOMEM;
    ::pthread_detach(handle);
    is_started_ = true;
  }
  while (thread() == 0) changed_.wait(mutex_);
  return 0;
}

int LeaseKeeper::add(Lease& lease) {
  const MutexLock lock(mutex_);
  if (const int error = start(); error != 0) return error;
  leases_.push_back(&lease);
  changed_.notify_all();
  return 0;
}

// An owner gives its lease back within a look, too.
void LeaseKeeper::remove(Lease& lease) {
  if (::gettid() == thread()) {
    mutex_.assume_held();
    return forget(lease);
  }
  const MutexLock lock(mutex_);
  forget(lease);
}

std::chrono::nanoseconds LeaseKeeper::look() {
  const MutexLock lock(mutex_);
  std::chrono::nanoseconds again = kLooksAtLeast;
  for (std::size_t i = 0; i < leases_.size(); ++i) {
    Lease* const lease = leases_[i];
    if (lease != kNobody && lease->is_taken()) again = std::min(again, lease->owner_.look(!lease->is_held()));
  }
  std::erase(leases_, kNobody);
  return std::max(again, kLooksAtMost);
}

void LeaseKeeper::run() {
  {
    const MutexLock lock(mutex_);
    thread_.store(::gettid(), std::memory_order_release);
    changed_.notify_all();
  }
  for (std::chrono::nanoseconds again = kLooksAtLeast;; again = look()) {
    {
      const MutexLock lock(mutex_);
      while (leases_.empty()) changed_.wait(mutex_);
    }
    wait_for_signal(again);
  }
}

Result<UniqueFd> Lease::reopen(int fd) {
  char name[64];
  std::snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  // Without O_NONBLOCK, another program's lease would be waited for.
  UniqueFd own(::open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!own.valid()) return os_failure(errno, "open the file once more for reading");
  return own;
}

int Lease::take(int fd, Wanted wanted) {
  keeper_ = LeaseKeeper::of_process();
  fd_ = fd;
  type_.store(F_UNLCK, std::memory_order_relaxed);
  if (keeper_ == nullptr) return ENOMEM;
  if (const int error = keeper_->add(*this); error != 0) return error;
  int error = wanted == Wanted::most ? take_as(F_WRLCK) : EAGAIN;
  if (error == EAGAIN) error = take_as(F_RDLCK);
  if (error != 0) keeper_->remove(*this);
  return error;
}

// The end of a lease clears the descriptor's owner, so each lease sets it, before the first signal can come.
int Lease::take_as(int type) {
  const f_owner_ex owner{F_OWNER_TID, keeper_->thread()};
  if (::fcntl(fd_, F_SETOWN_EX, &owner) != 0) return errno;
  if (::fcntl(fd_, F_SETLEASE, type) != 0) return errno;
  type_.store(type, std::memory_order_release);
  return 0;
}

void Lease::give_back(bool has_descriptor) {
  if (keeper_->is_inherited()) return;
  if (has_descriptor) (void)::fcntl(fd_, F_SETLEASE, F_UNLCK);
  keeper_->remove(*this);
}

bool Lease::is_taken() const { return type_.load(std::memory_order_acquire) != F_UNLCK; }

bool Lease::is_held() const { return ::fcntl(fd_, F_GETLEASE) == type_.load(std::memory_order_relaxed); }

bool Lease::is_exclusive() const { return type_.load(std::memory_order_relaxed) == F_WRLCK; }

}  // namespace penstock::core
