// SPDX-License-Identifier: Apache-2.0

#include "storage/uring_ring.h"

#include <fcntl.h>
#include <liburing.h>
#include <sched.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <thread>

#include "base/invariant.h"
#include "storage/uring_dmabuf.h"

namespace penstock::core {
namespace {

// The most operations that wait for submit(). Each system call, and each doorbell of the device, costs as much as an
// operation; but a device idles while operations wait. With 16 in flight, two at once reached 0.97 of fio's rate for
// its CPU time, and eight 0.84 for 0.83 of it (random reads of 4 KiB, virtio disk, 2026-11-25).
constexpr unsigned kSubmitMin = 2;
constexpr unsigned kSubmitMax = 8;
constexpr unsigned kFileSlots = 16;
// How often a submission may fail for lack of kernel memory; the thread yields in between.
constexpr int kStallsMax = 10'000;
// The user_data of the completion that tells of a slot's release; operations have smaller numbers.
constexpr std::uint64_t kReleased = std::uint64_t{1} << 32;
// Completions of operations have how often their index was used before, so that one that comes twice is of none.
constexpr std::uint64_t kTurn = std::uint64_t{1} << 33;
constexpr int kReleaseSecondsMax = 10;
// A ring whose descriptor is gone tells nobody when an operation ends.
constexpr std::chrono::milliseconds kBetweenLooks{10};

// Set-up flags, best first. A kernel that does not know one answers EINVAL, and the next row is tried. Rings pass from
// thread to thread, so no flag binds a ring to its first thread.
constexpr unsigned kSetUpFlags[] = {
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,  // Linux 5.19
    0,
};

// liburing maps rings by system calls of its own, which ThreadSanitizer does not see: a ring at the address of one that
// is gone is the same memory for it. This counter tells it that the threads of the old one were done.
std::atomic<unsigned> rings_gone{0};

int set_up(io_uring& ring, unsigned depth) {
  int result = -EINVAL;
  for (const unsigned flags : kSetUpFlags) {
    io_uring_params parameters{};
    parameters.flags = flags | IORING_SETUP_CLAMP;
    result = ::io_uring_queue_init_params(depth, &ring, &parameters);
    if (result != -EINVAL) return result;
  }
  return result;
}

// True if the operation may be tried again. The kernel may ask for that, or give up on an operation when the thread
// that submitted it has ended (ECANCELED, or EFAULT because its memory map is gone). All of these are retried once; a
// real fault fails again.
bool is_for_another_try(int result) {
  return result == -EAGAIN || result == -EINTR || result == -ECANCELED || result == -EFAULT;
}

// True if a wait is to be tried again: after a signal, or where completions overflowed that the kernel could not hand
// out yet (EBUSY).
bool is_for_another_wait(int result) { return result == -EINTR || result == -EAGAIN || result == -EBUSY; }

int perform_blocking(const RingOp& op) {
  ssize_t moved;
  do {
    moved = op.op == Op::read ? ::pread(op.fd, op.memory, op.size, static_cast<off_t>(op.offset))
                              : ::pwrite(op.fd, op.memory, op.size, static_cast<off_t>(op.offset));
  } while (moved < 0 && errno == EINTR);
  return moved < 0 ? -errno : static_cast<int>(moved);
}

}  // namespace

UringRing::UringRing(unsigned depth)
    : Ring(this), ring_(std::make_unique<io_uring>()), ops_(depth), turns_(depth), files_(kFileSlots, -1),
      submit_max_(std::clamp(depth / 8, kSubmitMin, kSubmitMax)) {
  for (unsigned i = depth; i > 0; --i) unused_.push_back(i - 1);
}

Result<std::unique_ptr<Ring>> UringRing::open(unsigned depth) {
  std::unique_ptr<UringRing> ring(new UringRing(depth));
  const int result = set_up(*ring->ring_, depth);
  if (result < 0) {
    ring->ring_.reset();
    return os_failure(-result, "set up io_uring");
  }
  (void)rings_gone.load(std::memory_order_acquire);
  // A forked child must not map the memory that the parent shares with the kernel.
  (void)::io_uring_ring_dontfork(ring->ring_.get());
  // Registered files are an optimisation; kernels before 5.19 have no sparse table and run without.
  ring->files_registered_ = ::io_uring_register_files_sparse(ring->ring_.get(), kFileSlots) == 0;
  return std::unique_ptr<Ring>(std::move(ring));
}

UringRing::~UringRing() {
  if (ring_ == nullptr) return;
  // Drains the ring: the kernel may still write into memory that is freed after this.
  RingCompletion left[8];
  while (in_flight_ > 0) {
    if (!reap(left, true).ok()) break;
  }
  // Keeps the ring's destruction from what somebody else has under its number.
  if (!owns_its_descriptor()) ring_->ring_fd = ring_->enter_ring_fd = -1;
  // The kernel frees a ring asynchronously. So files are unregistered now, so that their file systems can be unmounted,
  // and memory, so that the next ring does not pin its own in addition.
  if (files_registered_) (void)::io_uring_unregister_files(ring_.get());
  if (region_room_ != 0) drop_memory();
  rings_gone.fetch_add(1, std::memory_order_release);
  ::io_uring_queue_exit(ring_.get());
}

// False if the program closed the descriptor by number (closefrom). Without /proc it counts as ours.
bool UringRing::owns_its_descriptor() const {
  char name[32], target[32];
  std::snprintf(name, sizeof name, "/proc/self/fd/%d", ring_->ring_fd);
  const ssize_t length = ::readlink(name, target, sizeof target);
  if (length < 0) return ::fcntl(ring_->ring_fd, F_GETFD) >= 0;
  return std::string_view(target, static_cast<std::size_t>(length)) == "anon_inode:[io_uring]";
}

// The number of the dma-buf, or of the registered memory that contains the operation's memory, or -1.
int UringRing::fixed_memory(const RingOp& op) const {
  if (op.slot >= 0) return op.slot;
  const auto begin = reinterpret_cast<std::uintptr_t>(op.memory);
  for (unsigned i = 0; i < region_room_; ++i) {
    if (begin >= regions_[i].begin && begin + op.size <= regions_[i].end) return static_cast<int>(i);
  }
  return -1;
}

void UringRing::push(const RingOp& op) {
  PENSTOCK_INVARIANT(!unused_.empty());
  const std::uint32_t index = unused_.back();
  unused_.pop_back();
  ops_[index] = op;
  io_uring_sqe* entry = ::io_uring_get_sqe(ring_.get());
  PENSTOCK_INVARIANT(entry != nullptr);  // The queue is as deep as ops_.
  const int memory = fixed_memory(op);
  const int fd = op.fixed_file >= 0 ? op.fixed_file : op.fd;
  if (op.op == Op::read) {
    if (memory >= 0) ::io_uring_prep_read_fixed(entry, fd, op.memory, op.size, op.offset, memory);
    else ::io_uring_prep_read(entry, fd, op.memory, op.size, op.offset);
  } else {
    if (memory >= 0) ::io_uring_prep_write_fixed(entry, fd, op.memory, op.size, op.offset, memory);
    else ::io_uring_prep_write(entry, fd, op.memory, op.size, op.offset);
  }
  if (op.fixed_file >= 0) entry->flags |= IOSQE_FIXED_FILE;
  if (op.is_durable) entry->rw_flags = RWF_DSYNC;
  entry->user_data = turns_[index] | index;
  ++in_flight_;
  // The next call reports a failure.
  if (++unsubmitted_ >= submit_max_) (void)submit();
}

Status UringRing::submit() { return submit_and_wait(0); }

// Submits and waits by one system call. If not all can be submitted, the kernel does not wait.
Status UringRing::submit_and_wait(unsigned least) {
  while (unsubmitted_ > 0 && failure_.ok()) {
    const int result = ::io_uring_submit_and_wait(ring_.get(), least);
    if (result == -EINTR) continue;
    // The kernel is short of memory or of completion space: the remaining operations are submitted with the next reap.
    if (result == -EAGAIN || result == -EBUSY || result == 0) return success();
    if (result < 0) failure_ = os_failure(-result, "submit to io_uring");
    else unsubmitted_ -= std::min(static_cast<unsigned>(result), unsubmitted_);
  }
  return failure_;
}

bool UringRing::is_under_way(std::uint64_t data) const {
  const auto index = static_cast<std::uint32_t>(data);
  return index < ops_.size() && data == (turns_[index] | index);
}

RingCompletion UringRing::complete(std::uint64_t data, int result) {
  const auto index = static_cast<std::uint32_t>(data);
  const RingOp op = ops_[index];
  turns_[index] += kTurn;
  unused_.push_back(index);
  --in_flight_;
  if (op.slot < 0 && is_for_another_try(result)) result = perform_blocking(op);
  return {op.tag, result};
}

unsigned UringRing::take(std::span<RingCompletion> completions) {
  unsigned count = 0;
  io_uring_cqe* entry = nullptr;
  while (count < completions.size() && ::io_uring_peek_cqe(ring_.get(), &entry) == 0) {
    if (is_under_way(entry->user_data)) completions[count++] = complete(entry->user_data, entry->res);
    ::io_uring_cqe_seen(ring_.get(), entry);
  }
  return count;
}

Result<unsigned> UringRing::reap(std::span<RingCompletion> completions, bool wait) {
  if (in_flight_ == 0 || completions.empty()) return 0u;
  for (int stalls = 0;;) {
    const bool is_any_done = ::io_uring_cq_ready(ring_.get()) > 0;
    (void)submit_and_wait(wait && !is_any_done ? 1 : 0);
    const unsigned count = take(completions);
    if (count > 0) return count;
    if (!failure_.ok() && in_flight_ == unsubmitted_) return failure_;
    if (!wait) return 0u;
    if (!failure_.ok()) std::this_thread::sleep_for(kBetweenLooks);
    else if (unsubmitted_ == 0) wait_for_completion();
    // Waiting now could last for ever, because nothing may have reached the kernel yet.
    else if (++stalls > kStallsMax) failure_ = os_failure(EAGAIN, "submit to io_uring");
    else ::sched_yield();
  }
}

void UringRing::wait_for_completion() {
  io_uring_cqe* entry = nullptr;
  const int result = ::io_uring_wait_cqe(ring_.get(), &entry);
  if (result < 0 && !is_for_another_wait(result)) failure_ = os_failure(-result, "wait for io_uring");
}

// Before Linux 5.11 a time limit is a separate operation with an extra completion.
bool UringRing::wait_until(std::chrono::steady_clock::time_point deadline) {
  if ((ring_->features & IORING_FEAT_EXT_ARG) == 0 || !submit().ok() || unsubmitted_ > 0) return false;
  const std::chrono::nanoseconds left = deadline - std::chrono::steady_clock::now();
  if (left.count() <= 0) return true;
  const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
  __kernel_timespec limit{.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
  io_uring_cqe* entry = nullptr;
  const int result = ::io_uring_wait_cqes(ring_.get(), &entry, 1, &limit, nullptr);
  return result >= 0 || result == -ETIME || is_for_another_wait(result);
}

// The errno with which the kernel refuses a table that can be changed.
int UringRing::table_error() {
  if (region_room_ != 0) return 0;
  const int result = ::io_uring_register_buffers_sparse(ring_.get(), kTableSize);
  if (result == 0) region_room_ = kRegionsMax;
  return -result;
}

// Null if the table is full. Where there is no table yet, its first place.
UringRing::Region* UringRing::free_region() {
  const auto end = regions_.begin() + std::max(region_room_, 1u);
  const auto place = std::find_if(regions_.begin(), end, [](const Region& region) { return region.end == 0; });
  return place == end ? nullptr : &*place;
}

Status UringRing::register_memory(void* memory, std::size_t size) {
  constexpr const char* kStep = "register memory with io_uring";
  const iovec vector{memory, size};
  const bool has_table = table_error() == 0;
  Region* const region = free_region();
  if (region == nullptr) return os_failure(ENOSPC, kStep);
  int result;
  if (!has_table) {  // Before Linux 5.19 the ring has one table, which cannot be changed.
    result = ::io_uring_register_buffers(ring_.get(), &vector, 1);
    if (result == 0) region_room_ = 1;
  } else {
    const __u64 no_tag = 0;
    const auto number = static_cast<unsigned>(region - regions_.data());
    result = ::io_uring_register_buffers_update_tag(ring_.get(), number, &vector, &no_tag, 1);
  }
  if (result < 0) return os_failure(-result, kStep);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  *region = {begin, begin + size};
  return success();
}

// The release of a lent slot is told to nobody: its completion would come between those of operations.
Result<int> UringRing::add(int dmabuf, int drive, bool is_lent) {
  constexpr const char* kStep = "register a dma-buf with io_uring";
  if (const int error = table_error(); error != 0) return os_failure(error, kStep);
  if (region_room_ < kRegionsMax) return os_failure(EINVAL, kStep);
  const auto place = std::find(dmabufs_.begin(), dmabufs_.end(), Dmabuf::none);
  if (place == dmabufs_.end()) return os_failure(ENOSPC, kStep);
  const auto slot = kRegionsMax + static_cast<unsigned>(place - dmabufs_.begin());
  const int error = set_uring_dmabuf(ring_->ring_fd, slot, dmabuf, drive, is_lent ? 0 : kReleased | slot);
  if (error != 0) return os_failure(error, kStep);
  *place = is_lent ? Dmabuf::lent : Dmabuf::own;
  return static_cast<int>(slot);
}

Status UringRing::release(int slot) const {
  const int error = clear_uring_dmabuf(ring_->ring_fd, static_cast<unsigned>(slot));
  return error == 0 ? success() : os_failure(error, "release a dma-buf from io_uring");
}

Status UringRing::remove(int slot) {
  Dmabuf& dmabuf = dmabufs_.at(static_cast<unsigned>(slot) - kRegionsMax);
  PENSTOCK_INVARIANT(in_flight_ == 0 && dmabuf != Dmabuf::none);
  if (const Status status = release(slot); !status.ok()) return status;
  const Status status = dmabuf == Dmabuf::own ? wait_for_release(static_cast<unsigned>(slot)) : success();
  if (status.ok()) dmabuf = Dmabuf::none;
  return status;
}

// Nothing is in flight, so the next completion is that of the slot's release.
Status UringRing::wait_for_release(unsigned slot) {
  __kernel_timespec limit{.tv_sec = kReleaseSecondsMax, .tv_nsec = 0};
  io_uring_cqe* entry = nullptr;
  int result;
  do {
    result = ::io_uring_wait_cqe_timeout(ring_.get(), &entry, &limit);
  } while (is_for_another_wait(result));
  if (result < 0) return os_failure(-result, "wait for the release of a dma-buf");
  PENSTOCK_INVARIANT(entry->user_data == (kReleased | slot));
  ::io_uring_cqe_seen(ring_.get(), entry);
  return success();
}

// Operations in flight keep the pages pinned until they end.
void UringRing::unregister_memory(void* memory) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const auto is_it = [&](const Region& region) { return region.end != 0 && region.begin == begin; };
  const auto place = std::find_if(regions_.begin(), regions_.end(), is_it);
  if (place == regions_.end()) return;
  const iovec nothing{nullptr, 0};
  const __u64 no_tag = 0;
  const auto number = static_cast<unsigned>(place - regions_.begin());
  const int result = ::io_uring_register_buffers_update_tag(ring_.get(), number, &nothing, &no_tag, 1);
  if (result < 0) drop_memory();
  else *place = {};
}

// Unregisters all memory. A signal may interrupt the kernel while it waits for operations in flight.
void UringRing::drop_memory() {
  while (::io_uring_unregister_buffers(ring_.get()) == -EINTR) {
  }
  region_room_ = 0;
  regions_ = {};
  dmabufs_ = {};
}

int UringRing::register_file(int fd) {
  if (!files_registered_) return -1;
  const auto free_slot = std::find(files_.begin(), files_.end(), -1);
  if (free_slot == files_.end()) return -1;
  const auto number = static_cast<int>(free_slot - files_.begin());
  if (::io_uring_register_files_update(ring_.get(), static_cast<unsigned>(number), &fd, 1) != 1) return -1;
  *free_slot = fd;
  return number;
}

void UringRing::unregister_file(int fixed_file) {
  if (fixed_file < 0) return;
  int none = -1;
  (void)::io_uring_register_files_update(ring_.get(), static_cast<unsigned>(fixed_file), &none, 1);
  files_[static_cast<std::size_t>(fixed_file)] = -1;
}

}  // namespace penstock::core
