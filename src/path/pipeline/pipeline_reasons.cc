// SPDX-License-Identifier: Apache-2.0

#include "path/pipeline/pipeline_reasons.h"

namespace penstock::core {
namespace {

constexpr ReasonText kTexts[] = {
    {"self_test_refused", "the self-test of this device with this storage was refused by the kernel",
     "see docs/reference/direct.md for what the errno means here"},
    {"self_test_wrong", "the self-test of this device with this storage moved wrong bytes and reported success",
     "boot with iommu=pt or intel_iommu=off, and check that no PCIe switch between the two redirects traffic (ACS)"},
    {"self_test_copied", "in the self-test the CPU copied the bytes through the page cache",
     "use ext4 with data=ordered, XFS, or the block device"},
    {"self_test_no_room", "there was no device memory for the self-test", "free 64 KiB of the device's memory"},
    {"no_scratch", "writes could not be tested: no scratch file can be made beside the file",
     "make the file's folder writable, or name in PENSTOCK_SCRATCH a file or partition of the same storage that may be "
     "overwritten"},
    {"refused_late", "the kernel refused an earlier request of this device with this storage, which was then bounced",
     "see docs/reference/direct.md for what the errno means here"},
    {"small_blocks", "the file system's blocks are below 4096 bytes: nvidia-fs would leave old bytes in place of holes",
     "make the file system with blocks of 4096 bytes: mkfs.ext4 -b 4096, mkfs.xfs -b size=4096"},
    {"nvidia_fs_task_switch",
     "nvidia-fs of this version crashes a machine with this kernel at a task switch, or it is unknown whether it does",
     "boot a kernel without the change that penstock check names, or use an nvidia-fs that NVIDIA says goes with it; "
     "PENSTOCK_NVFS=on uses what is only in doubt"},
};

}  // namespace

ReasonRange pipeline_reasons() { return {kFirstPipelineReason, kTexts}; }

}  // namespace penstock::core
