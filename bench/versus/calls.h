// SPDX-License-Identifier: Apache-2.0

// The calls of one libcufile.so.0 that are measured, plus Penstock's own calls if the library is Penstock's. A program
// that links the library fills the table itself.
#pragma once

#include <string>

#include "cufile.h"
#include "penstock/cufile_session.h"
#include "penstock/penstock.hpp"

namespace penstock::versus {

struct Calls {
  std::string name;  // For people.
  decltype(&::cuFileDriverOpen) driver_open;
  decltype(&::cuFileHandleRegister) register_handle;
  decltype(&::cuFileHandleDeregister) deregister_handle;
  decltype(&::cuFileBufRegister) register_buffer;
  decltype(&::cuFileBufDeregister) deregister_buffer;
  decltype(&::cuFileRead) read;
  decltype(&::cuFileWrite) write;
  decltype(&::cuFileBatchIOSetUp) batch_open;
  decltype(&::cuFileBatchIOSubmit) batch_submit;
  decltype(&::cuFileBatchIOGetStatus) batch_status;
  decltype(&::cuFileBatchIODestroy) batch_close;
  decltype(&::cuFileReadAsync) read_async;
  decltype(&::cuFileStreamRegister) register_stream;
  decltype(&::cuFileStreamDeregister) deregister_stream;

  // Penstock's own calls; null in another library (see is_penstock()).
  decltype(&::penstock_cufile_session) session;
  decltype(&::penstock_cufile_file) file;
  decltype(&::penstock_device_alloc) device_alloc;
  decltype(&::penstock_device_upload) device_upload;
  decltype(&::penstock_device_download) device_download;
  decltype(&::penstock_queue_open) queue_open;
  decltype(&::penstock_queue_submit) queue_submit;
  decltype(&::penstock_queue_reap) queue_reap;
  decltype(&::penstock_queue_close) queue_close;

  bool is_penstock() const { return session != nullptr; }
  // The session of Penstock's library; throws a Failure while its driver is closed. Lives as long as the process.
  penstock_session* opened_session() const;
};

// Loads the library for good. Throws a Failure if it cannot be loaded, or lacks a call.
Calls load_calls(const std::string& path);

}  // namespace penstock::versus
