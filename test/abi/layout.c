// SPDX-License-Identifier: Apache-2.0

/* Sizes, offsets and numbers of the cuFile contract, as measured on cuFile 1.15.1. Compiling is the test: in C11, and
 * with the CUDA types' stand-ins, as a program without a CUDA toolkit would. */
#include <stddef.h>

#include "cufile.h"

#define EXPECT(condition) _Static_assert(condition, #condition)
#define AT(type, member, offset) EXPECT(offsetof(type, member) == (offset))

EXPECT(sizeof(CUfileError_t) == 8);
AT(CUfileError_t, err, 0);
AT(CUfileError_t, cu_err, 4);

EXPECT(sizeof(CUfileDescr_t) == 24);
AT(CUfileDescr_t, type, 0);
AT(CUfileDescr_t, handle, 8);
AT(CUfileDescr_t, fs_ops, 16);

EXPECT(sizeof(CUfileFSOps_t) == 40);
AT(CUfileFSOps_t, fs_type, 0);
AT(CUfileFSOps_t, getRDMADeviceList, 8);
AT(CUfileFSOps_t, getRDMADevicePriority, 16);
AT(CUfileFSOps_t, read, 24);
AT(CUfileFSOps_t, write, 32);

EXPECT(sizeof(cufileRDMAInfo_t) == 16);
AT(cufileRDMAInfo_t, desc_len, 4);
AT(cufileRDMAInfo_t, desc_str, 8);

EXPECT(sizeof(CUfileDrvProps_t) == 56);
AT(CUfileDrvProps_t, nvfs.major_version, 0);
AT(CUfileDrvProps_t, nvfs.minor_version, 4);
AT(CUfileDrvProps_t, nvfs.poll_thresh_size, 8);
AT(CUfileDrvProps_t, nvfs.max_direct_io_size, 16);
AT(CUfileDrvProps_t, nvfs.dstatusflags, 24);
AT(CUfileDrvProps_t, nvfs.dcontrolflags, 28);
AT(CUfileDrvProps_t, fflags, 32);
AT(CUfileDrvProps_t, max_device_cache_size, 36);
AT(CUfileDrvProps_t, per_buffer_cache_size, 40);
AT(CUfileDrvProps_t, max_device_pinned_mem_size, 44);
AT(CUfileDrvProps_t, max_batch_io_size, 48);
AT(CUfileDrvProps_t, max_batch_io_timeout_msecs, 52);

EXPECT(sizeof(CUfileIOParams_t) == 64);
AT(CUfileIOParams_t, mode, 0);
AT(CUfileIOParams_t, u.batch.devPtr_base, 8);
AT(CUfileIOParams_t, u.batch.file_offset, 16);
AT(CUfileIOParams_t, u.batch.devPtr_offset, 24);
AT(CUfileIOParams_t, u.batch.size, 32);
AT(CUfileIOParams_t, fh, 40);
AT(CUfileIOParams_t, opcode, 48);
AT(CUfileIOParams_t, cookie, 56);

EXPECT(sizeof(CUfileIOEvents_t) == 24);
AT(CUfileIOEvents_t, cookie, 0);
AT(CUfileIOEvents_t, status, 8);
AT(CUfileIOEvents_t, ret, 16);

EXPECT(sizeof(CUfileOpError) == 4 && sizeof(CUresult) == 4 && sizeof(off_t) == 8 && sizeof(ssize_t) == 8);
EXPECT(CU_FILE_SUCCESS == 0 && CUFILEOP_BASE_ERR == 5000);
EXPECT(CU_FILE_DRIVER_NOT_INITIALIZED == 5001 && CU_FILE_DRIVER_UNSUPPORTED_LIMIT == 5003);
EXPECT(CU_FILE_DRIVER_CLOSING == 5006 && CU_FILE_IO_NOT_SUPPORTED == 5008 && CU_FILE_CUDA_DRIVER_ERROR == 5011);
EXPECT(CU_FILE_CUDA_POINTER_RANGE_ERROR == 5014 && CU_FILE_INVALID_MAPPING_RANGE == 5017);
EXPECT(CU_FILE_INVALID_FILE_TYPE == 5018 && CU_FILE_INVALID_FILE_OPEN_FLAG == 5019 && CU_FILE_DIO_NOT_SET == 5020);
EXPECT(CU_FILE_INVALID_VALUE == 5022 && CU_FILE_MEMORY_ALREADY_REGISTERED == 5023);
EXPECT(CU_FILE_MEMORY_NOT_REGISTERED == 5024 && CU_FILE_HANDLE_NOT_REGISTERED == 5027);
EXPECT(CU_FILE_HANDLE_ALREADY_REGISTERED == 5028 && CU_FILE_INTERNAL_ERROR == 5030);
EXPECT(CU_FILE_GETNEWFD_FAILED == 5031 && CU_FILE_NVFS_SETUP_ERROR == 5033 && CU_FILE_BATCH_SUBMIT_FAILED == 5035);
EXPECT(CU_FILE_ASYNC_NOT_SUPPORTED == 5038 && CU_FILE_INTERNAL_BATCH_SETUP_ERROR == 5039);
EXPECT(CU_FILE_BATCH_NOCOMPAT_ERROR == 5049 && CU_FILE_IO_MAX_ERROR == 5050);

EXPECT(CU_FILE_HANDLE_TYPE_OPAQUE_FD == 1 && CU_FILE_HANDLE_TYPE_USERSPACE_FS == 3);
EXPECT(CU_FILE_NVME_SUPPORTED == 4 && CU_FILE_NVME_P2P_SUPPORTED == 11 && CU_FILE_PANFS_SUPPORTED == 14 &&
       CU_FILE_MAX_TARGET_TYPES == 15);
EXPECT(CU_FILE_USE_POLL_MODE == 0 && CU_FILE_ALLOW_COMPAT_MODE == 1);
EXPECT(CU_FILE_BATCH_IO_SUPPORTED == 1 && CU_FILE_PARALLEL_IO_SUPPORTED == 3 && CU_FILE_P2P_SUPPORTED == 4);
EXPECT(CUFILE_READ == 0 && CUFILE_WRITE == 1 && CUFILE_BATCH == 1);
EXPECT(CUFILE_WAITING == 1 && CUFILE_PENDING == 2 && CUFILE_INVALID == 4 && CUFILE_CANCELED == 8);
EXPECT(CUFILE_COMPLETE == 16 && CUFILE_TIMEOUT == 32 && CUFILE_FAILED == 64);
EXPECT(CU_FILE_STREAM_PAGE_ALIGNED_INPUTS == 8 && CU_FILE_RDMA_RELAXED_ORDERING == 2);

EXPECT(sizeof(CUfileIOVec_t) == 16);
AT(CUfileIOVec_t, len, 8);
EXPECT(sizeof(CUfileOpCounter_t) == 16);

EXPECT(sizeof(CUfileStatsLevel1_t) == 512);
AT(CUfileStatsLevel1_t, read_bytes, 96);
AT(CUfileStatsLevel1_t, read_lat_sum_us, 160);
AT(CUfileStatsLevel1_t, batch_submit_ops, 176);
AT(CUfileStatsLevel1_t, batch_total_submit_ops, 400);
AT(CUfileStatsLevel1_t, batch_read_bytes, 416);
AT(CUfileStatsLevel1_t, last_batch_write_bytes, 504);

EXPECT(sizeof(CUfileStatsLevel2_t) == 1024);
AT(CUfileStatsLevel2_t, read_size_kb_hist, 512);
AT(CUfileStatsLevel2_t, write_size_kb_hist, 768);

EXPECT(sizeof(CUfilePerGpuStats_t) == 248);
AT(CUfilePerGpuStats_t, read_bytes, 16);
AT(CUfilePerGpuStats_t, n_reads_err, 112);
AT(CUfilePerGpuStats_t, writes_bytes, 120);
AT(CUfilePerGpuStats_t, n_writes_err, 200);
AT(CUfilePerGpuStats_t, n_mmap, 208);
AT(CUfilePerGpuStats_t, reg_bytes, 240);

EXPECT(sizeof(CUfileStatsLevel3_t) == 5000);
AT(CUfileStatsLevel3_t, num_gpus, 1024);
AT(CUfileStatsLevel3_t, per_gpu_stats, 1032);
