// SPDX-License-Identifier: Apache-2.0

// EXPERIMENTAL: no released Linux has this interface. Dma-bufs as registered buffers of an io_uring ring: the drive's
// DMA engine then reads and writes memory that another device's driver exports, such as a GPU's. Written from the
// series "Add dmabuf read/write via io_uring" (v7, 2026-09-28), as seen on a kernel that it was ported to.
//
// A part of some rings (Ring::dmabufs), which follows the ring's rules of use. Each slot belongs to one dma-buf and one
// open drive: an operation must name that descriptor or a duplicate of it, since another open of the same drive fails
// with EBADF. Success of add() proves nothing: neither exporter nor drive is asked before the first operation.
#pragma once

#include "base/status.h"

namespace penstock::core {

class DmabufSlots {
 public:
  static constexpr unsigned kDmabufsMax = 56;

  // The slot for RingOp::slot. `drive` is open with O_DIRECT: a raw NVMe namespace or a partition of one. Fails with
  // ENOSPC if no slot is free; EINVAL or EOPNOTSUPP mean that this drive or this dma-buf cannot be used so. The slot
  // keeps dma-buf and drive open. `is_lent`: release() may be called. With -1 for both it asks the kernel alone: EBADF
  // if it knows the interface, EINVAL if not, EOPNOTSUPP if it was built without dma-bufs.
  virtual Result<int> add(int dmabuf, int drive, bool is_lent = false) = 0;
  // Returns when no drive reaches the memory any more. Nothing of the ring may be in flight. After a failure the memory
  // must stay as it is until the ring is destroyed.
  virtual Status remove(int slot) = 0;
  // Takes memory and drive from a lent slot, of which nothing is in flight or will be; its number stays taken until
  // remove(). Any thread may call it, whatever the ring does meanwhile.
  virtual Status release(int slot) const = 0;

 protected:
  ~DmabufSlots() = default;
};

}  // namespace penstock::core
