// SPDX-License-Identifier: Apache-2.0

// The transfer types of gdsio as Transports. A transport belongs to one thread and one file.
#pragma once

#include <cerrno>
#include <memory>
#include <string>

#include "tools/common/cuda_driver.h"
#include "tools/common/cufile_calls.h"
#include "tools/common/runner.h"
#include "tools/gdsio/settings.h"

namespace penstock::tools {

// The objects that one thread of gdsio works with. All of them outlive the Transport that is made from them.
struct ThreadSetup {
  const CufileFile* file = nullptr;
  penstock_session* session = nullptr;  // The session of the cuFile driver; null if no device takes part.
  const CudaDriver* cuda = nullptr;     // Null if host memory stands in for a GPU.
  unsigned gpu = 0;
  TransferType transfer = TransferType::gpu_direct;
  MemoryType memory = MemoryType::device;
  bool is_write = false;
  bool skip_register = false;
  unsigned depth = 1;
  std::uint64_t slot_size = 0;
  std::uint64_t shift = 0;  // The offset of device memory behind the start of a page.
};

std::unique_ptr<Transport> open_transport(const ThreadSetup& setup);

// ---- For the transports

Arena memory_of(const ThreadSetup& setup);

inline Completion completion_of(std::uint64_t slot, std::uint64_t bytes) {
  Completion done;
  done.cookie = slot;
  done.report.bytes = bytes;
  return done;
}

std::unique_ptr<Transport> open_posix_transport(const ThreadSetup& setup);  // -x 1 to 4

}  // namespace penstock::tools
