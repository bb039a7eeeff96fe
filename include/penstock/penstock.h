/* Penstock: moves file data into and out of GPU memory, and reports which path the bytes of each transfer took.
 *
 * A session owns everything: registered files and buffers, pinned memory, worker threads. The library starts nothing
 * before a session is opened. Register a file descriptor, then read and write between the file and any memory, of a GPU
 * or of the host. Every transfer can report which path it took and why not a better one; penstock_explain() says so in
 * advance.
 *
 * Every function that can fail returns a penstock_status. Sizes and offsets are in bytes, times in nanoseconds. Texts
 * that the library returns are in English and live as long as the process, unless noted.
 *
 * Threads: all functions may be called from several threads at once, with two exceptions. A penstock_config belongs to
 * one thread at a time. And no thread may use a handle while another thread closes it, or afterwards. Every handle is
 * given back by the function named close, which does nothing with NULL.
 *
 * Anything marked [experimental] may change or disappear in any version, its number included, without a new SONAME. A
 * program that stores or compares such a path or reason should use its name, which the library returns.
 *
 * Structures may grow at their ends in later versions. Each begins with struct_size. Set it to the size of the
 * structure, and set every member that you do not need to zero, also in structures that the library fills in. Where
 * struct_size is not set, calls fail with PENSTOCK_INVALID_ARGUMENT. In an array, the first element's struct_size holds
 * for all. A library that is older than the program fails with PENSTOCK_UNSUPPORTED where a member that it does not
 * know is not zero, and fills such members with zeros. A newer library treats members that the program does not have as
 * zero.
 *
 * Handles may be closed in any order: a handle keeps its memory alive, but not its work. A call that closes a file, a
 * buffer or device memory waits for the requests that use it. Once the session is closed, calls on its handles fail
 * with PENSTOCK_CLOSED unless noted. So do calls of a forked child on its parent's handles.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PENSTOCK_PENSTOCK_H_
#define PENSTOCK_PENSTOCK_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Before 1.0 each minor version may break programs, and has a SONAME of its own (libpenstock.so.0.2). */
#define PENSTOCK_VERSION_MAJOR 0
#define PENSTOCK_VERSION_MINOR 2
#define PENSTOCK_VERSION_PATCH 0

const char* penstock_version(void); /* of the library that is loaded: "0.2.0" */

/* ---- Status ------------------------------------------------------------------------------------------------- */

typedef enum penstock_domain {
  PENSTOCK_DOMAIN_PENSTOCK = 0, /* code is a penstock_code */
  PENSTOCK_DOMAIN_OS = 1,       /* code is an errno */
  PENSTOCK_DOMAIN_DRIVER = 2    /* code is an error number of a device's driver (of CUDA's driver: a CUresult) */
} penstock_domain;

typedef enum penstock_code {
  PENSTOCK_OK = 0,                 /* success */
  PENSTOCK_INVALID_ARGUMENT = 1,   /* a null pointer, an unknown constant, an impossible size */
  PENSTOCK_NEGATIVE_OFFSET = 2,    /* file_offset or buffer_offset is below 0 */
  PENSTOCK_NOT_REGISTERED = 3,     /* the file or buffer is not registered, or not any more */
  PENSTOCK_ALREADY_REGISTERED = 4, /* a buffer with this base is registered */
  PENSTOCK_UNSUPPORTED_FILE = 5,   /* neither a regular file nor a block device */
  PENSTOCK_UNSUPPORTED_FLAGS = 6,  /* the descriptor was opened with O_APPEND or O_PATH */
  PENSTOCK_NOT_READABLE = 7,       /* a read by a descriptor that was opened for writing only */
  PENSTOCK_NOT_WRITABLE = 8,       /* a write by a descriptor that was opened for reading only */
  PENSTOCK_BAD_POINTER = 9,        /* the address belongs neither to host memory nor to a device */
  PENSTOCK_OUT_OF_RANGE = 10,      /* the range runs past the end of the registered buffer */
  PENSTOCK_NO_DEVICE = 11,         /* there is no such device, or its driver cannot be used */
  PENSTOCK_PATH_REFUSED = 12,      /* no path that the settings allow can move the request */
  PENSTOCK_UNALIGNED_WRITE = 13,   /* unaligned, on an O_DIRECT file that cannot be opened without O_DIRECT */
  PENSTOCK_NO_PROGRESS = 14,       /* repeated short transfers */
  PENSTOCK_OUT_OF_MEMORY = 15,     /* host memory is short */
  PENSTOCK_LIMIT = 16,             /* too much at once: requests in a queue, pinned memory, handles */
  PENSTOCK_CLOSED = 17,            /* the session is closed, or belongs to the parent process */
  PENSTOCK_UNSUPPORTED = 18,       /* not with this version, kernel, device or file */
  PENSTOCK_DEVICE_LOST = 19,       /* the device, or the GPU's context, went away */
  PENSTOCK_PAST_ALLOCATION = 20,   /* the range runs past the end of the memory's allocation */
  PENSTOCK_BAD_SETTING = 21,       /* an unknown setting, or a value that it does not take */
  PENSTOCK_DENIED = 22,            /* cufile.json's denylist names the file and allows no fallback */
  PENSTOCK_NO_DIRECT_PATH = 23,    /* cufile.json allows only direct paths, and none is usable */
  PENSTOCK_DESCRIPTOR_LOST = 24,   /* the program closed a descriptor that the library had opened */
  PENSTOCK_CANCELED = 25,          /* canceled before it began */
  PENSTOCK_TIMED_OUT = 26,         /* its deadline passed before it began */
  PENSTOCK_BAD_STRIPE = 27         /* [experimental] a striped object's manifest or member is not what it should be */
} penstock_code;

/* code 0 is success in every domain. step names what failed, as a verb phrase: "read the file into the buffer". */
typedef struct penstock_status {
  int16_t domain; /* penstock_domain */
  int16_t driver; /* in PENSTOCK_DOMAIN_DRIVER: the driver's number, for penstock_status_driver(); else 0 */
  int32_t code;
  const char* step;
} penstock_status;

/* Writes one sentence with step, cause and remedy, truncated to `capacity` bytes with its final zero. Returns the
 * length of the whole sentence, without the zero. 512 bytes hold most sentences. */
size_t penstock_status_message(penstock_status status, char* text, size_t capacity);

/* The driver that the code is from, as a kind of device ("cuda"); "" in the other domains. */
const char* penstock_status_driver(penstock_status status);

/* ---- Paths and reasons -------------------------------------------------------------------------------------- */

/* The ways to move bytes. Numbers are stable; later versions may add paths. */
typedef enum penstock_path {
  PENSTOCK_PATH_P2PDMA = 0,    /* the drive's DMA engine reaches device memory; no CPU, no host memory */
  PENSTOCK_PATH_PAGECACHE = 1, /* the GPU's DMA engine reads the file's pages in the page cache, and writes to some */
  PENSTOCK_PATH_VENDOR = 2,    /* NVIDIA's library, where nvidia-fs serves the file system */
  PENSTOCK_PATH_BOUNCE = 3,    /* storage to pinned host memory to device, overlapped */
  PENSTOCK_PATH_HOST = 4,      /* storage straight into host memory; no device is involved */
  PENSTOCK_PATH_NULL = 5,      /* moves no bytes, to measure the library's own cost; used only where settings name it */
  PENSTOCK_PATH_USERSPACE = 6, /* the calls of a file system in user space, for files registered with such calls */
  PENSTOCK_PATH_NVFS = 7,      /* [experimental] the module nvidia-fs, called without NVIDIA's library */
  PENSTOCK_PATH_DMABUF = 8     /* [experimental] a raw drive's DMA engine reaches GPU memory by a dma-buf */
} penstock_path;

uint32_t penstock_path_count(void);           /* the paths' numbers are 0 to count - 1 */
const char* penstock_path_name(int32_t path); /* "p2pdma", ...; "unknown" for any other number */
/* Fails with PENSTOCK_INVALID_ARGUMENT where the library knows no path of this name. */
penstock_status penstock_path_by_name(const char* name, int32_t* path);

/* Why a path was refused, or is slower than it could be. Numbers and names are stable. Some numbers are unused.
 * docs/reference/reasons.md explains each. */
typedef enum penstock_reason {
  PENSTOCK_REASON_NONE = 0,                     /* nothing stands in the way */
  PENSTOCK_REASON_NOT_LISTED = 1,               /* the settings do not list the path */
  PENSTOCK_REASON_HOST_MEMORY = 2,              /* the buffer is host memory: there is no device to reach */
  PENSTOCK_REASON_DEVICE_MEMORY = 3,            /* the buffer is device memory: the host path cannot reach it */
  PENSTOCK_REASON_STAND_IN = 4,                 /* the device is host memory standing in for a GPU */
  PENSTOCK_REASON_IO_URING_FORBIDDEN = 5,       /* usable, but by preadv2/pwritev2: io_uring is forbidden here */
  PENSTOCK_REASON_IO_URING_OFF = 6,             /* usable, but by preadv2/pwritev2: settings switch io_uring off */
  PENSTOCK_REASON_DENIED = 7,                   /* cufile.json's denylist names the file */
  PENSTOCK_REASON_ON_STREAM = 8,                /* a request on a stream goes through pinned memory */
  PENSTOCK_REASON_DIRECT_IO_OFF = 9,            /* settings switch direct I/O off */
  PENSTOCK_REASON_USERSPACE_FILE = 10,          /* the path serves only files of file systems in user space */
  PENSTOCK_REASON_OBSTACLE = 32,                /* 32 to 159: obstacles to p2pdma outside of the library */
  PENSTOCK_REASON_SELF_TEST_REFUSED = 160,      /* the kernel refused the self-test; the detail is its errno */
  PENSTOCK_REASON_SELF_TEST_WRONG = 161,        /* the self-test moved wrong bytes */
  PENSTOCK_REASON_SELF_TEST_COPIED = 162,       /* the CPU copied the self-test's bytes through the page cache */
  PENSTOCK_REASON_SELF_TEST_NO_ROOM = 163,      /* there was no device memory for the self-test */
  PENSTOCK_REASON_NO_SCRATCH = 164,             /* writes could not be tried: no scratch file can be made */
  PENSTOCK_REASON_REFUSED_LATE = 165,           /* the kernel refused an earlier request; the detail is its errno */
  PENSTOCK_REASON_SMALL_BLOCKS = 166,           /* [experimental] blocks below 4096 bytes, which nvidia-fs cannot do */
  PENSTOCK_REASON_NVIDIA_FS_TASK_SWITCH = 167,  /* [experimental] nvidia-fs stops, or may stop, this kernel */
  PENSTOCK_REASON_EXTENT_NOT_REGISTERED = 168,  /* the bytes were not registered with the GPU */
  PENSTOCK_REASON_PAGES_REPLACED = 169,         /* the file's pages left the page cache during the transfer */
  PENSTOCK_REASON_NO_PAGE_REGISTRATION = 170,   /* a file's pages cannot be registered; the detail is an errno or 0 */
  PENSTOCK_REASON_FILE_SYSTEM_PAGES = 171,      /* its pages may change unnoticed, or it is no regular file */
  PENSTOCK_REASON_OPENED_DIRECT = 172,          /* the descriptor has O_DIRECT */
  PENSTOCK_REASON_REGISTRATION_CACHE_OFF = 173, /* settings switch the registration cache or the page cache off */
  PENSTOCK_REASON_READS_ONLY = 174,             /* the path cannot write to this file */
  PENSTOCK_REASON_READ_ONCE = 175,              /* the program said that it reads the file once */
  PENSTOCK_REASON_VENDOR_LIBRARY_MISSING = 176, /* [experimental] NVIDIA's library cannot be found */
  PENSTOCK_REASON_VENDOR_IS_OURSELVES = 177,    /* [experimental] the file named as NVIDIA's library is Penstock's */
  PENSTOCK_REASON_VENDOR_INCOMPLETE = 178, /* [experimental] NVIDIA's library could not be loaded, or lacks a call */
  PENSTOCK_REASON_NVIDIA_FS_MISSING = 179, /* [experimental] nvidia-fs is not loaded, or has no storage driver */
  PENSTOCK_REASON_VENDOR_REFUSED = 180,    /* [experimental] NVIDIA's library refused; the detail: its error */
  PENSTOCK_REASON_VENDOR_NOT_DIRECT = 181, /* [experimental] NVIDIA's library moves the file's bytes by the CPU */
  PENSTOCK_REASON_VENDOR_OFF = 182,        /* [experimental] settings switch NVIDIA's library off */
  PENSTOCK_REASON_NVFS_MISSING = 192,      /* [experimental] 192 to 215: reasons of nvfs. nvidia-fs is not loaded */
  PENSTOCK_REASON_NVFS_VERSION = 193,      /* [experimental] a version with faults; detail: 2025006 for 2.25.6 */
  PENSTOCK_REASON_DMABUF_KERNEL = 216,     /* [experimental] 216 to 231: reasons of dmabuf. The kernel lacks it */
  PENSTOCK_REASON_DMABUF_NOT_BUILT = 217,  /* [experimental] the kernel was built without dma-bufs */
  PENSTOCK_REASON_DMABUF_OFF = 218,        /* [experimental] settings do not switch dma-bufs on */
  PENSTOCK_REASON_RESIDENT_NO_LEASE = 232, /* [experimental] 232 to 239: reasons of penstock/gpu.h. No lease */
  PENSTOCK_REASON_RESIDENT_WRITTEN = 233   /* [experimental] somebody has the file open for writing */
} penstock_reason;

uint32_t penstock_reason_count(void);                 /* the largest number in use plus one */
const char* penstock_reason_name(int32_t reason);     /* "not_listed", ...; "" if not in use; "unknown" beyond count */
const char* penstock_reason_sentence(int32_t reason); /* what it means, for people */
const char* penstock_reason_remedy(int32_t reason);   /* what users can do about it; "" if nothing */

/* A path's answer about a request: whether it can serve it, and why not. */

typedef struct penstock_verdict {
  uint32_t struct_size;
  int32_t path;      /* penstock_path */
  int32_t usable;    /* 0 or 1 */
  int32_t reason;    /* penstock_reason: why the path is not usable; if it is, why it is slower than it could be */
  int32_t detail;    /* an errno that goes with the reason, a CUfileOpError (5001 and above), a version, or 0 */
  uint32_t reserved; /* 0 */
} penstock_verdict;

/* What one transfer did. */
typedef struct penstock_report {
  uint32_t struct_size;
  int32_t path;           /* penstock_path that was chosen for the request */
  int32_t reason;         /* penstock_reason: why refused_path was not chosen, or NONE */
  int32_t refused_path;   /* the best penstock_path that refused; -1: `path` is the best one */
  int32_t path_reason;    /* penstock_reason: why `path` is slower than it could be, or NONE */
  int32_t bounced_reason; /* penstock_reason: why bytes fell back to bounce, or NONE */
  uint64_t bytes;         /* moved without a gap, from the start of the request */
  uint64_t direct_bytes;  /* the part of bytes moved by direct I/O, around the page cache */
  uint64_t cached_bytes;  /* the other part, moved through the page cache */
  uint64_t bounced_bytes; /* the part that fell back to the bounce path; 0 where `path` is bounce */
} penstock_report;

/* Returns how many of report->bytes this penstock_path moved. The sum over all paths is report->bytes. Returns 0 for an
 * unknown path, and where struct_size is not set. */
uint64_t penstock_report_bytes(const penstock_report* report, int32_t path);

/* ---- Settings ----------------------------------------------------------------------------------------------- */

/* Settings for sessions, by name. A value set here overrides the environment variable (PENSTOCK_ and the name in
 * capitals), which overrides the default. docs/reference/settings.md and `penstock settings` list all. */
typedef struct penstock_config penstock_config;

penstock_status penstock_config_create(penstock_config** config);
void penstock_config_close(penstock_config* config);
/* Name and value are strings, as in the environment: ("paths", "p2pdma,bounce"), ("bounce_mib", "512"). Fails with
 * PENSTOCK_BAD_SETTING for an unknown name, and for a value that the setting does not accept. */
penstock_status penstock_config_set(penstock_config* config, const char* name, const char* value);

typedef struct penstock_setting {
  uint32_t struct_size;
  uint32_t reserved;    /* 0 */
  const char* name;     /* "bounce_mib" */
  const char* variable; /* "PENSTOCK_BOUNCE_MIB"; "" where there is none */
  const char* initial;  /* the default, for people */
  const char* takes;    /* the accepted values, for people */
  const char* meaning;  /* what it does, for people */
} penstock_setting;

/* All settings there are, numbered from 0 to count - 1. */
uint32_t penstock_setting_count(void);
penstock_status penstock_setting_get(uint32_t number, penstock_setting* setting);

/* ---- Session ------------------------------------------------------------------------------------------------ */

typedef struct penstock_session penstock_session;

/* config may be NULL: then the environment and the defaults apply. The call copies it: later changes do not affect the
 * session. */
penstock_status penstock_session_open(const penstock_config* config, penstock_session** session);
/* Waits for all submitted requests, then frees everything except the memory of handles, which must still be closed. In
 * a forked child this only frees the handle. */
void penstock_session_close(penstock_session* session);

/* Makes one more handle of the session, for objects that may outlive it. Closing that handle does not close the
 * session. Once the handle from penstock_session_open() is closed, calls on this one fail with PENSTOCK_CLOSED. */
penstock_status penstock_session_reference(penstock_session* session, penstock_session** reference);

typedef struct penstock_session_info {
  uint32_t struct_size;
  uint32_t device_count;
  uint64_t pinned_bytes;     /* host memory currently pinned for bounce buffers, summed over all devices */
  const char* device_kinds;  /* "cuda", "host" or "p2pmem", or several with commas between them */
  const char* device_reason; /* why no GPU can be used, or "". Both strings live until the handle is closed */
} penstock_session_info;

penstock_status penstock_session_get(penstock_session* session, penstock_session_info* info);
/* Writes the value that a setting has in this session, truncated to `capacity` bytes with its final zero. *length (may
 * be NULL): length of the whole value, without the zero. *source (may be NULL): where the value comes from, "default",
 * "environment", "file" (a cufile.json) or "call". Fails with PENSTOCK_BAD_SETTING for an unknown name. */
penstock_status penstock_session_setting(penstock_session* session, const char* name, char* value, size_t capacity,
                                         size_t* length, const char** source);

/* ---- Devices ------------------------------------------------------------------------------------------------ */

/* The kinds of devices that this library supports, numbered from 0 to count - 1: their names ("cuda") and their
 * descriptions ("NVIDIA GPUs"). NULL for any other number. */
uint32_t penstock_device_kind_count(void);
const char* penstock_device_kind_name(uint32_t number);
const char* penstock_device_kind_sentence(uint32_t number);

typedef struct penstock_device_info {
  uint32_t struct_size;
  uint32_t ordinal;  /* its number in the session: 0 to device_count - 1, over all kinds */
  int32_t stand_in;  /* 1: host memory standing in for a GPU */
  uint32_t reserved; /* 0 */
  uint64_t memory_bytes;
  uint8_t uuid[16];
  char kind[16];        /* penstock_device_kind_name() */
  char pci_address[16]; /* "0000:17:00.0"; "" for a stand-in */
  char name[96];
} penstock_device_info;

penstock_status penstock_device_get(penstock_session* session, uint32_t ordinal, penstock_device_info* info);

/* ---- Files and buffers -------------------------------------------------------------------------------------- */

typedef struct penstock_file penstock_file;

typedef struct penstock_file_info {
  uint32_t struct_size;
  uint32_t device_major; /* the block device under the file; 0:0 if none */
  uint32_t device_minor;
  int32_t is_block_device;
  int32_t readable;
  int32_t writable;
  int32_t opened_direct;        /* the program's descriptor has O_DIRECT */
  uint32_t direct_memory_align; /* alignment of addresses for direct I/O, in bytes; 0: no direct I/O on this file */
  uint32_t direct_offset_align; /* alignment of offsets and sizes for direct I/O */
  uint32_t reserved;            /* 0 */
  uint64_t size;                /* the file's size when it was registered */
  uint64_t inode;
  const char* alignment_source; /* where the alignment comes from: "statx", "block device", "assumed" or "none" */
  const char* file_system;      /* "ext4", ... */
} penstock_file_info;

/* The session duplicates the descriptor: the program may close its own at any time. */
penstock_status penstock_file_register(penstock_session* session, int fd, penstock_file** file);
/* Waits for the file's transfers that are in flight. */
void penstock_file_close(penstock_file* file);
penstock_status penstock_file_get(penstock_file* file, penstock_file_info* info);

typedef enum penstock_create_flag {
  PENSTOCK_CREATE_REPLACE = 1, /* publishing replaces an existing file; without this flag it fails with EEXIST */
  PENSTOCK_CREATE_DIRECT = 2   /* opens the file with O_DIRECT, if the file system allows it */
} penstock_create_flag;

/* Creates a file for writing, and registers it. It appears under `name` only when penstock_file_publish() is called.
 * Until then it has no name, or a random one in the same folder if the file system has no unnamed files. If it is
 * closed before that, it is removed. flags: penstock_create_flag. mode: as for open(2), less the umask. */
penstock_status penstock_file_create(penstock_session* session, const char* name, uint32_t mode, uint32_t flags,
                                     penstock_file** file);
/* Flushes the file, gives it its name and flushes the folder, so that a reader finds the old file or all of the new
 * one, also after a power failure. Call it when all writes have ended, and write nothing afterwards. If it fails, it
 * may be called again, but not once the file's own bytes could not be flushed: they may be lost, so that it fails with
 * the same error again. Only for files from penstock_file_create(). */
penstock_status penstock_file_publish(penstock_file* file);
/* Once this has succeeded, all earlier writes survive a power failure. If it fails, they may be lost, also where a
 * later call succeeds (fsync(2)): write them again. It also fails where a flush within a write has failed since the
 * last call, which may have lost the bytes of other writes. */
penstock_status penstock_file_sync(penstock_file* file);

typedef enum penstock_advice {
  PENSTOCK_ADVICE_READ_ONCE = 1, /* no byte is read twice: the library registers nothing for later reads */
  /* [experimental] a store's own file, as penstock.kv has: preallocated, written in whole pages at fixed places, its
   * size never changed, and opened by nobody else. With PENSTOCK_DMABUF_WRITE=on it may be written on its drive. */
  PENSTOCK_ADVICE_OWN_STORE = 2
} penstock_advice;

/* Call it before the file's first request. advice: penstock_advice. */
penstock_status penstock_file_advise(penstock_file* file, uint32_t advice);

typedef struct penstock_buffer penstock_buffer;

/* Optional. Requests with exactly this `base` save a driver call to look the memory up, and must stay within `size`
 * (else PENSTOCK_OUT_OF_RANGE). Queues and batches pin registered host memory, up to 1 GiB each: close the buffer
 * before its memory is freed or remapped, or its pages are dropped (madvise), since transfers would use the old pages.
 * Fails with PENSTOCK_ALREADY_REGISTERED where the session has a buffer with this base. */
penstock_status penstock_buffer_register(penstock_session* session, const void* base, uint64_t size,
                                         penstock_buffer** buffer);
/* Waits for the requests of queues that use the buffer. The memory itself is not freed. */
void penstock_buffer_close(penstock_buffer* buffer);

/* ---- Transfers ---------------------------------------------------------------------------------------------- */

typedef enum penstock_op { PENSTOCK_READ = 0, PENSTOCK_WRITE = 1 } penstock_op;

typedef enum penstock_request_flag {
  PENSTOCK_REQUEST_REQUIRES_PATH = 1 /* only required_path may serve it: else it fails with PENSTOCK_PATH_REFUSED */
} penstock_request_flag;

/* One request, for every call that moves, queues or judges one: `size` bytes between the file, from file_offset on, and
 * memory, from base + buffer_offset on. A call that does not support a member fails with PENSTOCK_UNSUPPORTED where the
 * member is set, unless its comment says that it ignores the member. */
typedef struct penstock_request {
  uint32_t struct_size;
  int32_t op; /* penstock_op */
  penstock_file* file;
  void* base; /* a write only reads it */
  uint64_t size;
  int64_t file_offset;
  int64_t buffer_offset;
  /* Vectored requests move one range of the file to or from several pieces of memory, 1024 at most. They leave base,
   * size and buffer_offset zero. The array is read when the request is submitted, and not needed after. */
  const struct iovec* pieces;
  uint32_t piece_count;
  uint32_t device;       /* for dry runs with base NULL: the ordinal of the device that would hold the memory; else 0 */
  uint64_t cookie;       /* a number that the program chooses; a queue's completion returns it */
  uint64_t deadline_ns;  /* on CLOCK_MONOTONIC; if it has not begun by then it ends with PENSTOCK_TIMED_OUT; 0: none */
  uint32_t flags;        /* penstock_request_flag */
  int32_t required_path; /* penstock_path, with PENSTOCK_REQUEST_REQUIRES_PATH; else 0 */
  void* stream;          /* for penstock_stream_submit(): a CUstream or cudaStream_t; else NULL */
} penstock_request;

/* Moves the request's bytes, and returns when they are moved. A read that reaches the end of the file succeeds with
 * fewer bytes: report->bytes is how many were moved, also after an error. report may be NULL. The cookie is ignored. */
penstock_status penstock_transfer(const penstock_request* request, penstock_report* report);

/* Returns a request for one piece of memory; its other members are zero. */
static inline penstock_request penstock_request_of(penstock_op op, penstock_file* file, const void* base, uint64_t size,
                                                   int64_t file_offset, int64_t buffer_offset) {
  penstock_request request;
  memset(&request, 0, sizeof request);
  request.struct_size = sizeof request;
  request.op = op;
  request.file = file;
  request.base = (void*)base;
  request.size = size;
  request.file_offset = file_offset;
  request.buffer_offset = buffer_offset;
  return request;
}

/* Shorthands: both call penstock_transfer() with such a request. */
static inline penstock_status penstock_read(penstock_file* file, void* base, uint64_t size, int64_t file_offset,
                                            int64_t buffer_offset, penstock_report* report) {
  const penstock_request request = penstock_request_of(PENSTOCK_READ, file, base, size, file_offset, buffer_offset);
  return penstock_transfer(&request, report);
}
static inline penstock_status penstock_write(penstock_file* file, const void* base, uint64_t size, int64_t file_offset,
                                             int64_t buffer_offset, penstock_report* report) {
  const penstock_request request = penstock_request_of(PENSTOCK_WRITE, file, base, size, file_offset, buffer_offset);
  return penstock_transfer(&request, report);
}

/* ---- Queues: many requests in flight ------------------------------------------------------------------------ */

typedef struct penstock_queue penstock_queue;

typedef enum penstock_queue_mode {
  /* The library's threads execute the requests, in any order. */
  PENSTOCK_QUEUE_THREADED = 0,
  /* The calling thread executes the requests, within its calls: on submission it does the work that needs no waiting,
   * and it hands the rest to the kernel at the next reap. This has the lowest cost per request, and needs no other
   * thread. A request begins when it is submitted: it cannot be canceled, and if its deadline has passed its submission
   * fails with PENSTOCK_TIMED_OUT. Such a queue supports neither vectored requests nor an eventfd. Use it from one
   * thread: while one thread waits in a call, calls of other threads block. On the paths nvfs and vendor, whose calls
   * wait for storage, it moves one request at a time, where a threaded queue moves one per thread. */
  PENSTOCK_QUEUE_POLLED = 1
} penstock_queue_mode;

typedef struct penstock_queue_options {
  uint32_t struct_size;
  int32_t mode;               /* penstock_queue_mode */
  uint32_t depth;             /* how many requests may be outstanding (submitted, not reaped): 1 to 4096 */
  uint32_t reserved;          /* 0 */
  uint64_t request_bytes_max; /* polled: the largest request, up to 1 GiB; depth times as much is pinned. Threaded: 0 */
} penstock_queue_options;

typedef struct penstock_completion {
  uint32_t struct_size;
  uint32_t reserved; /* 0 */
  uint64_t cookie;
  penstock_status status;
  penstock_report report; /* the last member, since it may grow; the library sets report.struct_size */
} penstock_completion;

penstock_status penstock_queue_open(penstock_session* session, const penstock_queue_options* options,
                                    penstock_queue** queue);
/* Waits for the requests that have begun; the others are dropped. Completions that were not reaped are lost. */
void penstock_queue_close(penstock_queue* queue);
/* Submits the requests in order, up to the first that the queue refuses; the status says why, for instance
 * PENSTOCK_LIMIT when `depth` requests are outstanding. *submitted (may be NULL): how many the queue accepted. Each
 * accepted request is reaped once, whether it succeeds or fails. */
penstock_status penstock_queue_submit(penstock_queue* queue, const penstock_request* requests, uint32_t count,
                                      uint32_t* submitted);
/* Waits for `least` completions, or for all outstanding requests if they are fewer, until `timeout_ns` have passed (-1:
 * no limit). Then writes `capacity` completions at most. *count: how many it wrote. After the timeout the call succeeds
 * with the completions it has. It works after the session is closed, too. */
penstock_status penstock_queue_reap(penstock_queue* queue, penstock_completion* completions, uint32_t capacity,
                                    uint32_t least, int64_t timeout_ns, uint32_t* count);
/* Cancels the requests with this cookie that have not begun: they end with PENSTOCK_CANCELED, and are reaped like all
 * others. Requests that have begun continue. *canceled (may be NULL): how many were canceled. */
penstock_status penstock_queue_cancel(penstock_queue* queue, uint64_t cookie, uint32_t* canceled);
/* Returns a descriptor that is readable (poll(2)) while there are completions to reap. Neither read nor close it. */
penstock_status penstock_queue_eventfd(penstock_queue* queue, int* fd);

/* ---- Streams ------------------------------------------------------------------------------------------------ */

typedef struct penstock_stream_result {
  uint32_t struct_size;
  /* 1 once the result is known; written after the other members. Read it with acquire order. What was read is in memory
   * when the stream is past the request: synchronize with it before you look at the memory or free it. */
  int32_t done;
  penstock_status status;
  penstock_report report; /* the last member, since it may grow; the library sets report.struct_size */
} penstock_stream_result;

/* Queues the request on the CUDA stream that it names (NULL: the default stream): it begins after all work that is on
 * the stream now, and ends before any work that is queued later begins. The call returns at once. The library fills in
 * *result when the request ends; it must live until then. If the call fails, the library does not touch the result
 * later. Such a request has one piece of memory, no deadline and no required path; its cookie is ignored. */
penstock_status penstock_stream_submit(const penstock_request* request, penstock_stream_result* result);

/* ---- Dry runs ----------------------------------------------------------------------------------------------- */

/* Dry runs say what the library would do with a request. They move, register and pin nothing. With base NULL the
 * request counts as one for aligned memory of request->device. Pieces, cookie, deadline and stream are ignored. */

/* Returns the verdict of every path, in order of preference; the request's required path, size and offsets are ignored.
 * Writes at most `capacity` verdicts; it may be 0. *count: how many there are. */
penstock_status penstock_explain(const penstock_request* request, penstock_verdict* verdicts, uint32_t capacity,
                                 uint32_t* count);

/* Writes as text how the request would be split into chunks: one line for each of the first 16 chunks, then how many
 * threads would move them and why. The text is truncated to `capacity` bytes with its final zero. *length (may be
 * NULL): length of the whole text, without the zero. */
penstock_status penstock_plan(const penstock_request* request, char* text, size_t capacity, size_t* length);

/* How the number of threads for a request was chosen. */
typedef enum penstock_chosen_by {
  PENSTOCK_CHOSEN_BY_SIZE = 0,       /* the request is so small that the calling thread moves it alone */
  PENSTOCK_CHOSEN_BY_RULE = 1,       /* path, operation and settings leave no choice; nothing is measured */
  PENSTOCK_CHOSEN_AT_FIRST = 2,      /* a first guess: the session has measured too few such requests */
  PENSTOCK_CHOSEN_BY_MEASUREMENT = 3 /* the best value that the session measured, by its policy */
} penstock_chosen_by;

typedef struct penstock_choice {
  uint32_t struct_size;
  int32_t path;       /* penstock_path */
  int32_t chosen_by;  /* penstock_chosen_by */
  uint32_t threads;   /* the most threads that move it, the calling one included */
  uint32_t depth;     /* the most chunks in flight per thread */
  uint32_t reserved;  /* 0 */
  uint64_t chunk;     /* the largest chunk, in bytes */
  const char* policy; /* the session's policy: "throughput", "balanced" or "cpu" */
} penstock_choice;

penstock_status penstock_choose(const penstock_request* request, penstock_choice* choice);

/* Says whether a path can serve any file at all in this session, from machine and settings alone: not usable only where
 * something certainly blocks it. */
penstock_status penstock_path_outlook(penstock_session* session, int32_t path, penstock_verdict* verdict);

/* ---- Counters ----------------------------------------------------------------------------------------------- */

/* Bytes and operations since the session opened, by path and by the reason why no better path was taken. */
typedef struct penstock_counter {
  uint32_t struct_size;
  int32_t path;      /* penstock_path */
  int32_t reason;    /* penstock_reason */
  uint32_t reserved; /* 0 */
  uint64_t read_bytes;
  uint64_t read_operations;
  uint64_t write_bytes;
  uint64_t write_operations;
} penstock_counter;

/* Returns the counters that are not zero. Writes at most `capacity` of them; it may be 0. *count: how many there
 * are. */
penstock_status penstock_counters(penstock_session* session, penstock_counter* counters, uint32_t capacity,
                                  uint32_t* count);

/* [experimental] What checkpoints cost the program that saves them, in nanoseconds. */
typedef struct penstock_save_costs {
  uint32_t struct_size;
  uint32_t reserved; /* 0 */
  uint64_t saves;    /* those that ended whole */
  uint64_t bytes;
  uint64_t stood_ns;     /* the program stood still in the call */
  uint64_t waited_ns;    /* it waited before updates */
  uint64_t hidden_ns;    /* it went on while its state was copied */
  uint64_t given_way_ns; /* writers paused for it, added up */
  uint64_t written_ns;   /* files were written */
  uint64_t flushed_ns;   /* files were flushed and published */
} penstock_save_costs;

/* [experimental] Adds them to the session's statistics, which `penstock serve` shows with those of all processes. */
penstock_status penstock_count_save(penstock_session* session, const penstock_save_costs* costs);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PENSTOCK_PENSTOCK_H_ */
