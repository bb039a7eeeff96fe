// SPDX-License-Identifier: Apache-2.0

#include "path/nvfs/nvfs_reasons.h"

namespace penstock::core {
namespace {

constexpr const char* kOtherInterface =
    "use nvidia-fs 2.28.4, whose interface is known, and report the version that is installed";

constexpr ReasonText kTexts[] = {
    {"nvfs_missing", "the module nvidia-fs is not loaded",
     "install it and load it (modprobe nvidia-fs), unless 'penstock check' says that it crashes this kernel"},
    {"nvfs_version", "this version of the module nvidia-fs has faults that no caller can avoid",
     "use 2.20.5 or later, but not 2.25.6"},
    {"nvfs_stand_in", "the module called nvidia-fs is a stand-in for tests, which moves bytes by the CPU",
     "load NVIDIA's module; tests set PENSTOCK_NVFS=standin"},
    {"nvfs_node", "no device node of nvidia-fs can be opened",
     "give this user or container /dev/nvidia-fs*, to read and write"},
    {"nvfs_no_driver", "no storage driver has registered with nvidia-fs",
     "use a storage driver made for it, from MLNX_OFED, NVIDIA's nvidia-fs packages or Ubuntu's nvidia kernel"},
    {"nvfs_memory", "the module nvidia-fs pins memory of NVIDIA's data centre and professional GPUs alone",
     "use memory of such a GPU: no GeForce is one"},
    {"nvfs_map_refused", "nvidia-fs or NVIDIA's driver would not pin GPU memory",
     "see docs/reference/direct.md for what the errno means here; ENOMEM: the GPU's BAR1 is used up"},
    {"nvfs_refused", "nvidia-fs refused a request",
     "see docs/reference/direct.md for what the errno means here, and the kernel's log"},
    {"nvfs_not_direct",
     "bytes went through host memory of nvidia-fs: the storage driver of this file does not call nvidia-fs",
     "use a storage driver made for nvidia-fs for this drive, and no device mapper, loop device or RAID without it"},
    {"nvfs_not_counted", "nvidia-fs did not count the requests of the self-test",
     "check that /proc/driver/nvidia-fs/stats grows during a request, and that no program resets it"},
    {"nvfs_identity", "nvidia-fs and Penstock see different inode or device numbers for the file",
     "use ext4 or XFS; Btrfs subvolumes, and overlayfs with layers on several file systems, show other numbers than "
     "the kernel has"},
    {"nvfs_simulated", "usable, but moved by a stand-in for nvidia-fs, in a test: this proves no DMA",
     "unset PENSTOCK_NVFS outside of tests"},
    {"nvfs_off",
     "Penstock's own calls of nvidia-fs are experimental and switched off: they were not yet run beside NVIDIA's "
     "module",
     "set PENSTOCK_NVFS=on or auto, and run prove-direct (share/penstock of an installation, scripts/ of the "
     "sources) to see if it works here"},
    {"nvfs_argument_size", "the arguments of this nvidia-fs have another size than Penstock knows", kOtherInterface},
    {"nvfs_argument_layout", "this nvidia-fs answers, or writes, at other places than Penstock knows", kOtherInterface},
    {"nvfs_takes_offset", "this nvidia-fs does not refuse a file offset within a block as known versions do",
     kOtherInterface},
    {"nvfs_takes_size", "this nvidia-fs does not refuse a part of a block as known versions do", kOtherInterface},
    {"nvfs_takes_alignment", "this nvidia-fs does not refuse an unaligned place in GPU memory as known versions do",
     kOtherInterface},
    {"nvfs_takes_inode", "this nvidia-fs does not refuse a wrong inode number as known versions do", kOtherInterface},
    {"nvfs_takes_buffered", "this nvidia-fs does not refuse a descriptor without O_DIRECT as known versions do",
     kOtherInterface},
    {"nvfs_moves_refused", "this nvidia-fs changed GPU memory by a request that it refused", kOtherInterface},
};

}  // namespace

ReasonRange nvfs_reasons() { return {kFirstNvfsReason, kTexts}; }

}  // namespace penstock::core
