// SPDX-License-Identifier: Apache-2.0

// The seam for asynchronous storage I/O: push operations, submit them, reap completions.
//
// UringRing is io_uring; BlockingRing does one operation per reap with preadv2/pwritev2, for kernels and containers
// that forbid io_uring. Any thread may use a ring, one at a time. Transfers may be short; EINTR and EAGAIN never reach
// the caller, except from operations on a dma-buf.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "core/io.h"
#include "storage/dmabuf_slots.h"

namespace penstock::core {

struct RingOp {
  Op op = Op::read;
  int fd = -1;
  int fixed_file = -1;       // The number that register_file returned, or -1.
  void* memory = nullptr;    // With a slot, the number of bytes from the dma-buf's start.
  std::uint32_t size = 0;    // Bytes; never 0.
  std::uint64_t offset = 0;  // In the file, bytes.
  std::uint32_t tag = 0;     // Returned in the completion.
  // The slot of a dma-buf (dmabuf_slots.h), or -1. Every errno of such an operation reaches the caller.
  int slot = -1;
  bool is_durable = false;  // A write by a slot that completes when it has reached the drive's medium.
};

struct RingCompletion {
  std::uint32_t tag = 0;
  std::int32_t result = 0;  // Bytes moved, or a negative errno.
};

class Ring {
 public:
  explicit Ring(DmabufSlots* dmabufs = nullptr) : dmabufs_(dmabufs) {}
  virtual ~Ring() = default;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  // At most `depth` operations may be outstanding (pushed, not reaped).
  virtual void push(const RingOp& op) = 0;
  virtual Status submit() = 0;
  // Fills up to completions.size() entries; with `wait`, blocks until there is one, if any operation is in flight.
  // Fails only where none of those that are left reached the kernel, or will: no memory or file changes any more.
  virtual Result<unsigned> reap(std::span<RingCompletion> completions, bool wait) = 0;
  // Submits, and waits until there is something to reap, or until the deadline. Returns false at once if the ring
  // cannot wait with a time limit.
  virtual bool wait_until(std::chrono::steady_clock::time_point /*deadline*/) { return false; }
  // Only for speed: after a failure the ring works without it. The kernel pins the current pages and moves bytes to and
  // from these: the memory must not be remapped until it is unregistered or the ring is destroyed.
  virtual Status register_memory(void* memory, std::size_t size) = 0;
  virtual void unregister_memory(void* /*memory*/) {}
  // Returns a number for RingOp::fixed_file, or -1. While it is registered, the kernel keeps the file open: unregister
  // it before its owner may close it.
  virtual int register_file(int fd) = 0;
  virtual void unregister_file(int fixed_file) = 0;

  DmabufSlots* dmabufs() const { return dmabufs_; }  // Null if the ring cannot have any.

 private:
  DmabufSlots* const dmabufs_;
};

}  // namespace penstock::core
