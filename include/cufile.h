/* The cuFile interface as Penstock serves it in libcufile.so.0: the names, numbers and layouts that programs built
 * for NVIDIA's library already use (cuFile 1.15; docs/compatibility.md says what differs).
 *
 * Written from published facts: NVIDIA's API reference, the cuda-python bindings and layouts measured on machines.
 * Batches, streams, parameters and statistics are declared when they are served; their types already stand here.
 *
 * Conventions: functions return CUfileError_t by value (err 0 is success; err 5011 carries a CUresult in cu_err).
 * cuFileRead and cuFileWrite return bytes, or -1 with errno set: to a system error, or to a CUfileOpError (5001 and
 * above). All sizes and offsets are bytes where nothing else is said.
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

#if defined(__has_include)
#if __has_include(<cuda.h>) && !defined(PENSTOCK_CUFILE_WITHOUT_CUDA)
#include <cuda.h>
#define PENSTOCK_CUFILE_HAS_CUDA 1
#endif
#endif
#ifndef PENSTOCK_CUFILE_HAS_CUDA
/* No CUDA toolkit at build time: types of the same size. */
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
  CU_FILE_MAX_TARGET_TYPES = 14
} CUfileDriverStatusFlags_t;

typedef enum CUfileDriverControlFlags {
  CU_FILE_USE_POLL_MODE = 0,
  CU_FILE_ALLOW_COMPAT_MODE = 1
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

/* What a file system in user space provides; each may be NULL. */
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

/* ---- Batches and streams: types only, until they are served ----------------------------------------------------- */

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

/* ---- Driver --------------------------------------------------------------------------------------------------- */

/* Opens the driver, or counts one more user of it. Optional: the first registration or transfer opens it too. */
CUfileError_t cuFileDriverOpen(void);
/* Counts one user less; the last one waits for transfers under way and drops every handle and buffer. */
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

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PENSTOCK_CUFILE_H_ */
