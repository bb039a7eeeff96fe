// SPDX-License-Identifier: Apache-2.0

#include "topology/obstacle.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace penstock::core {
namespace {

using enum Effect;

constexpr const char* kPlainDrive = "put the data on ext4 or XFS directly on a PCIe NVMe drive";

constexpr ObstacleText kTexts[] = {
    {Obstacle::kernel_no_p2pdma, "kernel_no_p2pdma", "the kernel was built without CONFIG_PCI_P2PDMA",
     "boot a kernel built with CONFIG_PCI_P2PDMA=y, of 6.2 or later and not 6.16: 'grep P2PDMA /boot/config-*' shows "
     "which of those installed is; Debian's are from 6.13.7 on (trixie-backports), Ubuntu's 6.14 is; else build one",
     refused},
    {Obstacle::kernel_too_old, "kernel_too_old", "before Linux 6.2 no process can have device pages",
     "boot Linux 6.2 or later", refused},
    {Obstacle::kernel_6_16, "kernel_6_16", "Linux 6.16 fails transfers of device pages above 4 KiB",
     "boot Linux 6.17 or later, or one before 6.16", refused},

    {Obstacle::peer_unseen, "peer_unseen", "there is no such device on the PCI bus",
     "name a device that 'penstock check' lists, and give a container or virtual machine its device", refused},
    {Obstacle::peer_no_memory, "peer_no_memory", "the device offers no memory to others (no p2pmem in /sys)",
     "load a driver that offers the device's memory, as nvme does for a controller memory buffer", refused},
    {Obstacle::gpu_maker, "gpu_maker", "memory of this maker's GPUs cannot be exported as device pages yet",
     "use an NVIDIA GPU; the bounce path serves this one", refused},
    {Obstacle::gpu_driver, "gpu_driver", "the GPU is not bound to NVIDIA's kernel driver",
     "install NVIDIA's driver and load it: modprobe nvidia-uvm", refused},
    {Obstacle::driver_no_export, "driver_no_export", "NVIDIA's driver before 565.57 cannot export device pages",
     "install NVIDIA's driver 565.57 or later, 595.44 or later for Linux 6.15 and later", refused},
    {Obstacle::driver_too_old_for_kernel, "driver_too_old_for_kernel",
     "NVIDIA's driver before 595.44 cannot export device pages on Linux 6.15 and later",
     "install NVIDIA's driver 595.44 or later, or boot a kernel before 6.15", refused},
    {Obstacle::uvm_not_loaded, "uvm_not_loaded", "the module nvidia-uvm, which exports device pages, is not loaded",
     "load the module nvidia-uvm: nvidia-modprobe -u -c 0", refused},
    {Obstacle::static_bar1_off, "static_bar1_off",
     "the GPU's memory is not mapped into its BAR permanently (static BAR1)",
     "set RMForceStaticBar1=1 in NVreg_RegistryDwords of the module nvidia, and reload it", refused},
    {Obstacle::bar_write_combined, "bar_write_combined",
     "the GPU's BAR is mapped write-combined, which P2PDMA cannot use",
     "set RmForceDisableIomapWC=1 in NVreg_RegistryDwords of the module nvidia, and reload it", refused},
    {Obstacle::no_large_bar, "no_large_bar", "the GPU's BAR is a small window, not all of its memory",
     "enable Above 4G Decoding and Resizable BAR in the firmware; some GPUs have no large BAR", refused},
    {Obstacle::architecture, "architecture",
     "NVIDIA's driver exports device pages only on x86-64 and on coherent systems",
     "run on x86-64, or where the GPU's memory is coherent with the processor's", refused},
    {Obstacle::pointer_not_exportable, "pointer_not_exportable", "the driver does not export this piece of memory",
     "set PENSTOCK_NVIDIA_EXPORT=on (experimental), and let Penstock allocate the memory, or register memory of "
     "cuMemCreate that has an exportable handle type",
     refused},
    {Obstacle::gpu_node, "gpu_node", "there is no device node of a GPU (/dev/nvidia0) here",
     "give the container its GPU (docker run --gpus all), or make the nodes: nvidia-modprobe -u -c 0", refused},
    {Obstacle::memory_plain, "memory_plain", "memory of cudaMalloc or cuMemAlloc has no handle that can be exported",
     "let Penstock allocate it, or allocate by cuMemCreate with a POSIX descriptor as handle type and "
     "gpuDirectRDMACapable, and register it; nvidia-fs takes it as it is",
     refused},
    {Obstacle::memory_managed, "memory_managed",
     "managed memory (cudaMallocManaged) moves between host and GPU, and cannot be exported",
     "allocate by cudaMalloc for nvidia-fs, or let Penstock allocate it", refused},
    {Obstacle::memory_pool, "memory_pool", "memory of a pool (cudaMallocAsync) has no handle of its own to be exported",
     "in PyTorch leave out backend:cudaMallocAsync; else allocate by cuMemCreate, or let Penstock allocate it",
     refused},
    {Obstacle::memory_closed, "memory_closed",
     "the memory was allocated by cuMemCreate without a handle that can be exported",
     "allocate it with requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR and gpuDirectRDMACapable = 1",
     refused},
    {Obstacle::memory_not_rdma_capable, "memory_not_rdma_capable",
     "the memory was allocated by cuMemCreate without gpuDirectRDMACapable",
     "allocate it with allocFlags.gpuDirectRDMACapable = 1", refused},
    {Obstacle::memory_unregistered, "memory_unregistered",
     "the memory can be exported, but is not registered, or its buffer spans several allocations",
     "register each allocation as a buffer: cuFileBufRegister, penstock_buffer_register", refused},

    {Obstacle::root_ports_apart, "root_ports_apart",
     "the only way from device to drive leads through a processor that is not known to route between its root ports",
     "put both under one PCIe switch, or use a processor on the kernel's list (AMD Zen, several Xeons)", refused},
    {Obstacle::acs_redirect, "acs_redirect", "ACS redirects traffic between device and drive up to the processor",
     "boot with pci=disable_acs_redir=[the bridge that redirects, as penstock check names it], which switches "
     "redirection off for it",
     refused},
    {Obstacle::iommu_translating, "iommu_translating",
     "the IOMMU translates addresses, which may corrupt bytes silently",
     "boot with iommu=pt, or switch the IOMMU off in the firmware", corrupted},
    {Obstacle::route_unseen, "route_unseen", "the PCIe route between device and drive cannot be seen",
     "let the self-test decide; give a container the host's /sys", corrupted},
    {Obstacle::virtual_machine, "virtual_machine",
     "a virtual machine may show another bus than the one that connects the devices",
     "let the self-test decide; pass both devices through with their switch", corrupted},

    {Obstacle::nvme_multipath, "nvme_multipath", "only recent kernels pass device pages through NVMe multipath",
     "boot Linux 7.2 or later, or load nvme_core with multipath=N", refused},
    {Obstacle::nvme_rdma, "nvme_rdma", "NVMe over RDMA takes device pages only if the adapter does the DMA itself",
     "use a hardware RDMA adapter near the device", refused},
    {Obstacle::nvme_tcp, "nvme_tcp", "NVMe over TCP refuses device pages",
     "connect by RDMA with a hardware adapter, or use a local NVMe drive", refused},
    {Obstacle::nvme_fabrics, "nvme_fabrics", "NVMe over this transport refuses device pages",
     "connect by RDMA with a hardware adapter, or use a local NVMe drive", refused},
    {Obstacle::md_raid, "md_raid", "only recent kernels pass device pages through md raid0, raid1 and raid10",
     "boot Linux 7.2 or later, or use the drives one by one", refused},
    {Obstacle::md_level, "md_level", "this md level makes the CPU compute or copy",
     "back the data up and make the array anew, as raid0, raid1 or raid10", refused},
    {Obstacle::md_members_unknown, "md_members_unknown", "the members of the md device cannot be seen",
     "give a container the host's /sys", refused},
    {Obstacle::device_mapper, "device_mapper", "device mapper (LVM, dm-crypt, multipath) refuses device pages",
     kPlainDrive, refused},
    {Obstacle::loop, "loop", "a loop device refuses device pages", kPlainDrive, refused},
    {Obstacle::virtio, "virtio", "a virtio disk refuses device pages",
     "give the virtual machine an NVMe drive of its own by PCI passthrough", refused},
    {Obstacle::scsi, "scsi", "SCSI, SATA and USB disks refuse device pages", kPlainDrive, refused},
    {Obstacle::memory_device, "memory_device", "the block device is in memory, so the CPU copies the bytes",
     kPlainDrive, refused},
    {Obstacle::null_device, "null_device", "null_blk refuses device pages", kPlainDrive, refused},
    {Obstacle::other_device, "other_device", "this kind of block device refuses device pages", kPlainDrive, refused},
    {Obstacle::stack_unseen, "stack_unseen", "the block device cannot be seen from here",
     "let the self-test decide; give a container the host's /sys", refused},
    {Obstacle::iscsi, "iscsi", "an iSCSI disk refuses device pages, over TCP as by RDMA (iSER)",
     "connect the target by NVMe over RDMA with a hardware adapter, or use a local NVMe drive", refused},

    {Obstacle::memory, "memory", "the file system is in memory, so the CPU copies the bytes", kPlainDrive, copied},
    {Obstacle::nfs_tcp, "nfs_tcp", "NFS over TCP refuses device pages",
     "mount with proto=rdma where nvidia-fs serves NFS, or copy the data to a local NVMe drive", refused},
    {Obstacle::nfs_rdma, "nfs_rdma", "NFS refuses device pages, also over RDMA",
     "use nvidia-fs with its NFS driver (the vendor path), or copy the data to a local NVMe drive", refused},
    {Obstacle::network_file_system, "network_file_system", "network file systems refuse device pages",
     "copy the data to a local NVMe drive, or use nvidia-fs where it serves this file system", refused},
    {Obstacle::fuse, "fuse", "a file system in user space refuses device pages", kPlainDrive, refused},
    {Obstacle::data_journal, "data_journal", "journaled data goes through the page cache, even with direct I/O",
     "mount ext4 with data=ordered, or take the attribute off the file: chattr -j", copied},
    {Obstacle::checksums, "checksums", "btrfs computes checksums of writes, so the CPU copies them",
     "make the file in a folder with chattr +C, or mount with nodatacow; reads are direct in any case", copied},
    {Obstacle::overlay, "overlay", "it cannot be seen from here which layer of the overlay holds the file",
     "mount a volume (a host folder) into the container for the data", refused},
    {Obstacle::no_direct_io, "no_direct_io", "the file system has no direct I/O for this file", kPlainDrive, copied},
    {Obstacle::file_system, "file_system", "the file system refuses device pages", kPlainDrive, refused},
    {Obstacle::file_system_unknown, "file_system_unknown", "it is unknown whether this file system takes device pages",
     kPlainDrive, refused},
    {Obstacle::several_devices, "several_devices",
     "the file system spans several devices, and only one of them was judged",
     "let the self-test decide; use a file system on one drive", refused},

    {Obstacle::compressed, "compressed", "the file is compressed, so the CPU has to process its bytes",
     "make an empty file without compression (chattr -c; on btrfs chattr +m), and copy the data into it", copied},
    {Obstacle::encrypted, "encrypted", "the file is encrypted, so the CPU has to process its bytes",
     "keep the data in a folder without encryption", copied},
    {Obstacle::verity, "verity", "the file is sealed with fs-verity, so the CPU computes hashes of its bytes",
     "use a copy of the file without fs-verity", copied},
    {Obstacle::inline_data, "inline_data", "bytes of the file are stored in its inode, not in blocks of the drive",
     "make the file larger than a block", copied},
    {Obstacle::shared_extents, "shared_extents",
     "extents are shared with other files (reflink, snapshot), so a write allocates new ones first",
     "make a copy that shares no extents: cp --reflink=never", slower},
    {Obstacle::holes, "holes",
     "the file has holes: the CPU fills reads of them with zeros, and writes to them allocate blocks first",
     "fill them first: 'penstock explain --fix'", part_copied},
    {Obstacle::unwritten_extents, "unwritten_extents",
     "extents are allocated but were never written: the CPU fills reads of them with zeros, and the first write has to "
     "convert them",
     "write them once first: 'penstock explain --fix --written'", part_copied},
    {Obstacle::no_direct_descriptor, "no_direct_descriptor", "the file cannot be opened with O_DIRECT",
     "open it with O_DIRECT before it is registered, or mount /proc in the container", copied},
    {Obstacle::block_map, "block_map",
     "the file is mapped block by block as on ext3, so the CPU copies writes that allocate",
     "copy it to a new file on ext4, or write only to allocated blocks: 'penstock explain --fix --written'",
     part_copied},

    {Obstacle::misaligned, "misaligned", "offset, size or address is not a multiple of the drive's block size",
     "align all three to 4096 bytes; otherwise head and tail are bounced", part_copied},
    {Obstacle::extending_write, "extending_write",
     "the write goes past the file's end, where file systems do one write at a time",
     "give the file its final size first: 'penstock explain --fix'", slower},
};

constexpr ObstacleText kUnknown{Obstacle::none, "unknown", "", "", Effect::refused};

constexpr bool is_sorted() {
  for (std::size_t i = 1; i < std::size(kTexts); ++i) {
    if (kTexts[i - 1].obstacle >= kTexts[i].obstacle) return false;
  }
  return true;
}
static_assert(is_sorted());

}  // namespace

const char* effect_name(Effect effect) {
  switch (effect) {
    case refused: return "refused";
    case copied: return "copied";
    case part_copied: return "part_copied";
    case corrupted: return "silent_corruption";
    case slower: return "slower";
  }
  return "unknown";
}

const char* certainty_name(Certainty certainty) { return certainty == Certainty::certain ? "certain" : "possible"; }

std::span<const ObstacleText> obstacle_texts() { return kTexts; }

const ObstacleText& obstacle_text(Obstacle obstacle) {
  const auto* found = std::lower_bound(std::begin(kTexts), std::end(kTexts), obstacle,
                                       [](const ObstacleText& text, Obstacle one) { return text.obstacle < one; });
  return found == std::end(kTexts) || found->obstacle != obstacle ? kUnknown : *found;
}

std::string Finding::sentence() const {
  const char* text = obstacle_text(obstacle).sentence;
  return subject.empty() ? std::string(text) : subject + ": " + text;
}

bool Finding::has_cpu_move_bytes() const {
  return certainty == Certainty::certain && (effect() == Effect::copied || effect() == Effect::part_copied);
}

std::string Finding::remedy() const {
  std::string text = obstacle_text(obstacle).remedy;
  const std::size_t begin = text.find('['), end = text.find(']');
  return subject.empty() || end == std::string::npos ? text : text.replace(begin, end + 1 - begin, subject);
}

bool Finding::stops() const {
  return certainty == Certainty::certain && effect() != Effect::part_copied && effect() != Effect::slower;
}

const Finding* first_stop(std::span<const Finding> findings) {
  const auto found = std::find_if(findings.begin(), findings.end(), [](const Finding& one) { return one.stops(); });
  return found == findings.end() ? nullptr : &*found;
}

void append(Findings& findings, Findings more) {
  findings.insert(findings.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace penstock::core
