/* Penstock beside cuFile: how a program that runs on Penstock's libcufile.so.0 gets the session behind its cuFile
 * calls. Only that library has these functions; a program that may also run on NVIDIA's looks for them with dlsym(3).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PENSTOCK_CUFILE_SESSION_H_
#define PENSTOCK_CUFILE_SESSION_H_

#include "penstock/penstock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns a handle of the session behind this process's cuFile calls, to count and explain what they do, and for
 * requests by penstock.h that share its pinned memory. Fails with PENSTOCK_CLOSED while cuFile's driver is closed.
 * penstock_session_close() gives the handle back; the driver stays open. Once the driver is closed, calls on the handle
 * fail with PENSTOCK_CLOSED. */
penstock_status penstock_cufile_session(penstock_session** session);

/* Returns a handle of the file behind a CUfileHandle_t. Fails with PENSTOCK_NOT_REGISTERED where cufile_handle is no
 * such handle. penstock_file_close() gives the new handle back; cuFile's handle stays registered. Once cuFile's handle
 * is deregistered, requests by the new one fail with PENSTOCK_NOT_REGISTERED. */
penstock_status penstock_cufile_file(const void* cufile_handle, penstock_file** file);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PENSTOCK_CUFILE_SESSION_H_ */
