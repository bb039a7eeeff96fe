// SPDX-License-Identifier: Apache-2.0

// The meaning of errors of requests that name a dma-buf, and of canaries, for the path's channels.
#pragma once

#include <cerrno>

#include "path/dmabuf/dmabuf_reasons.h"
#include "path/pipeline/self_test.h"

namespace penstock::core {

// The exporter or the kernel asks for another try.
inline bool is_passing(int error) { return error == EAGAIN || error == EINTR || error == EBUSY || error == ENOMEM; }

// The slot, its mapping or its drive is gone.
inline bool ends_mapping(int error) { return error == ENODEV || error == ENOENT || error == EBADF || error == EFAULT; }

// After such a canary nothing is tried again; others failed for what may pass.
inline bool means_lost_bytes(const Proof& proof) {
  if (proof.reason != dmabuf_reason::refused) return true;
  return proof.error == ENODEV || proof.error == EINVAL || proof.error == EOPNOTSUPP;
}

}  // namespace penstock::core
