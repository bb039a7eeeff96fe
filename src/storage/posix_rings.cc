// SPDX-License-Identifier: Apache-2.0

// The rings of PosixStorage: io_uring if the kernel allows it.
#include <cerrno>

#include "storage/blocking_ring.h"
#include "storage/posix_storage.h"
#include "storage/uring_ring.h"

namespace penstock::core {

Result<std::unique_ptr<Ring>> PosixStorage::open_ring(unsigned depth) {
  if (io_uring_error_.load(std::memory_order_relaxed) == 0) {
    Result<std::unique_ptr<Ring>> ring = UringRing::open(depth);
    if (ring.ok()) return ring;
    // The cause may be seccomp, kernel.io_uring_disabled, an old kernel, or the locked-memory limit; verdicts report
    // it. A lack of descriptors is temporary, and affects only this ring.
    const int error = ring.status().code;
    if (error != EMFILE && error != ENFILE) io_uring_error_.store(error, std::memory_order_relaxed);
  }
  return std::unique_ptr<Ring>(std::make_unique<BlockingRing>(*this, depth));
}

int PosixStorage::io_uring_error() {
  if (!io_uring_tried_.exchange(true)) (void)open_ring(1);
  return io_uring_error_.load(std::memory_order_relaxed);
}

// The ring by which io_uring is tried answers this, too: a ring costs tens of microseconds, and a question to it two. A
// kernel that knows the interface looks at the descriptors, which are none.
int PosixStorage::dmabuf_error() {
  static std::atomic<int> known{-1};
  if (const int error = io_uring_error_.load(std::memory_order_relaxed); error != 0) return error;
  if (const int error = known.load(std::memory_order_relaxed); error >= 0) return error;
  io_uring_tried_.store(true);
  const Result<std::unique_ptr<Ring>> ring = open_ring(1);
  DmabufSlots* const slots = ring.ok() ? (*ring)->dmabufs() : nullptr;
  if (slots == nullptr) {
    const int error = io_uring_error_.load(std::memory_order_relaxed);
    return error == 0 ? EMFILE : error;  // Such a lack may pass.
  }
  const int answer = slots->add(-1, -1).status().code, error = answer == EBADF ? 0 : answer;
  if (error == 0 || error == EINVAL || error == EOPNOTSUPP) known.store(error, std::memory_order_relaxed);
  return error;
}

}  // namespace penstock::core
