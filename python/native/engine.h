// SPDX-License-Identifier: Apache-2.0

// The calls of penstock.h in this process's one engine: Penstock's libcufile.so.0 if it is mapped already, so that
// there is one budget of pinned memory, else this package's libpenstock. It is chosen at the first call that needs it,
// and never changes.
#pragma once

#include <string>

#include "cufile.h"
#include "penstock/checksums.h"
#include "penstock/cufile_session.h"
#include "penstock/device_memory.h"
#include "penstock/gpu.h"
#include "penstock/stripes.h"

namespace penstock::python {

#define PENSTOCK_PYTHON_CALLS(CALL)                                                                                    \
  CALL(version)                                                                                                        \
  CALL(status_message)                                                                                                 \
  CALL(status_driver)                                                                                                  \
  CALL(path_count)                                                                                                     \
  CALL(path_name)                                                                                                      \
  CALL(report_bytes)                                                                                                   \
  CALL(reason_name)                                                                                                    \
  CALL(reason_sentence)                                                                                                \
  CALL(reason_remedy) CALL(config_create) CALL(config_close) CALL(config_set) CALL(setting_count) CALL(setting_get)    \
      CALL(session_open) CALL(session_close) CALL(session_reference) CALL(session_get) CALL(session_setting)           \
          CALL(device_get) CALL(device_alloc) CALL(device_free) CALL(device_upload) CALL(device_download)              \
              CALL(file_register) CALL(file_close) CALL(file_get) CALL(file_create) CALL(file_publish) CALL(file_sync) \
                  CALL(transfer) CALL(queue_open) CALL(queue_close) CALL(queue_submit) CALL(queue_reap)                \
                      CALL(queue_cancel) CALL(queue_eventfd) CALL(stream_submit) CALL(explain) CALL(path_outlook)      \
                          CALL(counters) CALL(crc32c) CALL(crc32c_vector) CALL(crc32c_begin)                           \
                              CALL(fingerprints_begin) CALL(fingerprints_end) CALL(file_advise) CALL(stripe_open)      \
                              CALL(stripe_create) CALL(stripe_get) CALL(stripe_member) CALL(count_save)  \
                                  CALL(gpu_open) CALL(gpu_close) CALL(gpu_get_value) CALL(gpu_get)

struct Engine {
#define PENSTOCK_PYTHON_CALL(name) decltype(&penstock_##name) name = nullptr;
  PENSTOCK_PYTHON_CALLS(PENSTOCK_PYTHON_CALL)
#undef PENSTOCK_PYTHON_CALL
  // Only in Penstock's libcufile.so.0.
  decltype(&penstock_cufile_session) cufile_session = nullptr;
  CUfileError_t (*cufile_driver_open)() = nullptr;
  CUfileError_t (*cufile_driver_close)() = nullptr;
  std::string library;  // The file name of the library.

  bool is_cufile() const { return cufile_session != nullptr; }
};

// Call it before the first use, with the folder of the package's own library.
void set_library_folder(const std::string& folder);
// Raises ImportError if no library can be loaded, or the mapped one has another version. Call it with the GIL held.
const Engine& engine();

}  // namespace penstock::python
