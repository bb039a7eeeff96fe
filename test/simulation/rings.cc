// SPDX-License-Identifier: Apache-2.0

// io_uring, in place of liburing's functions: rings that the simulation fills, in an order and at times that the seed
// decides. Memory that is registered must be, and nothing may be in flight when a ring goes.
#include <fcntl.h>
#include <liburing.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "simulation/dmabufs.h"
#include "simulation/files.h"
#include "simulation/scheduler.h"

namespace {

using namespace penstock::simulation;

constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr unsigned kOwnFeatures = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP;

struct Ring {
  unsigned submission_head = 0, submission_tail = 0, head = 0, tail = 0, flags = 0;
  std::vector<io_uring_sqe> entries;
  std::vector<io_uring_cqe> completions;
  std::vector<iovec> regions;
  std::vector<int> files;
  unsigned in_flight = 0;
  // As one whose descriptor somebody closed: no call is answered. What it has begun goes on, and is told in its memory.
  bool is_broken = false;
  int fd = -1;
  std::optional<RingSlots> slots;                               // For dma-bufs, on a machine that has them.
  std::shared_ptr<Ring*> self = std::make_shared<Ring*>(this);  // Gone with the ring.

  unsigned ready() const { return tail - head; }
  void post(std::uint64_t data, int result) {
    completions[tail & (completions.size() - 1)] = {.user_data = data, .res = result, .flags = 0};
    ++tail;
    scheduler().wake(this);
  }
  void complete(std::uint64_t data, int result) {
    --in_flight;
    post(data, result);
  }
};

// What the kernel of this run knows. One that takes dma-bufs is a new one.
struct Kernel {
  Kernel() {
    if (dmabufs().is_there()) has_flags = has_tables = has_file_tables = has_limits = true;
  }
  bool is_forbidden = scheduler().random().one_in(16);
  bool has_flags = !scheduler().random().one_in(4);
  bool has_tables = !scheduler().random().one_in(4);  // Of memory, that can be changed.
  bool has_file_tables = !scheduler().random().one_in(4);
  bool has_limits = !scheduler().random().one_in(4);  // Of the time of a wait.
  // One call in so many finds its ring broken; 0: none does.
  unsigned breaks_one_in = scheduler().random().one_in(12) ? 1u << scheduler().random().between(4, 9) : 0;
};

const Kernel& kernel() {
  static const Kernel only;
  return only;
}

// Those with slots for dma-bufs, by their descriptors.
std::map<int, Ring*>& rings_with_slots() {
  static auto* const only = new std::map<int, Ring*>;
  return *only;
}

Ring& ring_of(io_uring* ring) { return *static_cast<Ring*>(ring->cq.ring_ptr); }

bool is_broken(Ring& ring) {
  if (!ring.is_broken && kernel().breaks_one_in != 0 && scheduler().random().one_in(kernel().breaks_one_in)) {
    ring.is_broken = true;
    ++disk().faults[static_cast<std::size_t>(Fault::ring)];
  }
  return ring.is_broken;
}

// What the fixed memory and file of an entry mean; the errno if they mean nothing.
int look_up(const Ring& ring, const io_uring_sqe& entry, int& fd) {
  fd = entry.fd;
  if ((entry.flags & IOSQE_FIXED_FILE) != 0) {
    if (static_cast<std::size_t>(entry.fd) >= ring.files.size()) return EBADF;
    fd = ring.files[static_cast<std::size_t>(entry.fd)];
  }
  if (fd < 0) return EBADF;
  if (entry.opcode != IORING_OP_READ_FIXED && entry.opcode != IORING_OP_WRITE_FIXED) return 0;
  if (entry.buf_index >= ring.regions.size()) return EFAULT;
  const iovec& region = ring.regions[entry.buf_index];
  const auto base = reinterpret_cast<std::uintptr_t>(region.iov_base);
  return entry.addr >= base && entry.addr + entry.len <= base + region.iov_len ? 0 : EFAULT;
}

struct Operation {
  const iovec memory;
  const Moving moving;
  const std::uint64_t data;
  const Fate fate;

  Operation(const std::shared_ptr<File>& file, bool is_write, bool is_direct, const io_uring_sqe& entry,
            const Fate& its_fate)
      : memory{reinterpret_cast<void*>(entry.addr), entry.len},
        moving(file, is_write, {&memory, 1}, entry.off, is_direct), data(entry.user_data), fate(its_fate) {}
};

// At once or later, when the program may have something else under way.
void complete_again(const Ring& ring, std::uint64_t data, int result) {
  Random& random = scheduler().random();
  const Nanoseconds later = random.one_in(2) ? 0 : random.below(1'000'000);
  scheduler().at(scheduler().now() + later, [=, known = std::weak_ptr<Ring*>(ring.self)] {
    const std::shared_ptr<Ring*> found = known.lock();
    // Those that are awaited have room.
    if (found && (*found)->ready() + (*found)->in_flight < (*found)->completions.size()) (*found)->post(data, result);
  });
}

// Half of the bytes move halfway.
void perform(Ring& ring, const std::shared_ptr<Operation>& operation) {
  const Nanoseconds now = scheduler().now();
  const Fate& fate = operation->fate;
  const std::size_t half = fate.bytes / 2 / 4096 * 4096;
  const auto moved = std::make_shared<std::size_t>(0);
  scheduler().at(now + fate.latency / 2, [=] { *moved = operation->moving.move(0, half); });
  scheduler().at(now + fate.latency, [=, &ring] {
    if (*moved == half) *moved += operation->moving.move(half, operation->fate.bytes);
    const int error = operation->fate.error;
    const int result = error != 0 ? -error : static_cast<int>(*moved);
    ring.complete(operation->data, result);
    if (operation->moving.file().has(Fault::doubled)) complete_again(ring, operation->data, result);
  });
}

void start(Ring& ring, const io_uring_sqe& entry) {
  ++ring.in_flight;
  const bool is_fixed = entry.opcode == IORING_OP_READ_FIXED || entry.opcode == IORING_OP_WRITE_FIXED;
  if (is_fixed && ring.slots && ring.slots->has(entry.buf_index))
    return ring.slots->start(entry, [&ring, data = entry.user_data](int result) { ring.complete(data, result); });
  int fd = -1;
  const bool is_write = entry.opcode == IORING_OP_WRITE || entry.opcode == IORING_OP_WRITE_FIXED;
  const iovec memory{reinterpret_cast<void*>(entry.addr), entry.len};
  if (const int error = look_up(ring, entry, fd); error != 0) return ring.complete(entry.user_data, -error);
  const Disk::Open* const open = disk().find(fd);
  if (open == nullptr) {  // A file of the machine's own.
    const ssize_t moved = is_write ? ::pwrite(fd, memory.iov_base, memory.iov_len, static_cast<off_t>(entry.off))
                                   : ::pread(fd, memory.iov_base, memory.iov_len, static_cast<off_t>(entry.off));
    return ring.complete(entry.user_data, moved < 0 ? -errno : static_cast<int>(moved));
  }
  if (is_write && !open->is_direct) Moving::require_no_neighbour(*open->file, entry.off, entry.off + entry.len);
  Fate fate = open->file->decide(is_write, open->is_direct, {&memory, 1}, entry.off);
  if (fate.error == EAGAIN && scheduler().random().one_in(2)) fate.error = ECANCELED;  // Its thread has ended.
  perform(ring, std::make_shared<Operation>(open->file, is_write, open->is_direct, entry, fate));
}

// Returns how many it takes, or a negative errno.
int submit(io_uring* ring) {
  Ring& own = ring_of(ring);
  unsigned count = ring->sq.sqe_tail - ring->sq.sqe_head;
  if (count == 0) return 0;
  Random& random = scheduler().random();
  if (disk().refuses(64)) return random.one_in(2) ? -EAGAIN : -EINTR;
  if (own.in_flight > 0 && disk().refuses(64)) return -EBUSY;
  if (random.one_in(16)) count = static_cast<unsigned>(random.between(1, count));
  for (unsigned i = 0; i < count; ++i) start(own, ring->sq.sqes[ring->sq.sqe_head++ & ring->sq.ring_mask]);
  own.submission_head = ring->sq.sqe_head;
  return static_cast<int>(count);
}

// False at the deadline.
bool wait_for(Ring& ring, unsigned least, Nanoseconds deadline) {
  while (ring.ready() < least) {
    if (!scheduler().wait(Call::ring, &ring, deadline) && scheduler().now() >= deadline) return false;
  }
  return true;
}

// An update of the table that liburing does not know yet.
bool (*answer_others)(long number, const long* arguments, long& answer) = nullptr;

bool answer_register(long number, const long* arguments, long& result) {
  constexpr long kUpdateBuffers = 16;
  if (number != __NR_io_uring_register || arguments[1] != kUpdateBuffers)
    return answer_others != nullptr && answer_others(number, arguments, result);
  scheduler().point(Call::ring);
  const auto found = rings_with_slots().find(static_cast<int>(arguments[0]));
  std::uint64_t told = 0;
  result = found == rings_with_slots().end() ? -EINVAL : -EBADF;
  if (found != rings_with_slots().end() && !found->second->is_broken)
    result = found->second->slots->update(reinterpret_cast<const void*>(arguments[2]), told);
  if (told != 0) found->second->post(told, 0);
  if (result < 0) errno = static_cast<int>(-result), result = -1;
  return true;
}

const bool answers = (answer_others = std::exchange(answer_call, answer_register), true);

// The kernel registers none, as it would hold such pages for long.
bool has_memory_of_devices(std::span<const iovec> regions) {
  return is_of_a_device != nullptr &&
         std::any_of(regions.begin(), regions.end(), [](const iovec& one) { return is_of_a_device(one.iov_base); });
}

unsigned power_of_two(unsigned count) {
  unsigned power = 1;
  while (power < count) power *= 2;
  return power;
}

}  // namespace

extern "C" {

int io_uring_queue_init_params(unsigned entries, struct io_uring* ring, struct io_uring_params* parameters) {
  if (kernel().is_forbidden) return -EPERM;
  if (!kernel().has_flags && (parameters->flags & ~IORING_SETUP_CLAMP) != 0) return -EINVAL;
  auto* const own = new Ring;
  own->entries.resize(power_of_two(entries));
  own->completions.resize(2 * own->entries.size());
  own->fd = ::eventfd(0, EFD_CLOEXEC);
  if (dmabufs().is_there()) own->slots.emplace(), rings_with_slots()[own->fd] = own;
  *ring = {};
  ring->sq.khead = &own->submission_head;
  ring->sq.ktail = &own->submission_tail;
  ring->sq.kflags = ring->cq.kflags = &own->flags;
  ring->sq.sqes = own->entries.data();
  ring->sq.ring_entries = static_cast<unsigned>(own->entries.size());
  ring->sq.ring_mask = ring->sq.ring_entries - 1;
  ring->cq.khead = &own->head;
  ring->cq.ktail = &own->tail;
  ring->cq.cqes = own->completions.data();
  ring->cq.ring_entries = static_cast<unsigned>(own->completions.size());
  ring->cq.ring_mask = ring->cq.ring_entries - 1;
  ring->cq.ring_ptr = own;
  ring->ring_fd = ring->enter_ring_fd = own->fd;
  ring->features = kOwnFeatures | (kernel().has_limits ? IORING_FEAT_EXT_ARG : 0);
  return 0;
}

void io_uring_queue_exit(struct io_uring* ring) {
  Ring* const own = &ring_of(ring);
  if (own->in_flight > 0) scheduler().fail("a ring goes away with operations in flight");
  ::close(own->fd);
  rings_with_slots().erase(own->fd);
  delete own;
}

int io_uring_ring_dontfork(struct io_uring*) { return 0; }

int io_uring_submit_and_wait(struct io_uring* ring, unsigned least) {
  scheduler().point(Call::ring);
  if (is_broken(ring_of(ring))) return -EBADF;
  const unsigned all = ring->sq.sqe_tail - ring->sq.sqe_head;
  const int submitted = submit(ring);
  if (submitted == static_cast<int>(all) && ring_of(ring).in_flight > 0) wait_for(ring_of(ring), least, kForever);
  return submitted;
}

int __io_uring_get_cqe(struct io_uring* ring, struct io_uring_cqe** entry, unsigned, unsigned least, sigset_t*) {
  scheduler().point(Call::ring);
  Ring& own = ring_of(ring);
  *entry = nullptr;
  if (is_broken(own)) return -EBADF;
  if (own.ready() == 0 && least == 0) return -EAGAIN;
  if (disk().refuses(64)) return scheduler().random().one_in(2) ? -EINTR : -EBUSY;
  wait_for(own, std::max(least, 1u), kForever);
  *entry = &own.completions[own.head & ring->cq.ring_mask];
  return 0;
}

int io_uring_wait_cqes(struct io_uring* ring, struct io_uring_cqe** entry, unsigned least,
                       struct __kernel_timespec* limit, sigset_t*) {
  scheduler().point(Call::ring);
  Ring& own = ring_of(ring);
  if (is_broken(own)) return -EBADF;
  const Nanoseconds time = static_cast<Nanoseconds>(limit->tv_sec) * kSecond + static_cast<Nanoseconds>(limit->tv_nsec);
  if (!wait_for(own, least, scheduler().now() + time)) return -ETIME;
  *entry = &own.completions[own.head & ring->cq.ring_mask];
  return 0;
}

int io_uring_wait_cqe_timeout(struct io_uring* ring, struct io_uring_cqe** entry, struct __kernel_timespec* limit) {
  if (disk().refuses(64)) return -EINTR;
  return io_uring_wait_cqes(ring, entry, 1, limit, nullptr);
}

int io_uring_register_files_sparse(struct io_uring* ring, unsigned count) {
  if (!kernel().has_file_tables) return -EINVAL;
  ring_of(ring).files.assign(count, -1);
  return 0;
}
int io_uring_register_files_update(struct io_uring* ring, unsigned first, const int* files, unsigned count) {
  if (ring_of(ring).is_broken) return -EBADF;
  std::copy_n(files, count, ring_of(ring).files.begin() + first);
  return static_cast<int>(count);
}
int io_uring_unregister_files(struct io_uring* ring) { return ring_of(ring).files.clear(), 0; }

int io_uring_register_buffers_sparse(struct io_uring* ring, unsigned count) {
  if (!kernel().has_tables) return -EINVAL;
  ring_of(ring).regions.assign(count, {});
  return 0;
}
int io_uring_register_buffers(struct io_uring* ring, const struct iovec* regions, unsigned count) {
  if (!ring_of(ring).regions.empty()) return -EBUSY;
  if (has_memory_of_devices({regions, count})) return -EFAULT;
  ring_of(ring).regions.assign(regions, regions + count);
  return 0;
}
int io_uring_register_buffers_update_tag(struct io_uring* ring, unsigned first, const struct iovec* regions,
                                         const __u64*, unsigned count) {
  Ring& own = ring_of(ring);
  if (own.is_broken) return -EBADF;
  if (first + count > own.regions.size()) return -EINVAL;
  if (has_memory_of_devices({regions, count})) return -EFAULT;
  if (disk().refuses(16)) return -ENOMEM;
  std::copy_n(regions, count, own.regions.begin() + first);
  return static_cast<int>(count);
}
int io_uring_unregister_buffers(struct io_uring* ring) { return ring_of(ring).regions.clear(), 0; }

}  // extern "C"
