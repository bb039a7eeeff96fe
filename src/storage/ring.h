// SPDX-License-Identifier: Apache-2.0

// The seam for asynchronous storage I/O: push operations, submit them, reap what finished.
//
// UringRing is io_uring; PreadRing does one operation for each reap with preadv2/pwritev2, for kernels and
// containers that forbid io_uring. A ring is used by one thread at a time, any thread. Transfers may be short; EINTR
// and EAGAIN never reach the caller.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "core/io.h"

namespace penstock::core {

struct RingOp {
  Op op = Op::read;
  int fd = -1;
  int fixed_file = -1;  // The number that register_file returned, or -1.
  void* memory = nullptr;
  std::uint32_t size = 0;    // Bytes; never 0.
  std::uint64_t offset = 0;  // In the file, bytes.
  std::uint32_t tag = 0;     // Comes back in the completion.
};

struct RingCompletion {
  std::uint32_t tag = 0;
  std::int32_t result = 0;  // Bytes moved, or a negative errno.
};

class Ring {
 public:
  virtual ~Ring() = default;
  // Never more than `depth` operations may be pushed and not reaped.
  virtual void push(const RingOp& op) = 0;
  virtual Status submit() = 0;
  // Fills up to completions.size() entries; with `wait`, blocks for the first while any operation is in flight.
  virtual Result<unsigned> reap(std::span<RingCompletion> completions, bool wait) = 0;
  // Submits, and waits until there is something to reap, or until the deadline. False where the ring has no wait that
  // ends with a time: then nothing was waited for.
  virtual bool wait_until(std::chrono::steady_clock::time_point /*deadline*/) { return false; }
  // Optional speed: a failure leaves the ring working without. The kernel keeps the pages that are there now, and moves
  // bytes to and from these: the memory must stay as it is until it is unregistered, or the ring is gone.
  virtual Status register_memory(void* memory, std::size_t size) = 0;
  virtual void unregister_memory(void* /*memory*/) {}
  // A number for RingOp::fixed_file, or -1. While registered, the kernel holds the file open: let go of it before
  // its owner may close it.
  virtual int register_file(int fd) = 0;
  virtual void unregister_file(int fixed_file) = 0;
};

}  // namespace penstock::core
