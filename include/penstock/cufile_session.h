/* Penstock beside cuFile: what a program on our libcufile.so.0 can ask about the session behind its cuFile calls. Only
 * that library has these functions; a program that may run on NVIDIA's looks for them with dlsym(3).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PENSTOCK_CUFILE_SESSION_H_
#define PENSTOCK_CUFILE_SESSION_H_

#include "penstock/penstock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The session behind the cuFile calls of this process: to count and explain what they do, and for requests of one's own
 * that share its pinned memory. Fails with PENSTOCK_CLOSED while cuFile's driver is closed. penstock_session_close()
 * gives it back; the driver stays open. When the driver is closed first, the handle answers PENSTOCK_CLOSED. */
penstock_status penstock_cufile_session(penstock_session** session);

/* The file behind a CUfileHandle_t. Fails with PENSTOCK_NOT_REGISTERED for anything that is none.
 * penstock_file_deregister() gives it back; cuFile's handle stays registered. When that is deregistered first, requests
 * fail with PENSTOCK_NOT_REGISTERED. */
penstock_status penstock_cufile_file(const void* cufile_handle, penstock_file** file);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PENSTOCK_CUFILE_SESSION_H_ */
