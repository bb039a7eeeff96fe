/* Penstock: file data into and out of GPU memory, and the truth about the path it took.
 *
 * A session owns everything: registered files and buffers, pinned memory, worker threads. Nothing happens before
 * one is opened. Register a descriptor, then read and write between the file and any memory: of a GPU, of the host.
 * Every transfer can report which path moved its bytes and why no better one did; penstock_explain() tells the same
 * ahead of time.
 *
 * All functions are thread-safe, except that a queue is used by one thread at a time. Sizes and offsets are bytes.
 * Structures have room to grow: reserved members are zero and mean nothing yet; a request in which they are not is
 * refused. penstock_options carries its size.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PENSTOCK_PENSTOCK_H_
#define PENSTOCK_PENSTOCK_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PENSTOCK_VERSION_MAJOR 0
#define PENSTOCK_VERSION_MINOR 1
#define PENSTOCK_VERSION_PATCH 0

/* ---- Status ------------------------------------------------------------------------------------------------- */

typedef enum penstock_domain {
  PENSTOCK_DOMAIN_PENSTOCK = 0, /* code is a penstock_code */
  PENSTOCK_DOMAIN_OS = 1,       /* code is an errno */
  PENSTOCK_DOMAIN_DRIVER = 2    /* code is a number of a device driver's own (CUDA's: a CUresult) */
} penstock_domain;

typedef enum penstock_code {
  PENSTOCK_OK = 0,
  PENSTOCK_INVALID_ARGUMENT = 1,
  PENSTOCK_NEGATIVE_OFFSET = 2,
  PENSTOCK_NOT_REGISTERED = 3,
  PENSTOCK_ALREADY_REGISTERED = 4,
  PENSTOCK_UNSUPPORTED_FILE = 5,
  PENSTOCK_UNSUPPORTED_FLAGS = 6,
  PENSTOCK_NOT_READABLE = 7,
  PENSTOCK_NOT_WRITABLE = 8,
  PENSTOCK_BAD_POINTER = 9,
  PENSTOCK_OUT_OF_RANGE = 10,
  PENSTOCK_NO_DEVICE = 11,
  PENSTOCK_PATH_REFUSED = 12,
  PENSTOCK_UNALIGNED_WRITE = 13,
  PENSTOCK_NO_PROGRESS = 14,
  PENSTOCK_OUT_OF_MEMORY = 15,
  PENSTOCK_LIMIT = 16,
  PENSTOCK_CLOSED = 17,
  PENSTOCK_UNSUPPORTED = 18,
  PENSTOCK_DEVICE_LOST = 19,
  PENSTOCK_PAST_ALLOCATION = 20,
  PENSTOCK_BAD_SETTING = 21,
  PENSTOCK_DENIED = 22,
  PENSTOCK_NO_DIRECT_PATH = 23,
  PENSTOCK_DESCRIPTOR_LOST = 24
} penstock_code;

/* code 0 is success in every domain. step is a string literal: what was being done when it failed. */
typedef struct penstock_status {
  int16_t domain; /* penstock_domain */
  int16_t driver; /* in PENSTOCK_DOMAIN_DRIVER: whose number code is, for penstock_status_driver(); else 0 */
  int32_t code;
  const char* step;
} penstock_status;

/* One sentence with step, cause and remedy. Returns its length; the text is cut to fit `capacity`, zero included. */
size_t penstock_status_message(penstock_status status, char* text, size_t capacity);

/* The kind of devices ("cuda") whose driver's number code is, or "" where it is no driver's. */
const char* penstock_status_driver(penstock_status status);

/* ---- Paths and reasons -------------------------------------------------------------------------------------- */

/* The ways bytes can travel, best first. */
typedef enum penstock_path {
  PENSTOCK_PATH_P2PDMA = 0,    /* the drive's DMA engine reaches device memory; no CPU, no host memory */
  PENSTOCK_PATH_PAGECACHE = 1, /* the GPU's DMA engine reads the file's own page-cache pages */
  PENSTOCK_PATH_VENDOR = 2,    /* NVIDIA's library, where nvidia-fs serves the file system */
  PENSTOCK_PATH_BOUNCE = 3,    /* storage to pinned host memory to device, overlapped */
  PENSTOCK_PATH_HOST = 4,      /* storage straight into host memory; no device takes part */
  PENSTOCK_PATH_NULL = 5,      /* moves nothing: measures the library's own cost. Only when asked for */
  PENSTOCK_PATH_USERSPACE = 6, /* the own calls of a file system in user space */
  PENSTOCK_PATH_COUNT = 7
} penstock_path;

#define PENSTOCK_PATH_ROOM 16 /* paths that a report has room for */

const char* penstock_path_name(int path);    /* "p2pdma", ...; "unknown" otherwise */
int penstock_path_by_name(const char* name); /* -1 where there is none */

/* Why a path was taken or refused. Numbers and names are stable; each owner has a range, of which not all
 * numbers mean something yet. */
typedef enum penstock_reason {
  PENSTOCK_REASON_NONE = 0,                     /* nothing stands in the way */
  PENSTOCK_REASON_NOT_LISTED = 1,               /* configuration does not list the path */
  PENSTOCK_REASON_HOST_MEMORY = 2,              /* the buffer is host memory: there is no device to reach */
  PENSTOCK_REASON_DEVICE_MEMORY = 3,            /* the buffer is device memory: the host path cannot reach it */
  PENSTOCK_REASON_STAND_IN = 4,                 /* the device is host memory standing in for a GPU */
  PENSTOCK_REASON_IO_URING_FORBIDDEN = 5,       /* usable, with preadv2/pwritev2 in place of io_uring: refused here */
  PENSTOCK_REASON_IO_URING_OFF = 6,             /* usable, with preadv2/pwritev2 in place of io_uring: configured off */
  PENSTOCK_REASON_DENIED = 7,                   /* the configuration's denylist names the file */
  PENSTOCK_REASON_ON_STREAM = 8,                /* requests on streams go through pinned memory */
  PENSTOCK_REASON_DIRECT_IO_OFF = 9,            /* configured off */
  PENSTOCK_REASON_USERSPACE_FILE = 10,          /* the path serves files of file systems in user space alone */
  PENSTOCK_REASON_OBSTACLE = 32,                /* and above: what stands in p2pdma's way (docs/reference/reasons.md) */
  PENSTOCK_REASON_SELF_TEST_REFUSED = 160,      /* the kernel refused the self-test; the detail is its errno */
  PENSTOCK_REASON_SELF_TEST_WRONG = 161,        /* the self-test moved wrong bytes */
  PENSTOCK_REASON_SELF_TEST_COPIED = 162,       /* the CPU copied the self-test's bytes through the page cache */
  PENSTOCK_REASON_SELF_TEST_NO_ROOM = 163,      /* no device memory for the self-test */
  PENSTOCK_REASON_NO_SCRATCH = 164,             /* writes could not be tried: no scratch file can be made */
  PENSTOCK_REASON_REFUSED_LATE = 165,           /* an earlier request was refused; the detail is its errno */
  PENSTOCK_REASON_NOT_KEPT = 168,               /* the bytes were not registered with the GPU */
  PENSTOCK_REASON_PAGES_WENT = 169,             /* the file's pages went away under the transfer */
  PENSTOCK_REASON_NO_PAGE_REGISTRATION = 170,   /* a file's pages cannot be registered; the detail is an errno or 0 */
  PENSTOCK_REASON_FILE_SYSTEM_PAGES = 171,      /* its pages may change without a trace; or it is no regular file */
  PENSTOCK_REASON_OPENED_DIRECT = 172,          /* the descriptor has O_DIRECT */
  PENSTOCK_REASON_KEEPING_OFF = 173,            /* configured off */
  PENSTOCK_REASON_READS_ONLY = 174,             /* the path moves nothing to files */
  PENSTOCK_REASON_VENDOR_LIBRARY_MISSING = 176, /* NVIDIA's library is not to be found */
  PENSTOCK_REASON_VENDOR_IS_OURSELVES = 177,    /* what was named as NVIDIA's library is this one */
  PENSTOCK_REASON_VENDOR_INCOMPLETE = 178,      /* it could not be loaded, or lacks a call */
  PENSTOCK_REASON_NVIDIA_FS_MISSING = 179,      /* nvidia-fs is not loaded, or has no storage driver */
  PENSTOCK_REASON_VENDOR_REFUSED = 180,         /* NVIDIA's library refused; the detail is an errno or its own number */
  PENSTOCK_REASON_VENDOR_NOT_DIRECT = 181,      /* it serves the file by the CPU; also usable so, where forced */
  PENSTOCK_REASON_VENDOR_OFF = 182,             /* configured off */
  PENSTOCK_REASON_COUNT = 208                   /* not every number below means something */
} penstock_reason;

const char* penstock_reason_name(int reason);     /* "not_listed", ... */
const char* penstock_reason_sentence(int reason); /* what it means, for people */
const char* penstock_reason_remedy(int reason);   /* what to do about it; "" where nothing is to be done */

typedef struct penstock_verdict {
  int32_t path;   /* penstock_path */
  int32_t usable; /* 0 or 1 */
  int32_t reason; /* penstock_reason; for a usable path NONE, or a reason that it is slower than it could be */
  int32_t detail; /* an errno that goes with the reason, a number of cuFile's (5001 and above), or 0 */
  uint64_t reserved[2];
} penstock_verdict;

/* What one transfer did. */
typedef struct penstock_report {
  uint64_t bytes;                             /* moved, counted from the request's start without a gap */
  uint64_t bytes_by_path[PENSTOCK_PATH_ROOM]; /* their sum is bytes */
  uint64_t direct_bytes;                      /* of bytes: moved by O_DIRECT */
  uint64_t cached_bytes;                      /* of bytes: moved through the page cache */
  int32_t path;                               /* penstock_path: the one chosen for the request */
  int32_t reason;                             /* penstock_reason: why the best path there is was not it */
  int32_t refused_path;                       /* penstock_path which that reason speaks of; -1: none is better */
  int32_t path_reason;                        /* penstock_reason: why the path taken is slower than it could be */
  int32_t bounced_reason;                     /* penstock_reason: why bytes were bounced although `path` was chosen */
  int32_t reserved_word;
  uint64_t reserved[3];
} penstock_report;

/* ---- Session ------------------------------------------------------------------------------------------------ */

typedef struct penstock_session penstock_session;

/* Zero means the default (but for size), which the environment variable named beside may change. What stands here
 * wins. */
typedef struct penstock_options {
  size_t size;           /* sizeof(penstock_options) */
  uint64_t ring_bytes;   /* pinned host memory a device, at most. 256 MiB. PENSTOCK_RING_MIB */
  uint64_t chunk_bytes;  /* one storage operation of a large request, at most. 4 MiB. PENSTOCK_CHUNK_KIB */
  uint32_t workers;      /* threads for large requests. One a core of this rank's share, up to 8. PENSTOCK_WORKERS */
  const char* device;    /* "auto", or with commas between them: "cuda", "host" (stands in for a GPU), "p2pmem"
                            (memory that PCI devices offer to drives). PENSTOCK_DEVICE */
  const char* paths;     /* comma-separated, best first. "p2pdma,pagecache,vendor,bounce,host". PENSTOCK_PATHS */
  const char* require;   /* a path, or "" for none: other paths then refuse. PENSTOCK_REQUIRE */
  const char* direct_io; /* "auto" (where the user's descriptor has it, or the data is cold), "always", "never".
                            PENSTOCK_DIRECT_IO */
  const char* io_uring;  /* "auto" or "off". PENSTOCK_IO_URING */
} penstock_options;

penstock_status penstock_session_open(const penstock_options* options, penstock_session** session);
/* Waits for transfers under way; then every file and buffer of the session is gone, and must not be used any more.
 * Queues take no more requests (PENSTOCK_CLOSED), give what was done, and are still to be closed. In a forked child a
 * session of the parent's serves no request and is left alone. */
void penstock_session_close(penstock_session* session);

/* "cuda", "host" or "p2pmem", or several with commas between them; and what stood in the way of GPUs ("" where nothing
 * did). */
const char* penstock_session_device_kind(penstock_session* session);
const char* penstock_session_device_reason(penstock_session* session);

/* ---- Devices: what tools and tests need --------------------------------------------------------------------- */

/* The kinds of devices that there are, by numbers from 0 on: "cuda", ..., and NULL behind the last. What they are, for
 * people: "NVIDIA GPUs". */
const char* penstock_device_kind_name(unsigned number);
const char* penstock_device_kind_sentence(unsigned number);

typedef struct penstock_device_info {
  int32_t ordinal;  /* unique among the session's devices, of whatever kinds */
  int32_t stand_in; /* 1: host memory playing a GPU */
  char name[96];
  char pci_address[16]; /* "0000:17:00.0"; "" for a stand-in */
  uint8_t uuid[16];
  uint64_t memory_bytes;
  char kind[16]; /* penstock_device_kind_name() */
  uint64_t reserved[2];
} penstock_device_info;

unsigned penstock_device_count(penstock_session* session);
penstock_status penstock_device_get(penstock_session* session, unsigned ordinal, penstock_device_info* info);
penstock_status penstock_device_alloc(penstock_session* session, unsigned ordinal, size_t size, void** memory);
void penstock_device_free(penstock_session* session, unsigned ordinal, void* memory);
/* Blocking copies between device memory and any host memory. */
penstock_status penstock_device_upload(penstock_session* session, void* device_memory, const void* host, size_t size);
penstock_status penstock_device_download(penstock_session* session, void* host, const void* device_memory, size_t size);

/* ---- Files and buffers -------------------------------------------------------------------------------------- */

typedef uint64_t penstock_file; /* 0 is never one */

typedef struct penstock_file_info {
  uint64_t size; /* bytes, when it was registered */
  uint64_t inode;
  uint32_t device_major; /* of the block device under the file, 0:0 where there is none */
  uint32_t device_minor;
  int32_t is_block_device;
  int32_t readable;
  int32_t writable;
  int32_t opened_direct;        /* the user's descriptor has O_DIRECT */
  uint32_t direct_memory_align; /* bytes; 0: no direct I/O */
  uint32_t direct_offset_align;
  const char* alignment_source; /* "statx", "block device", "assumed", "none" */
  const char* file_system;      /* "ext4", ... */
  uint64_t reserved[4];
} penstock_file_info;

/* The descriptor stays the user's, to close at any time; the session keeps one of its own. */
penstock_status penstock_file_register(penstock_session* session, int fd, penstock_file* file);
/* Waits for the file's transfers under way. */
penstock_status penstock_file_deregister(penstock_session* session, penstock_file file);
penstock_status penstock_file_get(penstock_session* session, penstock_file file, penstock_file_info* info);

/* Optional: remembers what the memory is, and bounds requests that name its base. */
penstock_status penstock_buffer_register(penstock_session* session, const void* base, size_t size);
penstock_status penstock_buffer_deregister(penstock_session* session, const void* base);

/* ---- Transfers ---------------------------------------------------------------------------------------------- */

/* Move `size` bytes between file offset and base + buffer_offset. Reads stop at the end of the file; the report's
 * bytes say how far they came, also after an error. report may be NULL. */
penstock_status penstock_read(penstock_session* session, penstock_file file, void* base, size_t size,
                              int64_t file_offset, int64_t buffer_offset, penstock_report* report);
penstock_status penstock_write(penstock_session* session, penstock_file file, const void* base, size_t size,
                               int64_t file_offset, int64_t buffer_offset, penstock_report* report);

/* Many requests in flight from one thread. Each moves at most request_bytes_max bytes. What the page cache can do
 * without waiting is done in the submission; the rest is handed to the kernel together, by the next reap (its capacity
 * may be 0). */
typedef struct penstock_queue penstock_queue;

typedef struct penstock_request {
  int32_t is_write; /* 0 read, 1 write */
  penstock_file file;
  void* base;
  size_t size;
  int64_t file_offset;
  int64_t buffer_offset;
  uint64_t cookie; /* comes back in the completion */
  uint64_t reserved[2];
} penstock_request;

typedef struct penstock_completion {
  uint64_t cookie;
  penstock_status status;
  penstock_report report;
} penstock_completion;

penstock_status penstock_queue_open(penstock_session* session, unsigned depth, size_t request_bytes_max,
                                    penstock_queue** queue);
void penstock_queue_close(penstock_queue* queue); /* waits for what is in flight; before or after its session */
/* Fails with PENSTOCK_LIMIT while `depth` requests are not reaped. */
penstock_status penstock_queue_submit(penstock_queue* queue, const penstock_request* request);
/* Returns how many completions it wrote: at least `least`, if as many are outstanding, and at most `capacity`. */
unsigned penstock_queue_reap(penstock_queue* queue, penstock_completion* completions, unsigned capacity,
                             unsigned least);

/* ---- The truth ---------------------------------------------------------------------------------------------- */

/* The verdict of every path, in order of preference, for moving between the file and the memory at `base` (or, with
 * base NULL, memory of device `ordinal`). Returns how many there are; writes at most capacity. */
unsigned penstock_explain(penstock_session* session, penstock_file file, const void* base, unsigned ordinal,
                          int is_write, penstock_verdict* verdicts, unsigned capacity, penstock_status* status);

/* How a request would be cut into chunks, as text: a line a chunk, the first 16 of them, then by how many threads and
 * why. Nothing is moved. Memory as for penstock_explain. Returns the text's length; the text is cut to fit `capacity`,
 * zero included. */
size_t penstock_plan(penstock_session* session, penstock_file file, const void* base, unsigned ordinal, int is_write,
                     size_t size, int64_t file_offset, char* text, size_t capacity, penstock_status* status);

/* By whom the request would be moved, and how that was chosen; of the page-cache path, while its bytes are not kept. */
enum penstock_chosen_by {
  PENSTOCK_CHOSEN_BY_SIZE = 0,        /* so small that its caller moves it alone */
  PENSTOCK_CHOSEN_BY_RULE = 1,        /* what its path, its kind and the settings leave; nothing is tried */
  PENSTOCK_CHOSEN_AT_FIRST = 2,       /* to be tuned: the session has not measured enough of such requests */
  PENSTOCK_CHOSEN_BY_MEASUREMENT = 3, /* it cost least when the session tried others, by the policy */
};
typedef struct penstock_choice {
  int32_t path;
  int32_t chosen_by;
  uint32_t threads;   /* at most, the caller's included */
  uint32_t depth;     /* chunks that each has under way at once */
  uint64_t chunk;     /* bytes of the largest */
  const char* policy; /* of the session: throughput, balanced or cpu; lives for ever */
} penstock_choice;

penstock_status penstock_choose(penstock_session* session, penstock_file file, const void* base, unsigned ordinal,
                                int is_write, size_t size, int64_t file_offset, penstock_choice* choice);

/* Bytes and operations since the session opened, by path and by the reason that no better path was taken. */
typedef struct penstock_counter {
  int32_t path;
  int32_t reason;
  uint64_t read_bytes;
  uint64_t read_operations;
  uint64_t write_bytes;
  uint64_t write_operations;
  uint64_t reserved[2];
} penstock_counter;

unsigned penstock_counters(penstock_session* session, penstock_counter* counters, unsigned capacity);

/* Pinned host memory in use for rings, bytes, all devices together. */
uint64_t penstock_ring_bytes(penstock_session* session);

/* The session behind the cuFile calls of this process, or NULL while its driver is closed. It belongs to the
 * library: use it to explain and count, never close it. */
penstock_session* penstock_cufile_session(void);
/* The file behind a CUfileHandle_t, or 0. */
penstock_file penstock_cufile_file(void* cufile_handle);

const char* penstock_version(void); /* "0.1.0" */

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PENSTOCK_PENSTOCK_H_ */
