// SPDX-License-Identifier: Apache-2.0

// The engine's functions in the form that kv/ needs, and conversions to penstock.h's statuses.
#pragma once

#include "kv/queue_pool.h"
#include "python/native/engine.h"

namespace penstock::python {

inline kv::Library library_of(const Engine& engine) {
  return {engine.file_register, engine.file_close,  engine.file_sync,    engine.transfer,
          engine.queue_open,    engine.queue_close, engine.queue_submit, engine.queue_reap,
          engine.crc32c_vector, engine.path_count,  engine.report_bytes, engine.file_advise};
}

inline penstock_status raw(const core::Status& status) {
  return {static_cast<std::int16_t>(status.domain), status.driver, status.code, status.step};
}

}  // namespace penstock::python
