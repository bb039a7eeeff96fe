/* Files that a GPU's kernels read by themselves, whenever they want: the host's side of penstock/gpu.cuh.
 *
 * A range whose pages are in the page cache when the file is opened for the GPU is registered with it, and kernels load
 * it without any CPU (resident). Everything else is asked of threads of the library (ring): out of the page cache
 * through pinned host memory, and from storage into it too, or into device memory where the session has a direct path
 * for that, and the read is of whole blocks of the file.
 * With cache_bytes, blocks of both are kept in device memory (cached).
 * Resident ranges are the file's own bytes only while nobody changes the file, so the library takes a read lease on it
 * (F_SETLEASE): whoever opens the file for writing, or truncates it, waits until kernels know that they must not use
 * the pages any more. All reads go by the ring then, until nobody has the file open for writing and the lease is taken
 * again, by itself; pages that were cut away meanwhile stay with the ring. Where no lease can be had
 * (the file is another user's, or somebody has it open for writing) all reads go by the ring from the start, unless
 * may_be_stale is set.
 *
 * [experimental] All of this header; penstock.h says what that means.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PENSTOCK_GPU_H_
#define PENSTOCK_GPU_H_

#include "penstock/penstock.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PENSTOCK_GPU_LAYOUT 5 /* of penstock_gpu_value, as penstock/gpu.cuh of this version knows it */

typedef struct penstock_gpu_options {
  uint32_t struct_size;
  uint32_t layout;     /* PENSTOCK_GPU_LAYOUT; the call fails with PENSTOCK_UNSUPPORTED where the library's differs */
  uint32_t device;     /* ordinal; kernels run in its primary context, as those of CUDA's runtime do */
  uint32_t threads;    /* of the library, that answer: 1 to 64; 0: 1. While they are asked each takes a CPU */
  uint32_t slots;      /* the most reads that wait at once, up to 65536; 0: 1024 */
  uint32_t slot_bytes; /* the most bytes of one answer: 512 to 1 MiB, a multiple of 16; 0: 4096. Pinned for each */
  uint64_t timeout_ns; /* the most that a read waits; 0: 10 seconds */
  uint64_t resident_bytes; /* the most bytes to register; 0: as much as PENSTOCK_REGISTRATION_CACHE_MIB allows */
  uint32_t may_be_stale;   /* 1: where there is no lease, resident ranges may give bytes from before a change */
  uint32_t ring_only;      /* 1: nothing is registered */
  /* Of device memory, for a cache of blocks of slot_bytes, under a lease as resident ranges are; 0: none. Choose
   * slot_bytes as large as most reads. */
  uint64_t cache_bytes;
} penstock_gpu_options;

/* What kernels take as an argument: penstock::gpu::File(value) of penstock/gpu.cuh, or these bytes as they are. */
typedef struct penstock_gpu_value {
  uint32_t struct_size;
  uint32_t layout;
  uint64_t words[15];
} penstock_gpu_value;

typedef struct penstock_gpu_info {
  uint32_t struct_size;
  int32_t reason;          /* penstock_reason: why not all reads are resident, under a lease; or NONE */
  int32_t detail;          /* an errno that goes with the reason, or 0 */
  uint32_t is_leased;      /* 1: resident ranges are under a lease that still holds */
  uint64_t size;           /* of the file when it was opened */
  uint64_t resident_bytes; /* registered, and in use by kernels */
  uint64_t resident_reads; /* by kernels so far, and their bytes */
  uint64_t resident_read_bytes;
  uint64_t ring_reads;
  uint64_t ring_read_bytes;
  uint64_t repeated_reads; /* by the ring, since the file may have changed during a resident or cached read */
  uint64_t failed_reads;
  uint64_t cache_bytes;  /* of device memory, and in use by kernels */
  uint64_t cached_reads; /* through the cache, and their bytes */
  uint64_t cached_read_bytes;
  uint64_t fetched_blocks; /* that these reads did not find in it */
  int32_t ring_path;       /* penstock_path: of whole blocks that the ring reads from storage */
  uint32_t reserved;
} penstock_gpu_info;

typedef struct penstock_gpu_file penstock_gpu_file;

/* Opens a registered file for the kernels of a GPU. Fails with PENSTOCK_UNSUPPORTED where the device has no kernels
 * that could read, or the file is neither regular nor a block device. */
penstock_status penstock_gpu_open(penstock_session* session, penstock_file* file, const penstock_gpu_options* options,
                                  penstock_gpu_file** gpu_file);
/* Reads that wait end with penstock::gpu::Error::closed. Waits until all kernels of the device that have begun have
 * ended, as cudaFree() does; none that begins later may use the file. Closing the file or its session does the same. */
void penstock_gpu_close(penstock_gpu_file* gpu_file);
penstock_status penstock_gpu_get_value(penstock_gpu_file* gpu_file, penstock_gpu_value* value);
/* Waits for a copy from the device. Adds the reads that kernels made meanwhile to the session's counters: the resident
 * ones to those of the path pagecache; those by the ring count as they happen, by their own paths. */
penstock_status penstock_gpu_get(penstock_gpu_file* gpu_file, penstock_gpu_info* info);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PENSTOCK_GPU_H_ */
