/* The cuFile interface as Penstock serves it in libcufile.so.0: the names, numbers and layouts that programs built
 * for NVIDIA's library already use (cuFile 1.15; docs/reference/compatibility.md says what differs).
 *
 * Written from published facts: NVIDIA's API reference, the cuda-python bindings and layouts measured on machines.
 * Statistics have the layout of cuFile 1.15 to 1.18 (PENSTOCK_CUFILE_VERSION chooses). P2P flags, GPU bounce-buffer
 * slabs, topology export, cuFileReadv and cuFileWritev came with later versions; this header has them too.
 *
 * Conventions: functions return CUfileError_t by value (err 0 is success; err 5011 carries a CUresult in cu_err).
 * cuFileRead and cuFileWrite return the number of bytes, or -1 with errno set to a system error or a CUfileOpError
 * (5001 and above). Sizes and offsets are in bytes unless noted.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PENSTOCK_CUFILE_H_
#define PENSTOCK_CUFILE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

#if defined(__has_include)
#if __has_include(<cuda.h>) && !defined(PENSTOCK_CUFILE_WITHOUT_CUDA)
#include <cuda.h>
#define PENSTOCK_CUFILE_HAS_CUDA 1
#endif
#endif
#ifndef PENSTOCK_CUFILE_HAS_CUDA
/* Stand-ins of the same size, so that no CUDA toolkit is needed at build time. */
typedef int CUresult;
typedef struct CUstream_st* CUstream;
#define CUDA_SUCCESS 0
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors ------------------------------------------------------------------------------------------------- */

#define CUFILEOP_BASE_ERR 5000

/* Each row: enumerator, number, what cufileop_status_error() says. */
#define CUFILEOP_STATUS_ENTRIES                                                                            \
  CUFILE_OP(CU_FILE_SUCCESS, 0, "cufile success")                                                          \
  CUFILE_OP(CU_FILE_DRIVER_NOT_INITIALIZED, 5001, "nvidia-fs driver is not loaded")                        \
  CUFILE_OP(CU_FILE_DRIVER_INVALID_PROPS, 5002, "invalid property")                                        \
  CUFILE_OP(CU_FILE_DRIVER_UNSUPPORTED_LIMIT, 5003, "property range error")                                \
  CUFILE_OP(CU_FILE_DRIVER_VERSION_MISMATCH, 5004, "nvidia-fs driver version mismatch")                    \
  CUFILE_OP(CU_FILE_DRIVER_VERSION_READ_ERROR, 5005, "nvidia-fs driver version read error")                \
  CUFILE_OP(CU_FILE_DRIVER_CLOSING, 5006, "driver shutdown in progress")                                   \
  CUFILE_OP(CU_FILE_PLATFORM_NOT_SUPPORTED, 5007, "GPUDirect Storage not supported on current platform")   \
  CUFILE_OP(CU_FILE_IO_NOT_SUPPORTED, 5008, "GPUDirect Storage not supported on current file")             \
  CUFILE_OP(CU_FILE_DEVICE_NOT_SUPPORTED, 5009, "GPUDirect Storage not supported on current GPU")          \
  CUFILE_OP(CU_FILE_NVFS_DRIVER_ERROR, 5010, "nvidia-fs driver ioctl error")                               \
  CUFILE_OP(CU_FILE_CUDA_DRIVER_ERROR, 5011, "CUDA Driver API error")                                      \
  CUFILE_OP(CU_FILE_CUDA_POINTER_INVALID, 5012, "invalid device pointer")                                  \
  CUFILE_OP(CU_FILE_CUDA_MEMORY_TYPE_INVALID, 5013, "invalid pointer memory type")                         \
  CUFILE_OP(CU_FILE_CUDA_POINTER_RANGE_ERROR, 5014, "pointer range exceeds allocated address range")       \
  CUFILE_OP(CU_FILE_CUDA_CONTEXT_MISMATCH, 5015, "cuda context mismatch")                                  \
  CUFILE_OP(CU_FILE_INVALID_MAPPING_SIZE, 5016, "access beyond maximum pinned size")                       \
  CUFILE_OP(CU_FILE_INVALID_MAPPING_RANGE, 5017, "access beyond mapped size")                              \
  CUFILE_OP(CU_FILE_INVALID_FILE_TYPE, 5018, "unsupported file type")                                      \
  CUFILE_OP(CU_FILE_INVALID_FILE_OPEN_FLAG, 5019, "unsupported file open flags")                           \
  CUFILE_OP(CU_FILE_DIO_NOT_SET, 5020, "fd direct IO not set")                                             \
  CUFILE_OP(CU_FILE_INVALID_VALUE, 5022, "invalid arguments")                                              \
  CUFILE_OP(CU_FILE_MEMORY_ALREADY_REGISTERED, 5023, "device pointer already registered")                  \
  CUFILE_OP(CU_FILE_MEMORY_NOT_REGISTERED, 5024, "device pointer lookup failure")                          \
  CUFILE_OP(CU_FILE_PERMISSION_DENIED, 5025, "driver or file access error")                                \
  CUFILE_OP(CU_FILE_DRIVER_ALREADY_OPEN, 5026, "driver is already open")                                   \
  CUFILE_OP(CU_FILE_HANDLE_NOT_REGISTERED, 5027, "file descriptor is not registered")                      \
  CUFILE_OP(CU_FILE_HANDLE_ALREADY_REGISTERED, 5028, "file descriptor is already registered")              \
  CUFILE_OP(CU_FILE_DEVICE_NOT_FOUND, 5029, "GPU device not found")                                        \
  CUFILE_OP(CU_FILE_INTERNAL_ERROR, 5030, "internal error")                                                \
  CUFILE_OP(CU_FILE_GETNEWFD_FAILED, 5031, "failed to obtain new file descriptor")                         \
  CUFILE_OP(CU_FILE_NVFS_SETUP_ERROR, 5033, "NVFS driver initialization error")                            \
  CUFILE_OP(CU_FILE_IO_DISABLED, 5034, "GPUDirect Storage disabled by config on current file")             \
  CUFILE_OP(CU_FILE_BATCH_SUBMIT_FAILED, 5035, "failed to submit batch operation")                         \
  CUFILE_OP(CU_FILE_GPU_MEMORY_PINNING_FAILED, 5036, "failed to allocate pinned GPU Memory")               \
  CUFILE_OP(CU_FILE_BATCH_FULL, 5037, "queue full for batch operation")                                    \
  CUFILE_OP(CU_FILE_ASYNC_NOT_SUPPORTED, 5038, "cuFile stream operation not supported")                    \
  CUFILE_OP(CU_FILE_INTERNAL_BATCH_SETUP_ERROR, 5039, "batch setup internal error - retry later")          \
  CUFILE_OP(CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR, 5040, "batch submit internal error - retry later")        \
  CUFILE_OP(CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR, 5041, "batch get status internal error - retry later") \
  CUFILE_OP(CU_FILE_INTERNAL_BATCH_CANCEL_ERROR, 5042, "batch cancel internal error - retry later")        \
  CUFILE_OP(CU_FILE_NOMEM_ERROR, 5043, "cufile no memory error - retry later")                             \
  CUFILE_OP(CU_FILE_IO_ERROR, 5044, "cufile io error")                                                     \
  CUFILE_OP(CU_FILE_INTERNAL_BUF_REGISTER_ERROR, 5045, "cufile buf registration error")                    \
  CUFILE_OP(CU_FILE_HASH_OPR_ERROR, 5046, "cufile hash operation error")                                   \
  CUFILE_OP(CU_FILE_INVALID_CONTEXT_ERROR, 5047, "cufile invalid context error")                           \
  CUFILE_OP(CU_FILE_NVFS_INTERNAL_DRIVER_ERROR, 5048, "nvfs internal driver error")                        \
  CUFILE_OP(CU_FILE_BATCH_NOCOMPAT_ERROR, 5049, "compat mode off error")                                   \
  CUFILE_OP(CU_FILE_IO_MAX_ERROR, 5050, "GPUDirect Storage Max Error")

typedef enum CUfileOpError {
#define CUFILE_OP(name, value, text) name = value,
  CUFILEOP_STATUS_ENTRIES
#undef CUFILE_OP
} CUfileOpError;

static inline const char* cufileop_status_error(CUfileOpError status) {
  switch (status) {
#define CUFILE_OP(name, value, text) \
  case name: return text;
    CUFILEOP_STATUS_ENTRIES
#undef CUFILE_OP
    default: return "unknown cufile error";
  }
}

typedef struct CUfileError {
  CUfileOpError err;
  CUresult cu_err;
} CUfileError_t;

#define IS_CUFILE_ERR(err) (abs((err)) > CUFILEOP_BASE_ERR)
#define CUFILE_ERRSTR(err) cufileop_status_error((CUfileOpError)abs((err)))
#define IS_CUDA_ERR(status) ((status).err == CU_FILE_CUDA_DRIVER_ERROR)
#define CU_FILE_CUDA_ERR(status) ((status).cu_err)

/* ---- Driver properties: bit positions, and sizes in KiB ------------------------------------------------------- */

typedef enum CUfileDriverStatusFlags {
  CU_FILE_LUSTRE_SUPPORTED = 0,
  CU_FILE_WEKAFS_SUPPORTED = 1,
  CU_FILE_NFS_SUPPORTED = 2,
  CU_FILE_GPFS_SUPPORTED = 3,
  CU_FILE_NVME_SUPPORTED = 4,
  CU_FILE_NVMEOF_SUPPORTED = 5,
  CU_FILE_SCSI_SUPPORTED = 6,
  CU_FILE_SCALEFLUX_CSD_SUPPORTED = 7,
  CU_FILE_NVMESH_SUPPORTED = 8,
  CU_FILE_BEEGFS_SUPPORTED = 9,
  CU_FILE_NVME_P2P_SUPPORTED = 11,
  CU_FILE_SCATEFS_SUPPORTED = 12,
  CU_FILE_VIRTIOFS_SUPPORTED = 13,
  CU_FILE_PANFS_SUPPORTED = 14,
  CU_FILE_MAX_TARGET_TYPES = 15
} CUfileDriverStatusFlags_t;

typedef enum CUfileDriverControlFlags {
  CU_FILE_USE_POLL_MODE = 0,
  CU_FILE_ALLOW_COMPAT_MODE = 1,
  CU_FILE_VANILLA_POSIX_IO_MODE = 2,
  CU_FILE_POSIX_IO_MODE = CU_FILE_VANILLA_POSIX_IO_MODE,
  CU_FILE_FALLBACK_IO_MODE = 4
} CUfileDriverControlFlags_t;

typedef enum CUfileFeatureFlags {
  CU_FILE_DYN_ROUTING_SUPPORTED = 0,
  CU_FILE_BATCH_IO_SUPPORTED = 1,
  CU_FILE_STREAMS_SUPPORTED = 2,
  CU_FILE_PARALLEL_IO_SUPPORTED = 3,
  CU_FILE_P2P_SUPPORTED = 4
} CUfileFeatureFlags_t;

typedef struct CUfileDrvProps {
  struct {
    unsigned int major_version;
    unsigned int minor_version;
    size_t poll_thresh_size;
    size_t max_direct_io_size;
    unsigned int dstatusflags;
    unsigned int dcontrolflags;
  } nvfs;
  unsigned int fflags;
  unsigned int max_device_cache_size;
  unsigned int per_buffer_cache_size;
  unsigned int max_device_pinned_mem_size;
  unsigned int max_batch_io_size;
  unsigned int max_batch_io_timeout_msecs;
} CUfileDrvProps_t;

/* ---- Files ---------------------------------------------------------------------------------------------------- */

typedef struct sockaddr sockaddr_t;

typedef struct cufileRDMAInfo {
  int version;
  int desc_len;
  const char* desc_str;
} cufileRDMAInfo_t;

/* Callbacks of a file system in user space; each may be NULL. */
typedef struct CUfileFSOps {
  const char* (*fs_type)(const void* handle);
  int (*getRDMADeviceList)(const void* handle, sockaddr_t** hostaddrs);
  int (*getRDMADevicePriority)(const void* handle, char*, size_t, off_t, const sockaddr_t* hostaddr);
  ssize_t (*read)(const void* handle, char*, size_t, off_t, const cufileRDMAInfo_t*);
  ssize_t (*write)(const void* handle, const char*, size_t, off_t, const cufileRDMAInfo_t*);
} CUfileFSOps_t;

typedef enum CUfileFileHandleType {
  CU_FILE_HANDLE_TYPE_OPAQUE_FD = 1,
  CU_FILE_HANDLE_TYPE_OPAQUE_WIN32 = 2,
  CU_FILE_HANDLE_TYPE_USERSPACE_FS = 3
} CUfileFileHandleType;

typedef struct CUfileDescr {
  CUfileFileHandleType type;
  union {
    int fd;
    void* handle;
  } handle;
  const CUfileFSOps_t* fs_ops;
} CUfileDescr_t;

typedef void* CUfileHandle_t;

/* ---- Batches and streams: types ---------------------------------------------------------------------------------- */

typedef enum CUfileOpcode { CUFILE_READ = 0, CUFILE_WRITE = 1 } CUfileOpcode_t;

typedef enum CUFILEStatus_enum {
  CUFILE_WAITING = 0x01,
  CUFILE_PENDING = 0x02,
  CUFILE_INVALID = 0x04,
  CUFILE_CANCELED = 0x08,
  CUFILE_COMPLETE = 0x10,
  CUFILE_TIMEOUT = 0x20,
  CUFILE_FAILED = 0x40
} CUfileStatus_t;

typedef enum cufileBatchMode { CUFILE_BATCH = 1 } CUfileBatchMode_t;

typedef struct CUfileIOParams {
  CUfileBatchMode_t mode;
  union {
    struct {
      void* devPtr_base;
      off_t file_offset;
      off_t devPtr_offset;
      size_t size;
    } batch;
  } u;
  CUfileHandle_t fh;
  CUfileOpcode_t opcode;
  void* cookie;
} CUfileIOParams_t;

typedef struct CUfileIOEvents {
  void* cookie;
  CUfileStatus_t status;
  size_t ret;
} CUfileIOEvents_t;

typedef void* CUfileBatchHandle_t;

#define CU_FILE_STREAM_FIXED_BUF_OFFSET 1
#define CU_FILE_STREAM_FIXED_FILE_OFFSET 2
#define CU_FILE_STREAM_FIXED_FILE_SIZE 4
#define CU_FILE_STREAM_PAGE_ALIGNED_INPUTS 8

#define CU_FILE_RDMA_REGISTER 1
#define CU_FILE_RDMA_RELAXED_ORDERING (1 << 1)

typedef struct CUfileIOVec {
  void* base;
  size_t len;
} CUfileIOVec_t;

/* ---- Parameters: numbers ------------------------------------------------------------------------------------------
 */

typedef enum CUFileSizeTConfigParameter {
  CUFILE_PARAM_PROFILE_STATS = 0,
  CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH = 1,
  CUFILE_PARAM_EXECUTION_MAX_IO_THREADS = 2,
  CUFILE_PARAM_EXECUTION_MIN_IO_THRESHOLD_SIZE_KB = 3,
  CUFILE_PARAM_EXECUTION_MAX_REQUEST_PARALLELISM = 4,
  CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB = 5,
  CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB = 6,
  CUFILE_PARAM_PROPERTIES_PER_BUFFER_CACHE_SIZE_KB = 7,
  CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB = 8,
  CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE = 9,
  CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB = 10,
  CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS = 11
} CUFileSizeTConfigParameter_t;

typedef enum CUFileBoolConfigParameter {
  CUFILE_PARAM_PROPERTIES_USE_POLL_MODE = 0,
  CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE = 1,
  CUFILE_PARAM_FORCE_COMPAT_MODE = 2,
  CUFILE_PARAM_FS_MISC_API_CHECK_AGGRESSIVE = 3,
  CUFILE_PARAM_EXECUTION_PARALLEL_IO = 4,
  CUFILE_PARAM_PROFILE_NVTX = 5, /* deprecated; without effect here */
  CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY = 6,
  CUFILE_PARAM_USE_PCIP2PDMA = 7,
  CUFILE_PARAM_PREFER_IO_URING = 8,
  CUFILE_PARAM_FORCE_ODIRECT_MODE = 9,
  CUFILE_PARAM_SKIP_TOPOLOGY_DETECTION = 10,
  CUFILE_PARAM_STREAM_MEMOPS_BYPASS = 11,
  CUFILE_PARAM_PROPERTIES_POSIX_IO_MODE = 12,
  CUFILE_PARAM_GDS_FALLBACK_IO = 13
} CUFileBoolConfigParameter_t;

typedef enum CUFileStringConfigParameter {
  CUFILE_PARAM_LOGGING_LEVEL = 0,
  CUFILE_PARAM_ENV_LOGFILE_PATH = 1,
  CUFILE_PARAM_LOG_DIR = 2,
  CUFILE_PARAM_RDMA_TRANSPORT = 3 /* without effect here */
} CUFileStringConfigParameter_t;

/* Used by no function; kept for programs that name it. */
typedef enum CUFileArrayConfigParameter {
  CUFILE_PARAM_POSIX_POOL_SLAB_SIZE_KB = 0,
  CUFILE_PARAM_POSIX_POOL_SLAB_COUNT = 1,
  CUFILE_PARAM_GPU_BOUNCE_BUFFER_SLAB_SIZE_KB = 2,
  CUFILE_PARAM_GPU_BOUNCE_BUFFER_SLAB_COUNT = 3
} CUFileArrayConfigParameter_t;

/* Bit positions, and the masks that the functions take. */
typedef enum CUfileP2PFlags {
  CUFILE_P2PDMA = 0,
  CUFILE_NVFS = 1,
  CUFILE_DMABUF = 2,
  CUFILE_C2C = 3,
  CUFILE_NVIDIA_PEERMEM = 4
} CUfileP2PFlags_t;

#define CU_FILE_P2P_FLAG_PCI_P2PDMA (1 << CUFILE_P2PDMA)
#define CU_FILE_P2P_FLAG_NVFS (1 << CUFILE_NVFS)
#define CU_FILE_P2P_FLAG_DMABUF (1 << CUFILE_DMABUF)
#define CU_FILE_P2P_FLAG_C2C (1 << CUFILE_C2C)

/* ---- Statistics: times in microseconds, rates in bytes or operations a second ---------------------------------------
 */

#define CUFILE_GPU_UUID_LEN 16

typedef struct CUfileOpCounter {
  uint64_t ok;
  uint64_t err;
} CUfileOpCounter_t;

typedef struct CUfileStatsLevel1 {
  CUfileOpCounter_t read_ops;
  CUfileOpCounter_t write_ops;
  CUfileOpCounter_t hdl_register_ops;
  CUfileOpCounter_t hdl_deregister_ops;
  CUfileOpCounter_t buf_register_ops;
  CUfileOpCounter_t buf_deregister_ops;
  uint64_t read_bytes;
  uint64_t write_bytes;
  uint64_t read_bw_bytes_per_sec;
  uint64_t write_bw_bytes_per_sec;
  uint64_t read_lat_avg_us;
  uint64_t write_lat_avg_us;
  uint64_t read_ops_per_sec;
  uint64_t write_ops_per_sec;
  uint64_t read_lat_sum_us;
  uint64_t write_lat_sum_us;
  CUfileOpCounter_t batch_submit_ops;
  CUfileOpCounter_t batch_complete_ops;
  CUfileOpCounter_t batch_setup_ops;
  CUfileOpCounter_t batch_cancel_ops;
  CUfileOpCounter_t batch_destroy_ops;
  CUfileOpCounter_t batch_enqueued_ops;
  CUfileOpCounter_t batch_posix_enqueued_ops;
  CUfileOpCounter_t batch_processed_ops;
  CUfileOpCounter_t batch_posix_processed_ops;
  CUfileOpCounter_t batch_nvfs_submit_ops;
  CUfileOpCounter_t batch_p2p_submit_ops;
  CUfileOpCounter_t batch_aio_submit_ops;
  CUfileOpCounter_t batch_iouring_submit_ops;
  CUfileOpCounter_t batch_mixed_io_submit_ops;
  CUfileOpCounter_t batch_total_submit_ops;
  uint64_t batch_read_bytes;
  uint64_t batch_write_bytes;
  uint64_t batch_read_bw_bytes;
  uint64_t batch_write_bw_bytes;
  uint64_t batch_submit_lat_avg_us;
  uint64_t batch_completion_lat_avg_us;
  uint64_t batch_submit_ops_per_sec;
  uint64_t batch_complete_ops_per_sec;
  uint64_t batch_submit_lat_sum_us;
  uint64_t batch_completion_lat_sum_us;
  uint64_t last_batch_read_bytes;
  uint64_t last_batch_write_bytes;
} CUfileStatsLevel1_t;

typedef struct CUfileStatsLevel2 {
  CUfileStatsLevel1_t basic;
  uint64_t read_size_kb_hist[32]; /* [0]: below 4 KiB; then a row for each power of two */
  uint64_t write_size_kb_hist[32];
} CUfileStatsLevel2_t;

typedef struct CUfilePerGpuStats {
  char uuid[CUFILE_GPU_UUID_LEN];
  uint64_t read_bytes;
  uint64_t read_bw_bytes_per_sec;
  uint64_t read_utilization;
  uint64_t read_duration_us;
  uint64_t n_total_reads;
  uint64_t n_p2p_reads;
  uint64_t n_nvfs_reads;
  uint64_t n_posix_reads;
  uint64_t n_unaligned_reads;
  uint64_t n_dr_reads;
  uint64_t n_sparse_regions;
  uint64_t n_inline_regions;
  uint64_t n_reads_err;
  uint64_t writes_bytes;
  uint64_t write_bw_bytes_per_sec;
  uint64_t write_utilization;
  uint64_t write_duration_us;
  uint64_t n_total_writes;
  uint64_t n_p2p_writes;
  uint64_t n_nvfs_writes;
  uint64_t n_posix_writes;
  uint64_t n_unaligned_writes;
  uint64_t n_dr_writes;
  uint64_t n_writes_err;
  uint64_t n_mmap;
  uint64_t n_mmap_ok;
  uint64_t n_mmap_err;
  uint64_t n_mmap_free;
  uint64_t reg_bytes;
} CUfilePerGpuStats_t;

typedef struct CUfileStatsLevel3 {
  CUfileStatsLevel2_t detailed;
  uint32_t num_gpus;
  CUfilePerGpuStats_t per_gpu_stats[16];
} CUfileStatsLevel3_t;

/* ---- Driver --------------------------------------------------------------------------------------------------- */

/* Opens the driver, or counts one more user of it. Optional: the first registration or transfer opens it too. */
CUfileError_t cuFileDriverOpen(void);
/* Counts one user less. The last close waits for transfers in flight and drops every handle and buffer. */
CUfileError_t cuFileDriverClose_v2(void);
CUfileError_t cuFileDriverClose(void);
#define cuFileDriverClose cuFileDriverClose_v2
long cuFileUseCount(void);

CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t* props);
CUfileError_t cuFileDriverSetPollMode(bool poll, size_t poll_threshold_size); /* KiB */
CUfileError_t cuFileDriverSetMaxDirectIOSize(size_t max_direct_io_size);      /* KiB, 64 to 16384 */
CUfileError_t cuFileDriverSetMaxCacheSize(size_t max_cache_size);             /* KiB */
CUfileError_t cuFileDriverSetMaxPinnedMemSize(size_t max_pinned_size);        /* KiB */
CUfileError_t cuFileGetVersion(int* version);                                 /* 1000 * major + 10 * minor */

/* ---- Files, buffers, transfers -------------------------------------------------------------------------------- */

CUfileError_t cuFileHandleRegister(CUfileHandle_t* fh, CUfileDescr_t* descr);
void cuFileHandleDeregister(CUfileHandle_t fh);
CUfileError_t cuFileBufRegister(const void* bufPtr_base, size_t length, int flags);
CUfileError_t cuFileBufDeregister(const void* bufPtr_base);
ssize_t cuFileRead(CUfileHandle_t fh, void* bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset);
ssize_t cuFileWrite(CUfileHandle_t fh, const void* bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset);
/* Reads one contiguous range of the file into iovcnt pieces of memory, or writes it from them, in order: 1 to 1024
 * pieces. flags have no effect.
 */
ssize_t cuFileReadv(CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t iovcnt, off_t file_offset, unsigned flags);
ssize_t cuFileWritev(CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t iovcnt, off_t file_offset, unsigned flags);

/* ---- Batches -------------------------------------------------------------------------------------------------- */

/* Creates a batch that holds up to `nr` entries that were not reaped. */
CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t* batch_idp, unsigned nr);
/* Starts all entries or none; the parameters are copied. */
CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t batch_idp, unsigned nr, CUfileIOParams_t* iocbp,
                                  unsigned int flags);
/* *nr: in, the capacity of `iocbp`; out, the number of events written. Waits up to `timeout` (NULL: no limit) for
 * min_nr events, or for all outstanding ones if they are fewer. Each entry is reported once. */
CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t batch_idp, unsigned min_nr, unsigned* nr,
                                     CUfileIOEvents_t* iocbp, struct timespec* timeout);
CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t batch_idp);
/* Cancels the entries that have not begun, and waits for the others. */
void cuFileBatchIODestroy(CUfileBatchHandle_t batch_idp);

/* ---- Streams -------------------------------------------------------------------------------------------------- */

/* Runs in stream order: the library reads the values behind the pointers when the stream reaches the request, and
 * writes *bytes_read_p (bytes, or a negative errno or CUfileOpError) before the stream continues. All pointers must
 * stay valid until then. */
CUfileError_t cuFileReadAsync(CUfileHandle_t fh, void* bufPtr_base, size_t* size_p, off_t* file_offset_p,
                              off_t* bufPtr_offset_p, ssize_t* bytes_read_p, CUstream stream);
CUfileError_t cuFileWriteAsync(CUfileHandle_t fh, void* bufPtr_base, size_t* size_p, off_t* file_offset_p,
                               off_t* bufPtr_offset_p, ssize_t* bytes_written_p, CUstream stream);
/* Optional. The flags CU_FILE_STREAM_FIXED_... name the values that the library may read at the call already. */
CUfileError_t cuFileStreamRegister(CUstream stream, unsigned flags);
CUfileError_t cuFileStreamDeregister(CUstream stream);

/* ---- Parameters: set while the driver is closed, in force when it opens -------------------------------------------
 */

CUfileError_t cuFileGetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t* value);
CUfileError_t cuFileGetParameterBool(CUFileBoolConfigParameter_t param, bool* value);
CUfileError_t cuFileGetParameterString(CUFileStringConfigParameter_t param, char* desc_str, int len);
CUfileError_t cuFileSetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t value);
CUfileError_t cuFileSetParameterBool(CUFileBoolConfigParameter_t param, bool value);
CUfileError_t cuFileSetParameterString(CUFileStringConfigParameter_t param, const char* desc_str);
CUfileError_t cuFileGetParameterMinMaxValue(CUFileSizeTConfigParameter_t param, size_t* min_value, size_t* max_value);
/* `len` pairs: the size of a slab in KiB, and the number of such slabs. */
CUfileError_t cuFileSetParameterPosixPoolSlabArray(const size_t* size_values, const size_t* count_values, int len);
CUfileError_t cuFileGetParameterPosixPoolSlabArray(size_t* size_values, size_t* count_values, int len);
CUfileError_t cuFileSetParameterGpuBounceBufferSlabArray(const size_t* size_values, const size_t* count_values,
                                                         int len);
CUfileError_t cuFileGetParameterGpuBounceBufferSlabArray(size_t* size_values, size_t* count_values, int len);
CUfileError_t cuFileDriverSetP2PFlags(CUfileDriverStatusFlags_t status_flag, CUfileP2PFlags_t p2p_flags);
CUfileError_t cuFileDriverGetP2PFlags(CUfileDriverStatusFlags_t status_flag, CUfileP2PFlags_t* p2p_flags);
CUfileError_t cuFileExportPCIeTopology(const char* filename);
CUfileError_t cuFileGetBARSizeInKB(int gpuIndex, size_t* barSize);

/* ---- Statistics ----------------------------------------------------------------------------------------------- */

CUfileError_t cuFileSetStatsLevel(int level); /* 0 (off) to 3 */
CUfileError_t cuFileGetStatsLevel(int* level);
CUfileError_t cuFileStatsStart(void);
CUfileError_t cuFileStatsStop(void);
CUfileError_t cuFileStatsReset(void);
CUfileError_t cuFileGetStatsL1(CUfileStatsLevel1_t* stats);
CUfileError_t cuFileGetStatsL2(CUfileStatsLevel2_t* stats);
CUfileError_t cuFileGetStatsL3(CUfileStatsLevel3_t* stats);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PENSTOCK_CUFILE_H_ */
