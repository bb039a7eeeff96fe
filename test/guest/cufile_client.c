// SPDX-License-Identifier: Apache-2.0

/* cufile_client: a program of somebody who knows cuFile alone: descriptors, cuFileHandleRegister, cuFileRead,
 * cuFileWrite, batches. It does what its words say, one after another, and compares every byte. Only what the machine
 * lacks is ours: device memory where such a program calls cudaMalloc, and the counters that it prints at its end.
 *
 *   cufile_client FILE OPERATION:OFFSET:SIZE...
 *
 * write and read move SIZE bytes in one call, batch reads them in eight entries; sizes may end with k or M. `forever`
 * reads until somebody kills the program, into memory as far from the start as OFFSET; `beside` does that in a thread
 * of its own, and goes on when that has read once; `leave` returns from main() as it is. FILE is made where it is not
 * there, unless the first word is `reads`: then it is opened for reading alone. `many:COUNT:SIZE` reads SIZE bytes so
 * often, each time from another offset. `store` writes and reads twice as a KV store does, by our own API, into a file
 * that is its own. `turn:COUNT:SIZE` reads until bytes are wrong, goes on until they are right
 * again, and then COUNT times. Prints {"size": N, "read": {PATH: {REASON: BYTES}}, "write": {...}} of all that
 * was moved. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cufile.h"
#include "penstock/cufile_session.h"
#include "penstock/device_memory.h"

enum { kEntries = 8, kBlock = 4096, kCountersMax = 256 };
static const size_t kFileMax = 64u << 20;
static const size_t kDeviceMax = 16u << 20;
static const size_t kFilled = 4u << 20; /* Drives of the tests have zeros behind it, and zeros look alike. */

static void stop(const char* format, ...) {
  va_list words;
  va_start(words, format);
  fprintf(stderr, "cufile_client: ");
  vfprintf(stderr, format, words);
  fprintf(stderr, "\n");
  va_end(words);
  exit(1);
}

static void check(CUfileError_t result, const char* call) {
  if (result.err != CU_FILE_SUCCESS) stop("%s: cuFile error %d", call, (int)result.err);
}

static size_t bytes_in(const char* word) {
  char* end = NULL;
  const unsigned long long number = strtoull(word, &end, 10);
  return (size_t)(*end == 'M' ? number << 20 : *end == 'k' ? number << 10 : number);
}

typedef struct {
  int fd;
  CUfileHandle_t handle;
  char* device; /* Device memory. */
  char* host;   /* As much of the host's. */
  char* model;  /* What the file has to hold. */
  size_t size;  /* Of the file. */
  penstock_session* session;
} Fixture;

static char* aligned(size_t size) {
  char* memory = aligned_alloc(kBlock, size);
  if (memory == NULL) stop("no memory");
  memset(memory, 0, size);
  return memory;
}

/* Around the page cache, so that nothing of the file gets into it. */
static size_t load(const Fixture* fixture, char* into) {
  size_t done = 0;
  while (done < kFileMax) {
    const ssize_t got = pread(fixture->fd, into + done, 1u << 20, (off_t)done);
    if (got < 0) stop("pread: %s", strerror(errno));
    done += (size_t)got;
    if (got < 1 << 20) break;
  }
  return done;
}

static void open_fixture(Fixture* fixture, const char* name, int flags) {
  memset(fixture, 0, sizeof *fixture);
  fixture->model = aligned(kFileMax);
  fixture->host = aligned(kDeviceMax);
  fixture->fd = open(name, flags | O_DIRECT | O_CLOEXEC, 0600);
  if (fixture->fd < 0) stop("open %s: %s", name, strerror(errno));
  fixture->size = load(fixture, fixture->model);
  check(cuFileDriverOpen(), "cuFileDriverOpen");
  CUfileDescr_t description;
  memset(&description, 0, sizeof description);
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = fixture->fd;
  check(cuFileHandleRegister(&fixture->handle, &description), "cuFileHandleRegister");
  if (penstock_cufile_session(&fixture->session).code != 0) stop("no session");
  void* memory = NULL;
  if (penstock_device_alloc(fixture->session, 0, kDeviceMax, &memory).code != 0) stop("no device memory");
  fixture->device = memory;
  check(cuFileBufRegister(fixture->device, kDeviceMax, 0), "cuFileBufRegister");
}

static void close_fixture(Fixture* fixture) {
  check(cuFileBufDeregister(fixture->device), "cuFileBufDeregister");
  if (fixture->handle != NULL) cuFileHandleDeregister(fixture->handle);
  penstock_device_free(fixture->session, 0, fixture->device);
  char* now = aligned(kFileMax);
  struct stat facts;
  const size_t size = load(fixture, now);
  if (fstat(fixture->fd, &facts) != 0) stop("fstat: %s", strerror(errno));
  if (S_ISREG(facts.st_mode) && (size_t)facts.st_size != fixture->size) stop("the file's size is wrong");
  if (size < fixture->size || memcmp(now, fixture->model, fixture->size) != 0) stop("the file's bytes are wrong");
}

static void fill(char* memory, size_t size, unsigned seed) {
  for (size_t i = 0; i < size; ++i) memory[i] = (char)(i * 31 + i / 257 + seed * 7 + 1);
}

static void write_some(Fixture* fixture, size_t offset, size_t size, unsigned seed) {
  fill(fixture->host, size, seed);
  if (penstock_device_upload(fixture->session, fixture->device, fixture->host, size).code != 0) stop("upload");
  const ssize_t moved = cuFileWrite(fixture->handle, fixture->device, size, (off_t)offset, 0);
  if (moved != (ssize_t)size) stop("cuFileWrite of %zu at %zu: %zd", size, offset, moved);
  memcpy(fixture->model + offset, fixture->host, size);
  if (offset + size > fixture->size) fixture->size = offset + size;
}

static void compare(Fixture* fixture, size_t offset, size_t size) {
  if (penstock_device_download(fixture->session, fixture->host, fixture->device, size).code != 0) stop("download");
  if (memcmp(fixture->host, fixture->model + offset, size) == 0) return;
  for (size_t i = 0; i < size; ++i) {
    if (fixture->host[i] != fixture->model[offset + i]) stop("wrong byte at %zu", offset + i);
  }
}

static void clear_device(Fixture* fixture, size_t size) {
  memset(fixture->host, 0x5a, size);
  if (penstock_device_upload(fixture->session, fixture->device, fixture->host, size).code != 0) stop("upload");
}

static void read_some(Fixture* fixture, size_t offset, size_t size) {
  clear_device(fixture, size);
  const ssize_t moved = cuFileRead(fixture->handle, fixture->device, size, (off_t)offset, 0);
  if (moved != (ssize_t)size) stop("cuFileRead of %zu at %zu: %zd", size, offset, moved);
  compare(fixture, offset, size);
}

/* Every second read begins on a block's boundary, the others anywhere. */
static void read_many(Fixture* fixture, size_t count, size_t size) {
  const size_t end = fixture->size < kFilled ? fixture->size : kFilled;
  if (size == 0 || size >= end) stop("many: the file is too small");
  uint64_t state = 1;
  for (size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    size_t offset = (size_t)(state >> 20) % (end - size);
    if (i % 2 == 0) offset -= offset % kBlock;
    read_some(fixture, offset, size);
  }
}

/* Each read is of another place than the last, since what that left might be right. */
static int is_right(Fixture* fixture, size_t size) {
  static size_t offset;
  offset = (offset + size) % (kFilled - size);
  clear_device(fixture, size);
  if (cuFileRead(fixture->handle, fixture->device, size, (off_t)offset, 0) != (ssize_t)size) stop("cuFileRead");
  if (penstock_device_download(fixture->session, fixture->host, fixture->device, size).code != 0) stop("download");
  return memcmp(fixture->host, fixture->model + offset, size) == 0;
}

/* Bounded by a time far beyond the one that is allowed, not judged by it. */
static void read_until_it_turns(Fixture* fixture, size_t count, size_t size) {
  const time_t end = time(NULL) + 240;
  size_t wrong = 1;
  while (is_right(fixture, size)) {
    if (time(NULL) > end) stop("turn: no byte was ever wrong");
  }
  for (unsigned right = 0; right < 3;) { /* What an early read left is right once in a round. */
    if (time(NULL) > end) stop("turn: bytes stay wrong, %zu reads long", wrong);
    right = is_right(fixture, size) ? right + 1 : 0;
    wrong += right == 0;
  }
  fprintf(stderr, "turn: %zu reads were wrong\n", wrong);
  for (size_t i = 0; i < count; ++i) read_some(fixture, 0, size);
}

static void read_batch(Fixture* fixture, size_t offset, size_t size) {
  clear_device(fixture, size);
  CUfileIOParams_t requests[kEntries];
  memset(requests, 0, sizeof requests);
  const size_t each = size / kEntries;
  for (unsigned i = 0; i < kEntries; ++i) {
    requests[i].mode = CUFILE_BATCH;
    requests[i].opcode = CUFILE_READ;
    requests[i].fh = fixture->handle;
    requests[i].u.batch.devPtr_base = fixture->device;
    requests[i].u.batch.devPtr_offset = (off_t)(i * each);
    requests[i].u.batch.file_offset = (off_t)(offset + i * each);
    requests[i].u.batch.size = each;
  }
  CUfileBatchHandle_t batch;
  check(cuFileBatchIOSetUp(&batch, kEntries), "cuFileBatchIOSetUp");
  check(cuFileBatchIOSubmit(batch, kEntries, requests, 0), "cuFileBatchIOSubmit");
  for (unsigned done = 0; done < kEntries;) {
    CUfileIOEvents_t events[kEntries];
    unsigned count = kEntries;
    check(cuFileBatchIOGetStatus(batch, 1, &count, events, NULL), "cuFileBatchIOGetStatus");
    for (unsigned i = 0; i < count; ++i) {
      if (events[i].status != CUFILE_COMPLETE || events[i].ret != each) stop("an entry of the batch failed");
    }
    done += count;
  }
  cuFileBatchIODestroy(batch);
  compare(fixture, offset, each * kEntries);
}

/* For ever, as far as this program knows. */
typedef struct {
  const Fixture* fixture;
  size_t offset, size;
  atomic_bool has_read;
} Reader;

static void* read_forever(void* argument) {
  Reader* reader = argument;
  for (;;) {
    const ssize_t moved = cuFileRead(reader->fixture->handle, reader->fixture->device, reader->size,
                                     (off_t)reader->offset, (off_t)reader->offset);
    if (moved != (ssize_t)reader->size) stop("cuFileRead of %zu at %zu: %zd", reader->size, reader->offset, moved);
    atomic_store(&reader->has_read, true);
  }
  return NULL;
}

static Reader* make_reader(const Fixture* fixture, size_t offset, size_t size) {
  Reader* reader = calloc(1, sizeof *reader);
  if (reader == NULL) stop("no memory");
  reader->fixture = fixture;
  reader->offset = offset;
  reader->size = size;
  return reader;
}

static void read_beside(Reader* reader) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, read_forever, reader) != 0) stop("no thread");
  while (!atomic_load(&reader->has_read)) usleep(1000);
}

static void move_in_store(const Fixture* fixture, penstock_file* file, penstock_op op, size_t offset, size_t size) {
  penstock_request request = {.struct_size = sizeof request, .op = op, .file = file, .base = fixture->device};
  penstock_report report = {.struct_size = sizeof report};
  request.size = size;
  request.file_offset = (int64_t)offset;
  const penstock_status status = penstock_transfer(&request, &report);
  if (status.code != 0 || report.bytes != size) stop("store: %s: %d", status.step, (int)status.code);
}

/* The last word. What was only allocated is written by the file system first. */
static void use_store(Fixture* fixture, size_t offset, size_t size, unsigned seed) {
  penstock_file* file = NULL;
  cuFileHandleDeregister(fixture->handle);
  fixture->handle = NULL;
  if (penstock_file_register(fixture->session, fixture->fd, &file).code != 0) stop("store: no file");
  if (penstock_file_advise(file, PENSTOCK_ADVICE_OWN_STORE).code != 0) stop("store: no advice");
  for (unsigned round = 0; round < 2; ++round) {
    fill(fixture->host, size, seed + round);
    if (penstock_device_upload(fixture->session, fixture->device, fixture->host, size).code != 0) stop("upload");
    memcpy(fixture->model + offset, fixture->host, size);
    move_in_store(fixture, file, PENSTOCK_WRITE, offset, size);
    clear_device(fixture, size);
    move_in_store(fixture, file, PENSTOCK_READ, offset, size);
    compare(fixture, offset, size);
  }
  penstock_file_close(file);
}

static void do_word(Fixture* fixture, const char* word, unsigned seed) {
  char operation[16] = "", offset_text[32] = "", size_text[32] = "";
  if (sscanf(word, "%15[^:]:%31[^:]:%31s", operation, offset_text, size_text) != 3) stop("no such word: %s", word);
  const size_t offset = bytes_in(offset_text), size = bytes_in(size_text);
  if (strcmp(operation, "many") == 0) return read_many(fixture, offset, size);
  if (strcmp(operation, "turn") == 0) return read_until_it_turns(fixture, offset, size);
  if (size > kDeviceMax || offset + size > kFileMax) stop("too large: %s", word);
  if (strcmp(operation, "write") == 0) write_some(fixture, offset, size, seed);
  else if (strcmp(operation, "read") == 0) read_some(fixture, offset, size);
  else if (strcmp(operation, "batch") == 0) read_batch(fixture, offset, size);
  else if (strcmp(operation, "store") == 0) use_store(fixture, offset, size, seed);
  else if (strcmp(operation, "forever") == 0) read_forever(make_reader(fixture, offset, size));
  else if (strcmp(operation, "beside") == 0) read_beside(make_reader(fixture, offset, size));
  else stop("no such word: %s", word);
}

static void print_moved(const char* name, const penstock_counter* counters, unsigned count, int is_write) {
  printf(", \"%s\": {", name);
  const char* between = "";
  for (int path = 0; path < (int)penstock_path_count(); ++path) {
    const char* inner = NULL;
    for (unsigned i = 0; i < count; ++i) {
      const uint64_t bytes = is_write ? counters[i].write_bytes : counters[i].read_bytes;
      if (counters[i].path != path || bytes == 0) continue;
      if (inner == NULL) printf("%s\"%s\": {", between, penstock_path_name(path));
      printf("%s\"%s\": %llu", inner == NULL ? "" : inner, penstock_reason_name(counters[i].reason),
             (unsigned long long)bytes);
      inner = ", ";
    }
    if (inner == NULL) continue;
    printf("}");
    between = ", ";
  }
  printf("}");
}

int main(int count, char** words) {
  if (count < 3) stop("usage: cufile_client FILE OPERATION:OFFSET:SIZE...");
  static Fixture fixture;
  const int only_reads = strcmp(words[2], "reads") == 0;
  open_fixture(&fixture, words[1], only_reads ? O_RDONLY : O_RDWR | O_CREAT);
  for (int i = 2 + only_reads; i < count; ++i) {
    if (strcmp(words[i], "leave") == 0) return 0;
    do_word(&fixture, words[i], (unsigned)i);
  }
  static penstock_counter counters[kCountersMax];
  counters[0].struct_size = sizeof counters[0];
  unsigned rows = 0;
  if (penstock_counters(fixture.session, counters, kCountersMax, &rows).code != 0) stop("no counters");
  close_fixture(&fixture);
  printf("{\"size\": %zu", fixture.size);
  print_moved("read", counters, rows, 0);
  print_moved("write", counters, rows, 1);
  printf("}\n");
  penstock_session_close(fixture.session);
  check(cuFileDriverClose(), "cuFileDriverClose");
  return 0;
}
