// SPDX-License-Identifier: Apache-2.0

// The system calls of dmabuf_slots.h, with structures of our own, since no installed header has them yet. Each returns
// 0 or an errno.
#pragma once

#include <cstdint>

namespace penstock::core {

// EINVAL: the kernel does not know the interface. EOPNOTSUPP: it was built without dma-bufs. Otherwise 0, or the errno
// of io_uring's set-up. Needs neither drive, GPU nor rights. The kernel is asked once in a process.
int probe_uring_dmabuf();
// `tag` is the user_data of the completion that comes once the slot is cleared and its last operation has ended.
int set_uring_dmabuf(int ring, unsigned slot, int dmabuf, int drive, std::uint64_t tag);
int clear_uring_dmabuf(int ring, unsigned slot);

}  // namespace penstock::core
