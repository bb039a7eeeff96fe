// SPDX-License-Identifier: Apache-2.0

#include "path/dmabuf/held_extents.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <cerrno>
#include <ctime>
#include <utility>

#include "storage/cachestat.h"
#include "topology/direct_file.h"
#include "topology/extent_reader.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kHolders = UINT32_MAX;  // The bits of the number of requests under way.

// Coarse, which costs no more than a load.
std::int64_t coarse_now() {
  timespec time{};
  (void)::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

// The magic number of the file's file system, or 0.
long file_system_of(int fd) {
  struct statfs place {};
  return ::fstatfs(fd, &place) == 0 ? static_cast<long>(place.f_type) : 0;
}

ExtentCause cause_of_place(long file_system, const struct stat& facts) {
  if (!S_ISREG(facts.st_mode)) return ExtentCause::not_a_file;
  const bool is_known = file_system == EXT4_SUPER_MAGIC || file_system == XFS_SUPER_MAGIC;
  return is_known ? ExtentCause::none : ExtentCause::file_system;
}

constexpr std::pair<Tristate DirectFile::*, ExtentCause> kForms[] = {
    {&DirectFile::is_realtime, ExtentCause::realtime},
    {&DirectFile::is_encrypted, ExtentCause::encrypted},
    {&DirectFile::is_verity, ExtentCause::verity},
    {&DirectFile::is_compressed, ExtentCause::compressed},
    {&DirectFile::is_dax, ExtentCause::dax},
    {&DirectFile::is_journaled, ExtentCause::journaled},
    {&DirectFile::has_inline_data, ExtentCause::inline_data}};

// The form may change while the file is open, by whoever owns it.
ExtentCause cause_of_form(const DirectFile& file) {
  for (const auto& [has_it, cause] : kForms) {
    if (file.*has_it == Tristate::yes) return cause;
  }
  // The last form in which ext4 has no direct I/O is data=journal.
  return file.takes_direct_io == Tristate::yes ? ExtentCause::none : ExtentCause::journaled;
}

ExtentCause cause_of_form(int fd) {
  const Result<DirectFile> file = read_direct_file(fd, 0, 0);
  return file.ok() ? cause_of_form(*file) : ExtentCause::descriptor_lost;
}

ExtentCause cause_of_lease(int error) {
  switch (error) {
    case 0: return ExtentCause::none;
    case EACCES: return ExtentCause::lease_denied;
    case EAGAIN: return ExtentCause::writers;
    case ENOMEM: return ExtentCause::no_helper;
    default: return ExtentCause::no_lease;
  }
}

Result<std::uint32_t> sector_of(int drive, dev_t device) {
  if (drive >= 0) return drive_sector(drive, device);
  const Result<UniqueFd> opened = open_drive_node(device);
  if (!opened.ok()) return opened.status();
  return drive_sector(opened->get(), device);
}

}  // namespace

HeldExtents::HeldExtents(UniqueFd file, std::uint32_t sector, bool has_deduplication, const Terms& terms)
    : file_(std::move(file)), sector_(sector), has_deduplication_(has_deduplication), terms_(terms) {}

HeldExtents::~HeldExtents() {
  if (is_inherited()) return;
  const MutexLock lock(mutex_);
  PENSTOCK_INVARIANT((state_.load() & kHolders) == 0);
  if (!drop(kHeld)) (void)drop(kHeld | kEnds);
}

HeldExtents::Opened HeldExtents::open(const File& file, int drive, const Terms& terms) {
  if (terms.is_written) return open(UniqueFd(::fcntl(file.own_descriptor(), F_DUPFD_CLOEXEC, 0)), drive, terms);
  Result<UniqueFd> own = Lease::reopen(file.own_descriptor());
  if (!own.ok()) return {nullptr, ExtentCause::not_readable, own.status().code};
  return open(std::move(*own), drive, terms);
}

HeldExtents::Opened HeldExtents::open(UniqueFd file, int drive, const Terms& terms) {
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) return {nullptr, ExtentCause::not_readable, errno};
  const long file_system = file_system_of(file.get());
  if (const ExtentCause cause = cause_of_place(file_system, facts); cause != ExtentCause::none) return {nullptr, cause};
  if (const ExtentCause cause = cause_of_form(file.get()); cause != ExtentCause::none) return {nullptr, cause};
  const Result<std::uint32_t> sector = sector_of(drive, facts.st_dev);
  if (!sector.ok()) return {nullptr, ExtentCause::drive_node, sector.status().code};
  std::unique_ptr<HeldExtents> made(new HeldExtents(std::move(file), *sector, file_system == XFS_SUPER_MAGIC, terms));
  const MutexLock lock(made->mutex_);
  if (const ExtentCause cause = made->take_lease(); cause != ExtentCause::none) return {nullptr, cause};
  made->lease_.give_back(true);
  return {std::move(made)};
}

bool HeldExtents::try_hold() {
  std::uint64_t state = state_.load(std::memory_order_acquire);
  while ((state & (kHeld | kEnds)) == kHeld) {
    if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire)) return true;
  }
  return false;
}

ExtentCause HeldExtents::hold() {
  if (is_inherited()) return ExtentCause::inherited;
  return try_hold() ? ExtentCause::none : hold_slowly();
}

ExtentCause HeldExtents::hold_slowly() {
  if (coarse_now() < refuses_until_.load(std::memory_order_acquire)) return refusal_.load(std::memory_order_relaxed);
  const MutexLock lock(mutex_);
  if (try_hold()) return ExtentCause::none;
  if ((state_.load() & kHolders) != 0) return ExtentCause::asked_back;
  (void)drop(kHeld | kEnds);
  const ExtentCause cause = take();
  return cause == ExtentCause::none ? cause : refuse(cause);
}

ExtentCause HeldExtents::refuse(ExtentCause cause) {
  refusal_.store(cause, std::memory_order_relaxed);
  refuses_until_.store(coarse_now() + terms_.refuses_for.count(), std::memory_order_release);
  return cause;
}

// A signal that came before the state says kHeld is found by asking once more behind it.
ExtentCause HeldExtents::take() {
  // Before the lease: to ask opens the file for a moment.
  if (const ExtentCause cause = cause_of_form(file_.get()); cause != ExtentCause::none) return cause;
  if (const ExtentCause cause = take_lease(); cause != ExtentCause::none) return cause;
  ExtentCause unread = read_extents();
  if (unread == ExtentCause::none && terms_.is_written) unread = drop_cached();
  if (unread != ExtentCause::none) {
    lease_.give_back(file_.is_ours());
    return unread;
  }
  used_at_.store(coarse_now(), std::memory_order_relaxed);
  state_.store(kHeld | 1, std::memory_order_release);
  if (lease_.is_held()) return ExtentCause::none;
  state_.fetch_or(kEnds);
  state_.fetch_sub(1);
  (void)drop(kHeld | kEnds);
  return ExtentCause::asked_back;
}

ExtentCause HeldExtents::take_lease() {
  if (!file_.is_ours()) return ExtentCause::descriptor_lost;
  const ExtentCause cause = cause_of_lease(lease_.take(file_.get()));
  if (cause != ExtentCause::none || !terms_.is_written || is_exclusive()) return cause;
  lease_.give_back(true);
  return ExtentCause::writers;
}

// Dirty pages were written back when the extents were read, and nobody else makes new ones under this lease.
ExtentCause HeldExtents::drop_cached() const {
  (void)::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED);
  return count_cached_pages(file_.get(), 0, 0) == 0 ? ExtentCause::none : ExtentCause::cached;
}

ExtentCause HeldExtents::read_extents() {
  struct stat facts {};
  if (::fstat(file_.get(), &facts) != 0) return ExtentCause::descriptor_lost;
  const auto size = static_cast<std::uint64_t>(facts.st_size);
  map_.clear(size, sector_, terms_.is_written);
  ExtentReader reader(file_.get(), 0, size, FIEMAP_FLAG_SYNC);
  for (;;) {
    const auto extents = reader.next();
    if (!extents.ok()) return ExtentCause::extents_unknown;
    if (extents->empty()) return ExtentCause::none;
    for (const fiemap_extent& extent : *extents) {
      if (const ExtentCause cause = map_.add(extent); cause != ExtentCause::none) return cause;
    }
  }
}

// Gives the lease back if the state is the expected one, with nothing under way.
bool HeldExtents::drop(std::uint64_t expected) {
  if (!state_.compare_exchange_strong(expected, 0)) return false;
  lease_.give_back(file_.is_ours());
  state_.store(0);  // The keeper may have asked meanwhile.
  return true;
}

void HeldExtents::drop_if_idle() {
  const MutexLock lock(mutex_);
  (void)drop(kHeld | kEnds);
}

void HeldExtents::let_go() {
  if (is_inherited()) return;
  if (const std::int64_t time = coarse_now(); used_at_.load(std::memory_order_relaxed) != time) {
    used_at_.store(time, std::memory_order_relaxed);
  }
  const std::uint64_t state = state_.fetch_sub(1, std::memory_order_acq_rel) - 1;
  if (state == (kHeld | kEnds)) drop_if_idle();
}

// The keeper does not wait for the mutex. A thread that has it takes the lease, and looks itself at the end, or drops
// it.
std::chrono::nanoseconds HeldExtents::look(bool is_asked_back) {
  std::uint64_t state = state_.load(std::memory_order_acquire);
  if ((state & kHeld) == 0) return terms_.linger;
  if (is_asked_back) state = state_.fetch_or(kEnds);  // Either this or the last let_go() sees the other.
  const std::chrono::nanoseconds idle(coarse_now() - used_at_.load(std::memory_order_relaxed));
  if ((state & kHolders) != 0) return terms_.linger;
  if (!is_asked_back && idle < terms_.linger) return terms_.linger - idle;
  if (!mutex_.try_lock()) return std::chrono::milliseconds(1);
  const MutexLock lock(mutex_, std::adopt_lock);
  (void)drop(is_asked_back ? kHeld | kEnds : kHeld);
  return terms_.linger;
}

ExtentCause HeldExtents::compare(std::uint64_t offset, std::uint64_t size) const {
  ExtentReader reader(file_.get(), offset, offset + size, 0);
  ExtentComparison comparison(map_, offset, size);
  for (;;) {
    const auto extents = reader.next();
    if (!extents.ok()) return ExtentCause::extents_unknown;
    if (extents->empty()) return comparison.is_equal() ? ExtentCause::none : ExtentCause::moved;
    for (const fiemap_extent& extent : *extents) comparison.add(extent);
  }
}

// No signal tells of blocks that moved, or of a descriptor that the program has closed.
ExtentCause HeldExtents::ended(ExtentCause cause) {
  if (cause != ExtentCause::none) state_.fetch_or(kEnds);
  return cause;
}

// The blocks may have moved since hold(): they could be back when is_intact() looks.
ExtentMap::Found HeldExtents::map(std::uint64_t offset, std::uint64_t size, std::span<DrivePiece> pieces) {
  const ExtentMap::Found found = map_.find(offset, size, pieces);
  // The file system writes there now, and then the place is fit.
  if (found.cause == ExtentCause::unwritten && terms_.is_written) (void)ended(found.cause);
  if (found.cause != ExtentCause::none || !has_deduplication_ || is_exclusive()) return found;
  const ExtentCause cause = ended(compare(offset, size));
  return cause == ExtentCause::none ? found : ExtentMap::Found{0, cause};
}

ExtentCause HeldExtents::is_intact(std::uint64_t offset, std::uint64_t size) {
  return ended(lease_.is_held() ? compare(offset, size) : ExtentCause::lease_lost);
}

}  // namespace penstock::core
