// SPDX-License-Identifier: Apache-2.0

/* Asks io_uring about dma-bufs as buffers, with no code of ours between: what is refused, what ends how. What it is
 * answered was measured on a kernel with the interface, so a kernel and the stand-in are held to the same words.
 *
 *   ring_probe CASE DRIVE FILE
 *
 * DRIVE is a raw NVMe drive, FILE lies on a file system. Its memory is a memfd's, by udmabuf. Prints a result for each
 * step, as the other probes do. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <linux/udmabuf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kEntries = 8, kSlots = 8, kPage = 4096, kBytes = 1 << 20, kTag = 77, kRequest = 1 };
enum { kEmpty, kMemory, kDmabuf, kUnknown, kExtended = 2 };

struct update {
  uint32_t slot, flags;
  uint64_t descriptors, tags;
  uint32_t count, zero;
};

struct descriptor {
  uint32_t type, flags;
  uint64_t size, address;
  int32_t dmabuf, drive;
  uint64_t zero[6];
};

static struct {
  int fd;
  char *queue, *done;
  struct io_uring_sqe* entries;
  struct io_uring_params at;
} ring;

static const char* case_name;
static char *memory, *model; /* The dma-buf's, and the start of the drive's. */
static uint64_t drive_bytes;

static void stop(const char* step) {
  perror(step);
  exit(1);
}

static int checked(int result, const char* step) {
  if (result < 0) stop(step);
  return result;
}

static void say(const char* step, long result, const char* more) {
  char text[64];
  snprintf(text, sizeof text, "%ld", result);
  printf("@@ {\"case\": \"%s\", \"op\": \"%s\", \"error\": \"%s%s\"}\n", case_name, step,
         result < 0 ? strerrorname_np((int)-result) : text, more);
  fflush(stdout);
}

/* ---- The ring ---- */

static unsigned* number(char* queue, unsigned at) { return (unsigned*)(queue + at); }

static void* map_ring(size_t size, off_t at) {
  void* const mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, at);
  if (mapped == MAP_FAILED) stop("map the ring");
  return mapped;
}

static void open_ring(void) {
  ring.fd = checked((int)syscall(__NR_io_uring_setup, kEntries, &ring.at), "io_uring_setup");
  ring.queue = map_ring(ring.at.sq_off.array + ring.at.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
  ring.done = map_ring(ring.at.cq_off.cqes + ring.at.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
  ring.entries = map_ring(ring.at.sq_entries * sizeof(struct io_uring_sqe), (off_t)IORING_OFF_SQES);
}

static long ask(unsigned call, const void* argument, unsigned count) {
  const long result = syscall(__NR_io_uring_register, ring.fd, call, argument, count);
  return result < 0 ? -errno : result;
}

static long make_table(void) {
  const struct io_uring_rsrc_register table = {.nr = kSlots, .flags = IORING_RSRC_REGISTER_SPARSE};
  return ask(IORING_REGISTER_BUFFERS2, &table, sizeof table);
}

static long set(const struct update* wanted) { return ask(IORING_REGISTER_BUFFERS_UPDATE, wanted, sizeof *wanted); }

static long set_one(unsigned slot, struct descriptor one) {
  static const uint64_t tag = kTag;
  return set(&(struct update){.slot = slot,
                              .flags = kExtended,
                              .descriptors = (uintptr_t)&one,
                              .tags = one.type == kDmabuf ? (uintptr_t)&tag : 0,
                              .count = 1});
}

static struct descriptor pair(int dmabuf, int drive) {
  return (struct descriptor){.type = kDmabuf, .dmabuf = dmabuf, .drive = drive};
}

/* Waits for the completion with this number; others are left out. */
static long wait_for(uint64_t wanted) {
  for (;;) {
    unsigned* const head = number(ring.done, ring.at.cq_off.head);
    while (*head != __atomic_load_n(number(ring.done, ring.at.cq_off.tail), __ATOMIC_ACQUIRE)) {
      struct io_uring_cqe* const all = (struct io_uring_cqe*)(ring.done + ring.at.cq_off.cqes);
      const struct io_uring_cqe one = all[*head & *number(ring.done, ring.at.cq_off.ring_mask)];
      __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
      if (one.user_data == wanted) return one.res;
    }
    if (syscall(__NR_io_uring_enter, ring.fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0 && errno != EINTR) {
      stop("io_uring_enter");
    }
  }
}

static long request(struct io_uring_sqe entry) {
  unsigned* const tail = number(ring.queue, ring.at.sq_off.tail);
  const unsigned at = *tail & *number(ring.queue, ring.at.sq_off.ring_mask);
  entry.user_data = kRequest;
  ring.entries[at] = entry;
  number(ring.queue, ring.at.sq_off.array)[at] = at;
  __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
  checked((int)syscall(__NR_io_uring_enter, ring.fd, 1, 0, 0, NULL, 0), "io_uring_enter");
  return wait_for(kRequest);
}

static long move(int opcode, int fd, uint64_t place, unsigned size, uint64_t at, unsigned slot) {
  const struct io_uring_sqe entry = {
      .opcode = (uint8_t)opcode, .fd = fd, .off = at, .addr = place, .len = size, .buf_index = (uint16_t)slot};
  return request(entry);
}

static long read_to(int fd, uint64_t place, unsigned size, uint64_t at) {
  return move(IORING_OP_READ_FIXED, fd, place, size, at, 0);
}

/* ---- Steps ---- */

static void ask_for_refusals(int dmabuf, int drive, const char* drive_name, const char* file_name) {
  say("no_table", set_one(0, (struct descriptor){.type = kEmpty}), "");
  if (make_table() != 0) stop("make a table");
  say("empty", set_one(0, (struct descriptor){.type = kEmpty}), "");
  say("no_descriptors", set_one(0, pair(-1, -1)), "");
  say("unknown_type", set_one(0, (struct descriptor){.type = kUnknown}), "");
  say("empty_with_descriptors", set_one(0, (struct descriptor){.type = kEmpty, .dmabuf = dmabuf}), "");
  struct descriptor odd = pair(dmabuf, drive);
  odd.size = kBytes;
  say("with_size", set_one(0, odd), "");
  odd = pair(dmabuf, drive);
  odd.zero[5] = 1;
  say("not_zero", set_one(0, odd), "");
  say("other_flags", set(&(struct update){.flags = 3, .descriptors = (uintptr_t)&odd, .count = 1}), "");
  say("no_data", set(&(struct update){.flags = kExtended, .count = 1}), "");
  say("no_dmabuf", set_one(0, pair(open("/dev/null", O_RDWR), drive)), "");
  say("dmabuf_path", set_one(0, pair(open("/dev/null", O_PATH), drive)), "");
  say("buffered_drive", set_one(0, pair(dmabuf, open(drive_name, O_RDWR))), "");
  say("file", set_one(0, pair(dmabuf, open(file_name, O_RDWR | O_DIRECT))), "");
  say("no_drive", set_one(0, pair(dmabuf, open("/dev/null", O_RDWR))), "");
  const struct descriptor two[2] = {pair(dmabuf, drive), pair(-1, -1)};
  say("second_is_bad", set(&(struct update){.slot = 2, .flags = kExtended, .descriptors = (uintptr_t)two, .count = 2}),
      "");
  say("registered", set_one(0, pair(dmabuf, drive)), "");
}

static const char* right(uint64_t place, size_t size, uint64_t at) {
  const int is_right = memcmp(memory + place, model + at, size) == 0;
  const int is_beside = memory[place - (place > 0)] != (place > 0 ? '#' : model[at]) || memory[place + size] != '#';
  return is_right && !is_beside ? " right" : is_right ? " beside" : " wrong";
}

static void read_and_say(const char* step, int fd, uint64_t place, unsigned size, uint64_t at) {
  memset(memory, '#', kBytes);
  const long got = read_to(fd, place, size, at);
  say(step, got, got == (long)size ? right(place, size, at) : "");
}

static void ask_for_requests(int drive, const char* drive_name) {
  read_and_say("read", drive, 0, kPage, 8192);
  read_and_say("read_at_4", drive, 4, kPage, 8192);
  read_and_say("read_large", drive, 512, kBytes / 2, kPage);
  read_and_say("duplicate", dup(drive), 0, kPage, 0);
  say("other_open", read_to(open(drive_name, O_RDWR | O_DIRECT), 0, kPage, 0), "");
  say("other_slot", move(IORING_OP_READ_FIXED, drive, 0, kPage, 0, 1), "");
  say("no_slot", move(IORING_OP_READ_FIXED, drive, 0, kPage, 0, kSlots), "");
  say("behind_memory", read_to(drive, kBytes - 512, kPage, 0), "");
  say("address", read_to(drive, (uintptr_t)memory, kPage, 0), "");
  say("nothing", read_to(drive, 0, 0, 0), "");
  say("odd_place", read_to(drive, 2, kPage, 0), "");
  say("odd_size", read_to(drive, 0, 100, 0), "");
  say("odd_offset", read_to(drive, 0, kPage, 100), "");
  say("over_the_end", read_to(drive, 0, 2 * kPage, drive_bytes - kPage), "");
  say("behind_the_end", read_to(drive, 0, kPage, drive_bytes), "");
  say("write_behind_the_end", move(IORING_OP_WRITE_FIXED, drive, 0, kPage, drive_bytes, 0), "");
  say("plain_read", move(IORING_OP_READ, drive, 0, kPage, 0, 0), "");
  fcntl(drive, F_SETFL, fcntl(drive, F_GETFL) & ~O_DIRECT);
  say("buffered_later", read_to(drive, 0, kPage, 0), "");
  fcntl(drive, F_SETFL, fcntl(drive, F_GETFL) | O_DIRECT);
  read_and_say("direct_again", drive, 0, kPage, kPage);
}

static void ask_for_writes(int dmabuf, int drive, const char* drive_name) {
  static char seen[kPage] __attribute__((aligned(kPage)));
  memset(memory, 'w', kPage);
  const long moved = move(IORING_OP_WRITE_FIXED, drive, 0, kPage, drive_bytes - kPage, 0);
  if (pread(drive, seen, kPage, (off_t)(drive_bytes - kPage)) != kPage) stop("read the drive");
  say("write", moved, memcmp(seen, memory, kPage) == 0 ? " right" : " wrong");
  const int reader = open(drive_name, O_RDONLY | O_DIRECT);
  say("reader", set_one(4, pair(dmabuf, reader)), "");
  say("write_of_reader", move(IORING_OP_WRITE_FIXED, reader, 0, kPage, 0, 4), "");
}

static void ask_for_the_end(int dmabuf, int drive) {
  close(dmabuf);
  read_and_say("closed_dmabuf", drive, 0, kPage, 0);
  say("cleared", set_one(0, (struct descriptor){.type = kEmpty}), "");
  say("released", wait_for(kTag), "");
  say("after_release", read_to(drive, 0, kPage, 0), "");
}

int main(int count, char** words) {
  if (count != 4) stop("usage: ring_probe CASE DRIVE FILE");
  case_name = words[1];
  const int memfd = checked(memfd_create("ring_probe", MFD_ALLOW_SEALING), "memfd_create");
  checked(ftruncate(memfd, kBytes), "ftruncate");
  checked(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK), "seal");
  memory = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
  const struct udmabuf_create wanted = {.memfd = (unsigned)memfd, .size = kBytes};
  const int dmabuf =
      checked(ioctl(checked(open("/dev/udmabuf", O_RDWR), "open udmabuf"), UDMABUF_CREATE, &wanted), "make a dma-buf");
  const int drive = checked(open(words[2], O_RDWR | O_DIRECT), "open the drive");
  checked(ioctl(drive, BLKGETSIZE64, &drive_bytes), "ask for the drive's size");
  model = aligned_alloc(kPage, kBytes);
  if (pread(drive, model, kBytes, 0) != kBytes) stop("read the drive");
  open_ring();
  ask_for_refusals(dmabuf, drive, words[2], words[3]);
  ask_for_requests(drive, words[2]);
  ask_for_writes(dmabuf, drive, words[2]);
  ask_for_the_end(dmabuf, drive);
  return 0;
}
