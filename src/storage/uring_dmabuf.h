// SPDX-License-Identifier: Apache-2.0

// The system calls of dmabuf_slots.h, with structures of our own, since no installed header has them yet. Each returns
// 0 or an errno.
#pragma once

#include <cstdint>

namespace penstock::core {

// `tag` is the user_data of the completion that comes once the slot is cleared and its last operation has ended.
int set_uring_dmabuf(int ring, unsigned slot, int dmabuf, int drive, std::uint64_t tag);
int clear_uring_dmabuf(int ring, unsigned slot);

}  // namespace penstock::core
