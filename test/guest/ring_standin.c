// SPDX-License-Identifier: Apache-2.0

/* Answers io_uring's calls about dma-bufs in place of a kernel that takes them (LD_PRELOAD), with the answers that were
 * measured on one. The program's own system calls are trapped (seccomp), since liburing is part of it; all that is not
 * about dma-bufs goes to the real kernel. A request on a dma-buf is moved here, at once, and becomes a NOP with its
 * result. Bytes go to where the dma-buf really is: by the CPU into what it maps, or, if its name says so (`bar:OFFSET`)
 * and PENSTOCK_RING_ALIAS names a device with the same memory behind it, by the drive's DMA engine into that.
 *
 * PENSTOCK_RING_ANSWERS=N:RESULT  every Nth request larger than two pages, the canary's largest, moves nothing and ends
 *                                 with RESULT: a negative errno, or bytes; N+ is every one from the Nth on
 * PENSTOCK_RING_LIE=N             the Nth request larger than two pages leaves its last 512 bytes out, and reports
 *                                 success: what the tests have to notice
 * PENSTOCK_RING_STOPS=N           the program stops (SIGSTOP) before that request is moved
 *
 * Not simulated: the time that a map takes, maps that move, registered files, a ring that is closed (its memory stays
 * until its number is used again), programs that start others. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <linux/kcmp.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

enum { kRingsMax = 1024, kSlotsMax = 64, kPage = 4096, kPiece = 1 << 20 };
enum { kExtended = 2, kEmpty = 0, kMemory = 1, kDmabuf = 2, kInjectResult = 1 };

typedef struct {
  uint32_t slot, flags;
  uint64_t descriptors, tags;
  uint32_t count, zero;
} Update;

typedef struct {
  uint32_t type, flags;
  uint64_t size, address;
  int32_t dmabuf, drive;
  uint64_t zero[6];
} Descriptor;

_Static_assert(sizeof(Update) == 32 && sizeof(Descriptor) == 80, "the kernel's sizes");

typedef struct {
  int dmabuf, drive; /* Duplicates, which keep both open. */
  char* memory;      /* Mapped by the first request. */
  uint64_t size;
  int is_alias; /* A drive's DMA engine can reach the memory as it is mapped. */
  int is_used;
} Slot;

typedef struct {
  char* queue;
  struct io_uring_sqe* entries;
  size_t queue_bytes, entries_bytes;
  struct io_sqring_offsets at;
  Slot slots[kSlotsMax];
} Ring;

static Ring* rings[kRingsMax];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long large_requests, answers_nth, lie_nth, stops_nth, turns_nth;
static int answers_from, answers_result, never = -1;
static char dummy[kPage] __attribute__((aligned(kPage)));

/* The one place whose system calls are not trapped. */
long ring_standin_call(long number, long a, long b, long c, long d, long e, long f);
extern const char ring_standin_called[];
__asm__(
    ".text\n.hidden ring_standin_call\n.globl ring_standin_call\nring_standin_call:\n"
    "mov %rdi, %rax\nmov %rsi, %rdi\nmov %rdx, %rsi\nmov %rcx, %rdx\nmov %r8, %r10\nmov %r9, %r8\nmov 8(%rsp), %r9\n"
    "syscall\n.hidden ring_standin_called\n.globl ring_standin_called\nring_standin_called:\nret\n");

/* ---- Slots ---- */

/* A field of what the kernel tells of a descriptor; false if it has none. */
static int field_of(int fd, const char* name, char* value, size_t room) {
  char path[64], text[1024] = "";
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
  const int info = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t got = info < 0 ? -1 : read(info, text, sizeof text - 1);
  if (info >= 0) close(info);
  const char* found = got <= 0 ? NULL : strstr(text, name);
  if (found == NULL) return 0;
  found += strlen(name);
  found += strspn(found, " \t");
  snprintf(value, room, "%.*s", (int)strcspn(found, "\n"), found);
  return 1;
}

static int is_open(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_PATH) == 0;
}

/* A raw NVMe namespace, or a partition of one, and no multipath head. */
static int is_nvme(dev_t device) {
  char path[64], link[256] = "";
  snprintf(path, sizeof path, "/sys/dev/block/%u:%u", major(device), minor(device));
  return readlink(path, link, sizeof link - 1) > 0 && strstr(link, "/nvme/nvme") != NULL &&
         strstr(link, "nvme-subsystem") == NULL;
}

static int error_of_descriptor(const Descriptor* one) {
  static const uint64_t zero[6];
  char value[64];
  struct stat facts;
  if (one->type > kDmabuf || one->flags != 0 || one->size != 0 || one->address != 0) return EINVAL;
  if (memcmp(one->zero, zero, sizeof zero) != 0) return EINVAL;
  if (one->type == kMemory) return EINVAL; /* No ordinary memory comes by this form. */
  if (one->type == kEmpty) return one->dmabuf != 0 || one->drive != 0 ? EINVAL : 0;
  if (!is_open(one->dmabuf) || !is_open(one->drive) || fstat(one->drive, &facts) != 0) return EBADF;
  if (!field_of(one->dmabuf, "exp_name:", value, sizeof value)) return EINVAL;
  if (!S_ISBLK(facts.st_mode) || !is_nvme(facts.st_rdev)) return EOPNOTSUPP;
  return (fcntl(one->drive, F_GETFL) & O_DIRECT) == 0 ? EINVAL : 0;
}

static void empty(Slot* slot) {
  if (!slot->is_used) return;
  if (slot->memory != NULL && !slot->is_alias) munmap(slot->memory, slot->size);
  close(slot->dmabuf);
  close(slot->drive);
  memset(slot, 0, sizeof *slot);
}

/* The kernel's own table has a page of ours there, so that it tells of the release, by its tag. */
static long set(int fd, Ring* ring, const Update* update, const Descriptor* one, const uint64_t* tag) {
  const int error = error_of_descriptor(one);
  if (error != 0) return -error;
  if (update->slot >= kSlotsMax) return -EINVAL;
  struct iovec vector = {one->type == kDmabuf ? dummy : NULL, one->type == kDmabuf ? sizeof dummy : 0};
  struct io_uring_rsrc_update2 real = {.offset = update->slot, .data = (uintptr_t)&vector, .nr = 1};
  real.tags = (uintptr_t)tag;
  const long result =
      ring_standin_call(__NR_io_uring_register, fd, IORING_REGISTER_BUFFERS_UPDATE, (long)&real, sizeof real, 0, 0);
  if (result != 1) return result;
  Slot* slot = &ring->slots[update->slot];
  empty(slot);
  if (one->type == kDmabuf) {
    *slot = (Slot){.dmabuf = fcntl(one->dmabuf, F_DUPFD_CLOEXEC, 0), .drive = fcntl(one->drive, F_DUPFD_CLOEXEC, 0)};
    slot->is_used = 1;
  }
  return 1;
}

static long update_slots(int fd, const Update* update) {
  Ring* ring = fd >= 0 && fd < kRingsMax ? rings[fd] : NULL;
  if (ring == NULL) return -EBADF;
  if (update->flags != kExtended || update->zero != 0 || update->count == 0) return -EINVAL;
  if (update->descriptors == 0) return -EFAULT;
  const Descriptor* all = (const Descriptor*)(uintptr_t)update->descriptors;
  const uint64_t* tags = (const uint64_t*)(uintptr_t)update->tags;
  for (uint32_t i = 0; i < update->count; ++i) {
    Update one = *update;
    one.slot += i;
    const uint64_t tag = tags == NULL ? 0 : tags[i];
    const long result = set(fd, ring, &one, &all[i], &tag);
    if (result != 1) return i > 0 ? (long)i : result;
  }
  return update->count;
}

/* ---- Requests ---- */

/* All of the device's memory, at the offsets that it has behind its BAR. */
static char* map_alias(const char* directory) {
  static char* all;
  char path[256], text[32] = "";
  if (all != NULL) return all;
  snprintf(path, sizeof path, "%s/p2pmem/size", directory);
  const int size = open(path, O_RDONLY | O_CLOEXEC);
  if (size < 0 || read(size, text, sizeof text - 1) <= 0) abort();
  close(size);
  snprintf(path, sizeof path, "%s/p2pmem/allocate", directory);
  const int memory = open(path, O_RDWR | O_CLOEXEC);
  all = mmap(NULL, strtoull(text, NULL, 10), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (all == MAP_FAILED) abort();
  close(memory);
  return all;
}

static int map(Slot* slot) {
  const char* alias = getenv("PENSTOCK_RING_ALIAS");
  char name[64] = "";
  slot->size = (uint64_t)lseek(slot->dmabuf, 0, SEEK_END);
  if (alias != NULL && field_of(slot->dmabuf, "\nname:", name, sizeof name) && strncmp(name, "bar:", 4) == 0) {
    slot->is_alias = 1;
    slot->memory = map_alias(alias) + strtoull(name + 4, NULL, 10);
    return 0;
  }
  void* memory = mmap(NULL, slot->size, PROT_READ | PROT_WRITE, MAP_SHARED, slot->dmabuf, 0);
  if (memory == MAP_FAILED) return errno;
  slot->memory = memory;
  return 0;
}

/* 0, or the errno of what the kernel looks at before the drive. */
static int error_of_request(Slot* slot, const struct io_uring_sqe* entry) {
  const int is_write = entry->opcode == IORING_OP_WRITE_FIXED, flags = fcntl(entry->fd, F_GETFL);
  const pid_t self = getpid();
  int sector = 0;
  if ((entry->flags & IOSQE_FIXED_FILE) != 0) abort();
  if (flags < 0 || syscall(__NR_kcmp, self, self, KCMP_FILE, slot->drive, entry->fd) != 0) return EBADF;
  if ((flags & O_ACCMODE) == (is_write ? O_RDONLY : O_WRONLY)) return EBADF;
  if ((flags & O_DIRECT) == 0) return EOPNOTSUPP;
  const uint64_t size = (uint64_t)lseek(slot->dmabuf, 0, SEEK_END);
  if (entry->len == 0 || entry->addr > size || entry->len > size - entry->addr) return EFAULT;
  if (ioctl(entry->fd, BLKSSZGET, &sector) != 0) return EIO;
  if (entry->addr % 4 != 0 || entry->len % (unsigned)sector != 0 || entry->off % (unsigned)sector != 0) return EINVAL;
  return slot->memory == NULL ? map(slot) : 0;
}

/* By memory of ours, where the drive cannot reach the dma-buf's. */
static ssize_t move_by_kernel(int is_write, int fd, char* memory, size_t size, off_t at, int flags) {
  const struct iovec vector = {memory, size};
  return is_write ? pwritev2(fd, &vector, 1, at, flags) : preadv2(fd, &vector, 1, at, flags);
}

static ssize_t move_piece(const Slot* slot, int is_write, int fd, char* memory, size_t size, off_t at, int flags) {
  static __thread char* between;
  if (slot->is_alias) return move_by_kernel(is_write, fd, memory, size, at, flags);
  if (between == NULL) {
    between = mmap(NULL, kPiece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (between == MAP_FAILED) abort();
  }
  if (is_write) memcpy(between, memory, size);
  const ssize_t moved = move_by_kernel(is_write, fd, between, size, at, flags);
  if (!is_write && moved > 0) memcpy(memory, between, (size_t)moved);
  return moved;
}

static int move(const Slot* slot, const struct io_uring_sqe* entry, size_t size) {
  const int is_write = entry->opcode == IORING_OP_WRITE_FIXED;
  for (size_t done = 0; done < size;) {
    const size_t piece = size - done < kPiece ? size - done : kPiece;
    const ssize_t moved = move_piece(slot, is_write, entry->fd, slot->memory + entry->addr + done, piece,
                                     (off_t)(entry->off + done), entry->rw_flags);
    if (moved < 0) return done > 0 ? (int)done : -errno;
    done += (size_t)moved;
    if ((size_t)moved < piece) return (int)done;
  }
  return (int)size;
}

static int answer(Slot* slot, const struct io_uring_sqe* entry) {
  if (!slot->is_used) return -EFAULT;
  const int error = error_of_request(slot, entry);
  if (error != 0) return -error;
  const int is_lost = turns_nth != 0 && large_requests >= turns_nth && entry->opcode == IORING_OP_READ_FIXED;
  if (is_lost) return (int)entry->len;
  if (entry->len <= 2 * kPage) return move(slot, entry, entry->len);
  const unsigned long number = ++large_requests;
  if (number == stops_nth) kill(getpid(), SIGSTOP);
  if (answers_nth != 0 && (answers_from ? number >= answers_nth : number % answers_nth == 0)) return answers_result;
  if (number != lie_nth) return move(slot, entry, entry->len);
  const int moved = move(slot, entry, entry->len - 512);
  return moved < 0 ? moved : (int)entry->len;
}

/* What becomes of the entry: a NOP with a result, or a wait for what nobody does. */
static struct io_uring_sqe answered(const struct io_uring_sqe* entry, int result) {
  struct io_uring_sqe done = {.opcode = IORING_OP_NOP, .fd = -1, .user_data = entry->user_data};
  done.len = (unsigned)result;
  done.rw_flags = kInjectResult;
  if (never >= 0) {
    done = (struct io_uring_sqe){.opcode = IORING_OP_POLL_ADD, .fd = never, .user_data = entry->user_data};
    done.poll32_events = POLLIN;
  }
  return done;
}

static void answer_entries(Ring* ring, unsigned count) {
  const unsigned head = __atomic_load_n((unsigned*)(ring->queue + ring->at.head), __ATOMIC_ACQUIRE);
  const unsigned tail = __atomic_load_n((unsigned*)(ring->queue + ring->at.tail), __ATOMIC_ACQUIRE);
  const unsigned mask = *(unsigned*)(ring->queue + ring->at.ring_mask);
  const unsigned* places = (unsigned*)(ring->queue + ring->at.array);
  for (unsigned i = head; i != tail && count > 0; ++i, --count) {
    struct io_uring_sqe* entry = &ring->entries[places[i & mask]];
    if (entry->opcode != IORING_OP_READ_FIXED && entry->opcode != IORING_OP_WRITE_FIXED) continue;
    if (entry->buf_index >= kSlotsMax || !ring->slots[entry->buf_index].is_used) continue;
    const int result = never >= 0 ? 0 : answer(&ring->slots[entry->buf_index], entry);
    *entry = answered(entry, result);
  }
}

/* ---- Calls ---- */

static void* map_ring(int fd, size_t size, off_t at) {
  void* memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
  if (memory == MAP_FAILED) abort();
  madvise(memory, size, MADV_DONTFORK);
  return memory;
}

static void forget(Ring* ring) {
  if (ring == NULL) return;
  for (int i = 0; i < kSlotsMax; ++i) empty(&ring->slots[i]);
  munmap(ring->queue, ring->queue_bytes);
  munmap(ring->entries, ring->entries_bytes);
  free(ring);
}

static long set_up(unsigned depth, struct io_uring_params* parameters) {
  const long fd = ring_standin_call(__NR_io_uring_setup, depth, (long)parameters, 0, 0, 0, 0);
  if (fd < 0) return fd;
  if (fd >= kRingsMax || (parameters->flags & IORING_SETUP_SQPOLL) != 0) abort();
  Ring* ring = calloc(1, sizeof *ring);
  if (ring == NULL) abort();
  ring->at = parameters->sq_off;
  ring->queue_bytes = parameters->sq_off.array + parameters->sq_entries * sizeof(unsigned);
  ring->queue = map_ring((int)fd, ring->queue_bytes, IORING_OFF_SQ_RING);
  ring->entries_bytes = parameters->sq_entries * sizeof(struct io_uring_sqe);
  ring->entries = map_ring((int)fd, ring->entries_bytes, (off_t)IORING_OFF_SQES);
  pthread_mutex_lock(&mutex);
  Ring* before = rings[fd];
  rings[fd] = ring;
  pthread_mutex_unlock(&mutex);
  forget(before);
  return fd;
}

static long call(long number, long a, long b, long c, long d, long e, long f) {
  long result = 0;
  pthread_mutex_lock(&mutex);
  Ring* ring = a >= 0 && a < kRingsMax ? rings[a] : NULL;
  const int is_ours = number == __NR_io_uring_register && b == IORING_REGISTER_BUFFERS_UPDATE && c != 0 &&
                      ((const Update*)c)->flags != 0;
  if (is_ours) result = update_slots((int)a, (const Update*)c);
  if (number == __NR_io_uring_enter && ring != NULL) answer_entries(ring, (unsigned)b);
  pthread_mutex_unlock(&mutex);
  return is_ours ? result : ring_standin_call(number, a, b, c, d, e, f);
}

static void on_call(int signal, siginfo_t* info, void* context) {
  (void)signal;
  const int before = errno;
  greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  const long a = registers[REG_RDI], b = registers[REG_RSI];
  registers[REG_RAX] =
      info->si_syscall == __NR_io_uring_setup
          ? set_up((unsigned)a, (struct io_uring_params*)b)
          : call(info->si_syscall, a, b, registers[REG_RDX], registers[REG_R10], registers[REG_R8], registers[REG_R9]);
  errno = before;
}

/* A blocked signal would end the program. */
int pthread_sigmask(int how, const sigset_t* wanted, sigset_t* before) {
  static int (*real)(int, const sigset_t*, sigset_t*);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "pthread_sigmask");
  sigset_t without;
  if (wanted != NULL) without = *wanted;
  if (wanted != NULL && how != SIG_UNBLOCK) sigdelset(&without, SIGSYS);
  return real(how, wanted == NULL ? NULL : &without, before);
}

__attribute__((constructor)) static void begin(void) {
  const char* answers = getenv("PENSTOCK_RING_ANSWERS");
  const char* lie = getenv("PENSTOCK_RING_LIE");
  const char* stops = getenv("PENSTOCK_RING_STOPS");
  const char* turns = getenv("PENSTOCK_RING_TURNS");
  char* end = NULL;
  if (answers != NULL) answers_nth = strtoul(answers, &end, 10);
  if (answers != NULL) answers_from = *end == '+', answers_result = atoi(end + answers_from + 1);
  if (lie != NULL) lie_nth = strtoul(lie, NULL, 10);
  if (stops != NULL) stops_nth = strtoul(stops, NULL, 10);
  if (turns != NULL) turns_nth = strtoul(turns, NULL, 10);
  if (getenv("PENSTOCK_RING_STUCK") != NULL) never = eventfd(0, EFD_CLOEXEC);
  const uint64_t from = (uintptr_t)ring_standin_called;
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, __NR_io_uring_setup, 0, 5),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, __NR_io_uring_register, 4, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)from, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(from >> 32), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
  };
  const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_NODEFER};
  action.sa_sigaction = on_call;
  if (sigaction(SIGSYS, &action, NULL) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    perror("ring_standin");
    abort();
  }
}
