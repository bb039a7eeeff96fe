/* Memory of a device, for programs that have no other way to allocate it: Penstock's own tool, and examples that run
 * without a GPU. A program that uses CUDA, or any other runtime, allocates with that; Penstock accepts memory from any
 * allocator.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PENSTOCK_DEVICE_MEMORY_H_
#define PENSTOCK_DEVICE_MEMORY_H_

#include "penstock/penstock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Free it before the session is closed: otherwise it stays allocated until the process ends. */
penstock_status penstock_device_alloc(penstock_session* session, uint32_t ordinal, uint64_t size, void** memory);
/* Waits for the requests of queues and streams that use the memory. Their completions can still be reaped. */
penstock_status penstock_device_free(penstock_session* session, uint32_t ordinal, void* memory);
/* Copy between device memory and host memory, and return when the copy is done. */
penstock_status penstock_device_upload(penstock_session* session, void* device_memory, const void* host, uint64_t size);
penstock_status penstock_device_download(penstock_session* session, void* host, const void* device_memory,
                                         uint64_t size);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PENSTOCK_DEVICE_MEMORY_H_ */
