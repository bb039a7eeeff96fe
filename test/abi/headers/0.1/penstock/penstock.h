/* Penstock: file data into and out of GPU memory, and the truth about the path it took.
 *
 * A session owns everything: registered files and buffers, pinned memory, worker threads. Nothing happens before one
 * is opened. Register a descriptor, then read and write between the file and any memory: of a GPU, of the host. Every
 * transfer can report which path moved its bytes and why no better one did; penstock_explain() tells the same ahead of
 * time.
 *
 * All functions are thread-safe, except that one handle is not to be used while or after it is given back. Every
 * function that can fail returns a penstock_status. Sizes and offsets are bytes, times nanoseconds.
 *
 * Structures grow at their ends. Each begins with struct_size: set it to sizeof the structure, and what is not said to
 * zero, also where the library is to fill it in. In an array the first one's struct_size counts for all. A library that
 * is older than the program refuses (PENSTOCK_UNSUPPORTED) what it does not know and is not zero, and leaves zero what
 * it cannot tell; one that is newer takes what an older program does not say as zero.
 *
 * Handles keep memory alive, not work: they may be given back in any order. After their session was closed they answer
 * PENSTOCK_CLOSED. In a forked child every call on the parent's handles does.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PENSTOCK_PENSTOCK_H_
#define PENSTOCK_PENSTOCK_H_

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Before 1.0 each minor version may break programs, and has a SONAME of its own (libpenstock.so.0.1). */
#define PENSTOCK_VERSION_MAJOR 0
#define PENSTOCK_VERSION_MINOR 1
#define PENSTOCK_VERSION_PATCH 0

const char* penstock_version(void); /* Of the library: "0.1.0". */

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
  PENSTOCK_DESCRIPTOR_LOST = 24,
  PENSTOCK_CANCELED = 25,
  PENSTOCK_TIMED_OUT = 26
} penstock_code;

/* code 0 is success in every domain. step says what was being done when it failed; the text lives for ever. */
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

/* The ways bytes can travel. Numbers are stable; a later library may know more of them. */
typedef enum penstock_path {
  PENSTOCK_PATH_P2PDMA = 0,    /* the drive's DMA engine reaches device memory; no CPU, no host memory */
  PENSTOCK_PATH_PAGECACHE = 1, /* the GPU's DMA engine reads the file's own page-cache pages */
  PENSTOCK_PATH_VENDOR = 2,    /* NVIDIA's library, where nvidia-fs serves the file system */
  PENSTOCK_PATH_BOUNCE = 3,    /* storage to pinned host memory to device, overlapped */
  PENSTOCK_PATH_HOST = 4,      /* storage straight into host memory; no device takes part */
  PENSTOCK_PATH_NULL = 5,      /* moves nothing: measures the library's own cost. Only when asked for */
  PENSTOCK_PATH_USERSPACE = 6  /* the own calls of a file system in user space */
} penstock_path;

#define PENSTOCK_PATH_ROOM 16 /* paths that a report has room for: no version has more */

uint32_t penstock_path_count(void);              /* their numbers are 0 to count - 1 */
const char* penstock_path_name(int32_t path);    /* "p2pdma", ...; "unknown" otherwise */
int32_t penstock_path_by_name(const char* name); /* -1 where there is none */

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
  PENSTOCK_REASON_EXTENT_NOT_REGISTERED = 168,  /* the bytes were not registered with the GPU */
  PENSTOCK_REASON_PAGES_REPLACED = 169,         /* the file's pages went away under the transfer */
  PENSTOCK_REASON_NO_PAGE_REGISTRATION = 170,   /* a file's pages cannot be registered; the detail is an errno or 0 */
  PENSTOCK_REASON_FILE_SYSTEM_PAGES = 171,      /* its pages may change without a trace; or it is no regular file */
  PENSTOCK_REASON_OPENED_DIRECT = 172,          /* the descriptor has O_DIRECT */
  PENSTOCK_REASON_REGISTRATION_CACHE_OFF = 173, /* configured off */
  PENSTOCK_REASON_READS_ONLY = 174,             /* the path moves nothing to files */
  PENSTOCK_REASON_VENDOR_LIBRARY_MISSING = 176, /* NVIDIA's library is not to be found */
  PENSTOCK_REASON_VENDOR_IS_OURSELVES = 177,    /* what was named as NVIDIA's library is this one */
  PENSTOCK_REASON_VENDOR_INCOMPLETE = 178,      /* it could not be loaded, or lacks a call */
  PENSTOCK_REASON_NVIDIA_FS_MISSING = 179,      /* nvidia-fs is not loaded, or has no storage driver */
  PENSTOCK_REASON_VENDOR_REFUSED = 180,         /* NVIDIA's library refused; the detail is an errno or its own number */
  PENSTOCK_REASON_VENDOR_NOT_DIRECT = 181,      /* it serves the file by the CPU; also usable so, where forced */
  PENSTOCK_REASON_VENDOR_OFF = 182              /* configured off */
} penstock_reason;

uint32_t penstock_reason_count(void);                 /* not every number below means something: its name is "" */
const char* penstock_reason_name(int32_t reason);     /* "not_listed", ...; "unknown" otherwise */
const char* penstock_reason_sentence(int32_t reason); /* what it means, for people */
const char* penstock_reason_remedy(int32_t reason);   /* what to do about it; "" where nothing is to be done */

typedef struct penstock_verdict {
  uint32_t struct_size;
  int32_t path;      /* penstock_path */
  int32_t usable;    /* 0 or 1 */
  int32_t reason;    /* penstock_reason; for a usable path NONE, or a reason that it is slower than it could be */
  int32_t detail;    /* an errno that goes with the reason, a number of cuFile's (5001 and above), or 0 */
  uint32_t reserved; /* 0 */
} penstock_verdict;

/* What one transfer did. */
typedef struct penstock_report {
  uint32_t struct_size;
  int32_t path;                               /* penstock_path: the one chosen for the request */
  int32_t reason;                             /* penstock_reason: why the best path there is was not it */
  int32_t refused_path;                       /* penstock_path which that reason speaks of; -1: none is better */
  int32_t path_reason;                        /* penstock_reason: why the path taken is slower than it could be */
  int32_t bounced_reason;                     /* penstock_reason: why bytes were bounced although `path` was chosen */
  uint64_t bytes;                             /* moved, counted from the request's start without a gap */
  uint64_t direct_bytes;                      /* of bytes: moved by O_DIRECT */
  uint64_t cached_bytes;                      /* of bytes: moved through the page cache */
  uint64_t bytes_by_path[PENSTOCK_PATH_ROOM]; /* their sum is bytes */
} penstock_report;

/* ---- Settings ----------------------------------------------------------------------------------------------- */

/* What a session goes by: values by name. What is set here comes before the environment (PENSTOCK_ and the name in
 * capitals), that before the default. docs/reference/settings.md and `penstock settings` list the names. */
typedef struct penstock_config penstock_config;

penstock_status penstock_config_create(penstock_config** config);
void penstock_config_destroy(penstock_config* config);
/* Both are texts, as in the environment: ("paths", "p2pdma,bounce"), ("bounce_mib", "512"). Fails with
 * PENSTOCK_BAD_SETTING for a name that there is not, and for a value that it cannot have. */
penstock_status penstock_config_set(penstock_config* config, const char* name, const char* value);

typedef struct penstock_setting {
  uint32_t struct_size;
  uint32_t reserved;    /* 0 */
  const char* name;     /* "bounce_mib" */
  const char* variable; /* "PENSTOCK_BOUNCE_MIB"; "" where there is none */
  const char* initial;  /* the default, as people read it */
  const char* takes;    /* what a value may be */
  const char* meaning;  /* a sentence */
} penstock_setting;

/* The settings there are, by numbers from 0 to count - 1. All texts live for ever. */
uint32_t penstock_setting_count(void);
penstock_status penstock_setting_get(uint32_t number, penstock_setting* setting);

/* ---- Session ------------------------------------------------------------------------------------------------ */

typedef struct penstock_session penstock_session;

/* config may be NULL. It is read here and not needed after. */
penstock_status penstock_session_open(const penstock_config* config, penstock_session** session);
/* Waits for all that was submitted, then gives back everything but the memory of handles. In a forked child a session
 * of the parent's is left alone. */
void penstock_session_close(penstock_session* session);

/* One more handle of the session, to be closed as well: that ends nothing, and when the first one is closed this one
 * answers PENSTOCK_CLOSED. For objects that may outlive the session which they use. */
penstock_status penstock_session_reference(penstock_session* session, penstock_session** reference);

typedef struct penstock_session_info {
  uint32_t struct_size;
  uint32_t device_count;
  uint64_t pinned_bytes;     /* host memory that is pinned for bounce buffers, of all devices together */
  const char* device_kinds;  /* "cuda", "host" or "p2pmem", or several with commas between them */
  const char* device_reason; /* what stood in the way of GPUs; "" where nothing did. Both live until it is closed */
} penstock_session_info;

penstock_status penstock_session_get(penstock_session* session, penstock_session_info* info);
/* A setting's value in this session, and who said so ("default", "environment", "file" or "call": *source lives for
 * ever, and may be NULL). *length: of the value, also where it was cut to fit `capacity`, zero included; may be NULL.
 */
penstock_status penstock_session_setting(penstock_session* session, const char* name, char* value, size_t capacity,
                                         size_t* length, const char** source);

/* ---- Devices ------------------------------------------------------------------------------------------------ */

/* The kinds of devices that there can be, by numbers from 0 to count - 1: "cuda", ...; NULL beyond. What they are, for
 * people: "NVIDIA GPUs". */
uint32_t penstock_device_kind_count(void);
const char* penstock_device_kind_name(uint32_t number);
const char* penstock_device_kind_sentence(uint32_t number);

typedef struct penstock_device_info {
  uint32_t struct_size;
  uint32_t ordinal;  /* unique among the session's devices, of whatever kinds */
  int32_t stand_in;  /* 1: host memory playing a GPU */
  uint32_t reserved; /* 0 */
  uint64_t memory_bytes;
  uint8_t uuid[16];
  char kind[16];        /* penstock_device_kind_name() */
  char pci_address[16]; /* "0000:17:00.0"; "" for a stand-in */
  char name[96];
} penstock_device_info;

penstock_status penstock_device_get(penstock_session* session, uint32_t ordinal, penstock_device_info* info);
/* Memory of a device, for programs that have no other way to ask for it. */
penstock_status penstock_device_alloc(penstock_session* session, uint32_t ordinal, uint64_t size, void** memory);
penstock_status penstock_device_free(penstock_session* session, uint32_t ordinal, void* memory);
/* Blocking copies between device memory and any host memory. */
penstock_status penstock_device_upload(penstock_session* session, void* device_memory, const void* host, uint64_t size);
penstock_status penstock_device_download(penstock_session* session, void* host, const void* device_memory,
                                         uint64_t size);

/* ---- Files and buffers -------------------------------------------------------------------------------------- */

typedef struct penstock_file penstock_file;

typedef struct penstock_file_info {
  uint32_t struct_size;
  uint32_t device_major; /* of the block device under the file, 0:0 where there is none */
  uint32_t device_minor;
  int32_t is_block_device;
  int32_t readable;
  int32_t writable;
  int32_t opened_direct;        /* the user's descriptor has O_DIRECT */
  uint32_t direct_memory_align; /* bytes; 0: no direct I/O */
  uint32_t direct_offset_align;
  uint32_t reserved; /* 0 */
  uint64_t size;     /* bytes, when it was registered */
  uint64_t inode;
  const char* alignment_source; /* "statx", "block device", "assumed", "none" */
  const char* file_system;      /* "ext4", ...; both live for ever */
} penstock_file_info;

/* The descriptor stays the user's, to close at any time; the session keeps one of its own. */
penstock_status penstock_file_register(penstock_session* session, int fd, penstock_file** file);
/* Waits for the file's transfers under way. NULL is nothing. */
void penstock_file_deregister(penstock_file* file);
penstock_status penstock_file_get(penstock_file* file, penstock_file_info* info);

typedef enum penstock_create_flag {
  PENSTOCK_CREATE_REPLACE = 1, /* a file of that name is replaced; else publishing fails with EEXIST */
  PENSTOCK_CREATE_DIRECT = 2   /* opened with O_DIRECT, where the file system takes it */
} penstock_create_flag;

/* A file for writing that appears under its name only when penstock_file_publish() has made it whole. Until then it is
 * in the same folder without a name, or with one that cannot be guessed where the file system knows no such files.
 * Deregistered before, it is gone. mode is cut by the umask, as for open(2). */
penstock_status penstock_file_create(penstock_session* session, const char* name, uint32_t mode, uint32_t flags,
                                     penstock_file** file);
/* Once all writes have ended: flushes the file, puts it in its place and flushes the folder. A failed one may be tried
 * again. Nothing is to be written after. */
penstock_status penstock_file_publish(penstock_file* file);
/* What was written survives a power failure when this returns. */
penstock_status penstock_file_sync(penstock_file* file);

/* Optional: remembers what the memory is, and bounds requests that name its base. */
penstock_status penstock_buffer_register(penstock_session* session, const void* base, uint64_t size);
penstock_status penstock_buffer_deregister(penstock_session* session, const void* base);

/* ---- Transfers ---------------------------------------------------------------------------------------------- */

/* Moves `size` bytes between file offset and base + buffer_offset. Reads stop at the end of the file; the report's
 * bytes say how far they came, also after an error. report may be NULL. */
penstock_status penstock_read(penstock_file* file, void* base, uint64_t size, int64_t file_offset,
                              int64_t buffer_offset, penstock_report* report);
penstock_status penstock_write(penstock_file* file, const void* base, uint64_t size, int64_t file_offset,
                               int64_t buffer_offset, penstock_report* report);

typedef enum penstock_op { PENSTOCK_READ = 0, PENSTOCK_WRITE = 1 } penstock_op;

typedef struct penstock_request {
  uint32_t struct_size;
  int32_t op; /* penstock_op */
  penstock_file* file;
  void* base;
  uint64_t size;
  int64_t file_offset;
  int64_t buffer_offset;
  /* In place of base, size and buffer_offset, which are zero then: one range of the file over several pieces of memory,
   * 1024 at most. The array is read at the submission and not needed after. */
  const struct iovec* vectors;
  uint32_t vector_count;
  uint32_t device;      /* in dry runs without base: the ordinal of the device whose memory is meant; else 0 */
  uint64_t cookie;      /* comes back in the completion */
  uint64_t deadline_ns; /* of CLOCK_MONOTONIC: ends with PENSTOCK_TIMED_OUT what has not begun by then; 0: none */
} penstock_request;

/* The same as one value, also over several pieces of memory. It begins at once, whatever its deadline. */
penstock_status penstock_transfer(const penstock_request* request, penstock_report* report);

/* ---- Queues: many requests in flight ------------------------------------------------------------------------ */

typedef struct penstock_queue penstock_queue;

typedef enum penstock_queue_mode {
  /* The library's threads carry requests out, in any order. */
  PENSTOCK_QUEUE_THREADED = 0,
  /* The calls of one thread do: what the page cache can do without waiting is done in the submission, the rest is
   * handed to the kernel together by the next reap. The least cost for a request, and no thread beside the caller's.
   * All requests begin at their submission. No vectors, no eventfd. */
  PENSTOCK_QUEUE_POLLED = 1
} penstock_queue_mode;

typedef struct penstock_queue_options {
  uint32_t struct_size;
  int32_t mode;               /* penstock_queue_mode */
  uint32_t depth;             /* requests that are submitted and not reaped, at most: 1 to 4096 */
  uint32_t reserved;          /* 0 */
  uint64_t request_bytes_max; /* of a polled queue, which takes memory for depth times as much; else 0 */
} penstock_queue_options;

typedef struct penstock_completion {
  uint32_t struct_size;
  uint32_t reserved; /* 0 */
  uint64_t cookie;
  penstock_status status;
  penstock_report report; /* last, since it may grow; its struct_size is what is left for it */
} penstock_completion;

penstock_status penstock_queue_open(penstock_session* session, const penstock_queue_options* options,
                                    penstock_queue** queue);
/* Waits for what has begun; the rest does not begin. */
void penstock_queue_close(penstock_queue* queue);
/* In their order, up to the first that cannot be taken, of which the status tells: PENSTOCK_LIMIT where `depth` are not
 * reaped. *submitted (may be NULL): how many were taken. A request that is taken is reaped, whatever becomes of it. */
penstock_status penstock_queue_submit(penstock_queue* queue, const penstock_request* requests, uint32_t count,
                                      uint32_t* submitted);
/* Waits until `least` completions are there, or as many as are outstanding, or `timeout_ns` have passed: -1 waits as
 * long as it takes. Then writes at most `capacity`; *count says how many. Running out of time is no failure. */
penstock_status penstock_queue_reap(penstock_queue* queue, penstock_completion* completions, uint32_t capacity,
                                    uint32_t least, int64_t timeout_ns, uint32_t* count);
/* Requests with this cookie that have not begun end with PENSTOCK_CANCELED, and are reaped like all others; those that
 * have begun go on to their end. *canceled (may be NULL): how many. */
penstock_status penstock_queue_cancel(penstock_queue* queue, uint64_t cookie, uint32_t* canceled);
/* A descriptor that poll(2) and epoll find readable while there is something to reap. It is the queue's: neither to be
 * read nor closed. */
penstock_status penstock_queue_eventfd(penstock_queue* queue, int* fd);

/* ---- Streams ------------------------------------------------------------------------------------------------ */

typedef struct penstock_stream_result {
  uint32_t struct_size;
  int32_t done; /* 0 until the request has ended; written last */
  penstock_status status;
  penstock_report report; /* last, since it may grow; its struct_size is what is left for it */
} penstock_stream_result;

/* As penstock_read and penstock_write, after all that is on the CUDA stream now and before all that comes on it later;
 * the call waits for nothing. The result is filled in when the request ends, before the stream goes on; it must live
 * until then. A failed call leaves nothing on the stream that would use the result. */
penstock_status penstock_stream_read(void* stream, penstock_file* file, void* base, uint64_t size, int64_t file_offset,
                                     int64_t buffer_offset, penstock_stream_result* result);
penstock_status penstock_stream_write(void* stream, penstock_file* file, const void* base, uint64_t size,
                                      int64_t file_offset, int64_t buffer_offset, penstock_stream_result* result);

/* ---- Dry runs ----------------------------------------------------------------------------------------------- */

/* What would become of a request. Nothing is moved, registered or pinned. With base NULL it is for memory of
 * request->device; vectors, cookie and deadline are not looked at. */

/* The verdict of every path, in order of preference; size and offsets do not matter. Writes at most `capacity`, which
 * may be 0; *count: how many there are. */
penstock_status penstock_explain(const penstock_request* request, penstock_verdict* verdicts, uint32_t capacity,
                                 uint32_t* count);

/* How it would be cut into chunks, as text: a line a chunk, the first 16 of them, then by how many threads and why.
 * *length (may be NULL): of the text, also where it was cut to fit `capacity`, zero included. */
penstock_status penstock_plan(const penstock_request* request, char* text, size_t capacity, size_t* length);

/* By whom the request would be moved, and how that was chosen. */
typedef enum penstock_chosen_by {
  PENSTOCK_CHOSEN_BY_SIZE = 0,       /* so small that its caller moves it alone */
  PENSTOCK_CHOSEN_BY_RULE = 1,       /* what its path, its kind and the settings leave; nothing is tried */
  PENSTOCK_CHOSEN_AT_FIRST = 2,      /* to be tuned: the session has not measured enough of such requests */
  PENSTOCK_CHOSEN_BY_MEASUREMENT = 3 /* it cost least when the session tried others, by the policy */
} penstock_chosen_by;

typedef struct penstock_choice {
  uint32_t struct_size;
  int32_t path;       /* penstock_path */
  int32_t chosen_by;  /* penstock_chosen_by */
  uint32_t threads;   /* at most, the caller's included */
  uint32_t depth;     /* chunks that each has under way at once */
  uint32_t reserved;  /* 0 */
  uint64_t chunk;     /* bytes of the largest */
  const char* policy; /* of the session: throughput, balanced or cpu; lives for ever */
} penstock_choice;

penstock_status penstock_choose(const penstock_request* request, penstock_choice* choice);

/* What machine and settings let a path do in this session, before any file is known: usable where nothing is certain to
 * stand in its way. A path that is forced to serve where it is not direct tells why it is not. */
penstock_status penstock_path_outlook(penstock_session* session, int32_t path, penstock_verdict* verdict);

/* ---- Counters ----------------------------------------------------------------------------------------------- */

/* Bytes and operations since the session opened, by path and by the reason that no better path was taken. */
typedef struct penstock_counter {
  uint32_t struct_size;
  int32_t path;
  int32_t reason;
  uint32_t reserved; /* 0 */
  uint64_t read_bytes;
  uint64_t read_operations;
  uint64_t write_bytes;
  uint64_t write_operations;
} penstock_counter;

/* Those that are not zero. Writes at most `capacity`, which may be 0; *count: how many there are. */
penstock_status penstock_counters(penstock_session* session, penstock_counter* counters, uint32_t capacity,
                                  uint32_t* count);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PENSTOCK_PENSTOCK_H_ */
