// SPDX-License-Identifier: Apache-2.0

#include "path/dmabuf/dmabuf_reasons.h"

namespace penstock::core {
namespace {

constexpr ReasonText kTexts[] = {
    {"dmabuf_kernel", "this kernel does not take dma-bufs as buffers of io_uring, as no Linux up to 7.3 does",
     "use another path until there is one: 'penstock check' names those that this machine can have"},
    {"dmabuf_not_built", "this kernel was built without dma-bufs", "boot a kernel with CONFIG_DMA_SHARED_BUFFER"},
    {"dmabuf_off",
     "dma-bufs of io_uring are experimental and switched off: they were not yet seen on hardware, and where the GPU's "
     "driver hands out wrong addresses, their first test overwrites a few KiB of other memory",
     "set PENSTOCK_DMABUF=on if that may be; 'penstock help dmabuf' tells what it needs"},
    {"dmabuf_not_exported", "the device's driver would not export memory as a dma-buf",
     "use a driver that does: NVIDIA's does with its open kernel modules, since CUDA 11.7"},
    {"dmabuf_drive",
     "the kernel does not take dma-bufs for this drive: it is no raw NVMe namespace, or a partition of one",
     "use the drive itself, without device mapper, RAID, loop device or NVMe multipath"},
    {"dmabuf_file", "files are not read from their drive by dma-bufs unless settings allow it, only raw drives are",
     "set PENSTOCK_DMABUF_FILES=on if that may be; 'penstock help dmabuf' tells what it gives away"},
    {"dmabuf_untrusted",
     "bytes that the drive reported as moved did not arrive in the device's memory: the path is off in this process",
     "boot with iommu=pt or intel_iommu=off, and check that no PCIe switch between the two redirects traffic (ACS)"},
    {"dmabuf_stuck", "the first request to the device's memory did not end: the path is off in this process",
     "see the kernel's log for the device's driver"},
    {"dmabuf_refused", "the kernel refused a request between drive and device memory",
     "see docs/reference/direct.md for what the errno means here"},
    {"dmabuf_reads_only", "files are only read by dma-bufs: their file system would not know of a write", ""},
    {"dmabuf_file_system",
     "only ordinary files on ext4 or XFS are read by dma-bufs, without DAX or XFS's realtime device",
     "put the file on ext4 or XFS, straight on the drive"},
    {"dmabuf_drive_node", "this process may not read the node of the drive that has the file",
     "give it the right to read that node, if it may read every file on the drive"},
    {"dmabuf_no_lease", "the kernel gives this process no lease on the file, without which others may move its blocks",
     "run as the file's owner, or with CAP_LEASE"},
    {"dmabuf_written", "somebody has the file open for writing, or waits to open it: its blocks may move",
     "close it, also in this program, and open it for reading alone"},
    {"dmabuf_extents", "the file system does not tell where these bytes lie on the drive, or they may have moved",
     "write the file anew, and flush it"},
    {"dmabuf_write_only", "the drive is open for writing alone, and only reads prove that bytes arrive",
     "open it for reading, too"},
};

}  // namespace

ReasonRange dmabuf_reasons() { return {kFirstDmabufReason, kTexts}; }

}  // namespace penstock::core
