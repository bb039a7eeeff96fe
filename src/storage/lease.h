// SPDX-License-Identifier: Apache-2.0

// A lease on an open file: while it is held, nobody opens the file for writing, or truncates it, before it is given
// back. The kernel asks for it by a signal, SIGIO, which would end the program. Here one thread of the library's own
// takes it: it blocks all signals, is started with the first lease of the process, sleeps while no lease is held, and
// stays until the process ends. A forked child has none of it, and starts its own if it takes a lease itself; the
// parent's leases are not the child's.
//
// Held while the process is stopped, a lease makes others wait up to fs.lease-break-time (45 s); the kernel then takes
// it away.
#pragma once

#include <atomic>
#include <chrono>

#include "base/status.h"
#include "base/unique_fd.h"

namespace penstock::core {

class LeaseKeeper;

class Lease {
 public:
  // The owner's view of its lease, called by the keeper's thread. It must not wait for anything that waits for the
  // keeper, and may give its own lease back.
  class Owner {
   public:
    // Looks if the lease is still needed. `is_asked_back`: somebody waits for its end, or it has ended. Returns when to
    // look again at the latest; a signal makes the keeper look at once. One that comes before take() has returned may
    // go unnoticed: ask is_held() once more when the owner is ready for the next.
    virtual std::chrono::nanoseconds look(bool is_asked_back) = 0;

   protected:
    ~Owner() = default;
  };

  explicit Lease(Owner& owner) : owner_(owner) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // An open file of the lease's own, for reading, on the file of `fd`. Does not wait for another program's lease.
  static Result<UniqueFd> reopen(int fd);
  enum class Wanted { most, shared };
  // Takes a lease on the open file, which the caller keeps open: F_WRLCK if no other open file of it exists and `most`
  // is wanted (then nobody else opens it at all), else F_RDLCK. The descriptor's owner (F_SETOWN) is changed. Returns
  // the errno: EACCES if the file is another user's, EAGAIN if it is open for writing, ENOMEM if the keeper cannot be
  // started.
  int take(int fd, Wanted wanted = Wanted::most);
  // Needs a lease that was taken, and take() not to run. A second call does nothing. The descriptor may have been
  // closed: it is then left alone.
  void give_back(bool has_descriptor);
  // True from take() on until somebody asks for the lease, or it ends. One system call.
  bool is_held() const;
  // True if it is a lease that keeps readers out, too.
  bool is_exclusive() const;

 private:
  friend class LeaseKeeper;
  int take_as(int type);
  bool is_taken() const;

  Owner& owner_;
  LeaseKeeper* keeper_ = nullptr;  // The one of the process that took the lease.
  int fd_ = -1;
  std::atomic<int> type_{};  // F_WRLCK or F_RDLCK; F_UNLCK until it was taken.
};

}  // namespace penstock::core
