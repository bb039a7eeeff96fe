// SPDX-License-Identifier: Apache-2.0

// Tells where the blocks of an ordinary ext4 or XFS file lie on its drive, so that the path dmabuf reads them there. A
// lease (lease.h) stops writes to the file meanwhile, which would move the blocks. Each registered file has one object.
//
//   if (extents.hold() == ExtentCause::none) {            once a request
//     extents.map(offset, size, pieces);                  the places on the drive
//     ...                                                 the reads
//     extents.is_intact(offset, size);                    after the last read, before anybody gets the bytes
//     extents.let_go();
//   }
//
// The first hold() takes the lease, writes dirty pages back and reads where the file's blocks lie. The lease ends 100
// ms after the last let_go(). If somebody wants to write to the file, it ends at once, or with the last let_go() if
// requests are under way; until then new calls of hold() fail. On any cause but `none` the caller uses the path bounce.
// hold() fails while anybody has the file open for writing. A thread that opens it for writing during its own requests
// waits for itself, until fs.lease-break-time is over (45 s).
//
// The lease does not stop FIDEDUPERANGE by the file's owner on XFS; map() and is_intact() see blocks that it moved.
// They miss only blocks that were moved and moved back between the two calls. Where the lease is exclusive (lease.h),
// nobody else has the file open, so that this cannot happen.
//
// To write to the drive, the lease has to be exclusive, and on the very open that the program writes by, since that one
// would count as another's. Then nobody else has the file open, or opens it before let_go(). Blocks that are shared
// with other files are unfit, and no page may be in the page cache: hold() writes them back and drops them. A write
// cannot be taken back by is_intact(): if the process is stopped between hold() and its write for longer than
// fs.lease-break-time, and somebody else moves the file's blocks meanwhile, it hits whatever has them then.
//
// Thread-safe; holding a file that is held already takes no lock, allocates nothing and calls no kernel. In a forked
// child everything is refused.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "base/guarded_fd.h"
#include "base/mutex.h"
#include "base/process.h"
#include "path/dmabuf/drive_node.h"
#include "path/dmabuf/extent_map.h"
#include "storage/file.h"
#include "storage/lease.h"

namespace penstock::core {

class HeldExtents final : private Lease::Owner {
 public:
  struct Terms {
    // How long the lease stays behind the last request.
    std::chrono::nanoseconds linger = std::chrono::milliseconds(100);
    // How long hold() goes on to refuse before it tries again.
    std::chrono::nanoseconds refuses_for = std::chrono::milliseconds(100);
    // The program writes the file's blocks on the drive: see above.
    bool is_written = false;
  };
  struct Opened;

  // Opens the file once more for reading, or duplicates its descriptor if it is to be written, and takes a lease for a
  // moment, to see that it can be had. `drive` is an open node of the file's drive, which is not kept; -1 opens it, to
  // see that it can be. For a partition it is the partition's.
  static Opened open(const File& file, int drive, const Terms& terms);
  // With a descriptor of the caller's. If no other open file of it exists, the lease is exclusive.
  static Opened open(UniqueFd file, int drive, const Terms& terms);
  // No request may be under way.
  ~HeldExtents();

  // None if the file is held: let_go() must follow, on any thread.
  ExtentCause hold();
  void let_go();

  // These need the file to be held.
  // Says where to read the range. On XFS it makes a system call, unless the lease is exclusive.
  ExtentMap::Found map(std::uint64_t offset, std::uint64_t size, std::span<DrivePiece> pieces);
  const ExtentMap& whole_map() const { return map_; }
  // None if what was read since hold() from where map() said are the bytes of this range. Else nobody else is let in,
  // and the next hold() asks anew where the file lies. Two system calls.
  ExtentCause is_intact(std::uint64_t offset, std::uint64_t size);
  std::uint64_t file_size() const { return map_.file_size(); }
  bool is_exclusive() const { return lease_.is_exclusive(); }

 private:
  HeldExtents(UniqueFd file, std::uint32_t sector, bool has_deduplication, const Terms& terms);
  std::chrono::nanoseconds look(bool is_asked_back) override EXCLUDES(mutex_);
  bool try_hold();
  ExtentCause hold_slowly() EXCLUDES(mutex_);
  ExtentCause take() REQUIRES(mutex_);
  ExtentCause take_lease() REQUIRES(mutex_);
  ExtentCause read_extents() REQUIRES(mutex_);
  ExtentCause drop_cached() const;
  ExtentCause refuse(ExtentCause cause) REQUIRES(mutex_);
  bool drop(std::uint64_t expected) REQUIRES(mutex_);
  void drop_if_idle() EXCLUDES(mutex_);
  ExtentCause compare(std::uint64_t offset, std::uint64_t size) const;
  ExtentCause ended(ExtentCause cause);
  bool is_inherited() const { return forks_ != fork_count(); }

  // The bits of state_ above the number of requests under way.
  static constexpr std::uint64_t kHeld = std::uint64_t{1} << 32;
  static constexpr std::uint64_t kEnds = std::uint64_t{1} << 33;  // Nobody else is let in; the last one gives it back.

  const GuardedFd file_;
  const std::uint32_t sector_;    // The drive's, in bytes.
  const bool has_deduplication_;  // The file system moves blocks without a descriptor to write to.
  const Terms terms_;
  const std::uint32_t forks_ = fork_count();
  // Threads that hold change it without the mutex; from 0 to kHeld and back it changes with it.
  alignas(64) std::atomic<std::uint64_t> state_{0};
  std::atomic<std::int64_t> used_at_{0};
  alignas(64) std::atomic<std::int64_t> refuses_until_{0};
  std::atomic<ExtentCause> refusal_{ExtentCause::none};
  Mutex mutex_;
  Lease lease_{*this};
  ExtentMap map_;  // Changed with the mutex while nobody holds the file.
};

// Extents, or the cause why there are none, with an errno if there is one.
struct HeldExtents::Opened {
  std::unique_ptr<HeldExtents> extents;
  ExtentCause cause = ExtentCause::none;
  int error = 0;
};

}  // namespace penstock::core
