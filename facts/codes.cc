// SPDX-License-Identifier: Apache-2.0

#include "facts/codes.h"

#include <algorithm>
#include <iterator>

namespace penstock::facts {
namespace {

constexpr Code kCodes[] = {
    {"cuda", "whether the driver's CUDA is new enough", "", ""},
    {"cufile_json", "whether cuFile's configuration lets files take a direct path", "", ""},
    {"device", "", "stand_in", ""},
    {"dmabuf_files_setting", "whether PENSTOCK_DMABUF_FILES lets files be read so, too", "dmabuf_file", ""},
    {"dmabuf_setting", "whether PENSTOCK_DMABUF lets raw drives reach GPU memory by dma-bufs", "dmabuf_off", ""},
    {"ecn", "whether a RoCE port marks congestion (ECN) instead of losing packets", "", ""},
    {"ext4_ordered", "whether ext4's mount shows data=ordered, without which cuFile goes through the page cache", "",
     ""},
    {"gpu", "whether there is an NVIDIA GPU, by the PCI bus or by CUDA, and whether its driver supports it", "stand_in",
     ""},
    {"gpu_memory_registration", "by which mechanism NICs may register a GPU's memory for RDMA", "", ""},
    {"gpu_product", "whether NVIDIA supports GPUDirect on GPUs of this kind", "nvfs_memory", "vendor_gpu"},
    {"io_uring", "", "io_uring_forbidden", ""},
    {"iommu", "whether an IOMMU translates the addresses of DMA, which may corrupt direct transfers", "", ""},
    {"kernel", "whether Linux is new enough for nvidia-fs", "", ""},
    {"kernel_modules", "whether NVIDIA's kernel modules are the open ones", "", ""},
    {"kernel_p2pdma", "whether Linux was built with what the path p2pdma needs, and is new enough", "", ""},
    {"locked_memory", "whether the process may lock enough memory for io_uring to register all bounce buffers", "", ""},
    {"none", "nothing keeps the path from being taken", "", ""},
    {"nvfs_setting", "whether PENSTOCK_NVFS lets Penstock call nvidia-fs", "nvfs_off", ""},
    {"nvidia_driver", "whether NVIDIA's kernel driver is loaded, with its device nodes", "", ""},
    {"nvidia_export", "", "pointer_not_exportable", ""},
    {"nvidia_fs", "whether the module nvidia-fs is loaded, in a version that is known", "nvfs_missing",
     "nvidia_fs_missing"},
    {"nvidia_fs_driver", "whether the versions of nvidia-fs and of NVIDIA's driver go together", "", ""},
    {"nvidia_fs_hooks", "whether a storage driver has, or may get, the hooks by which nvidia-fs reaches GPU memory", "",
     ""},
    {"nvidia_fs_kernel", "whether the version of nvidia-fs was made for this Linux", "", ""},
    {"nvidia_fs_mount", "whether nvidia-fs supports the file system", "", ""},
    {"nvidia_fs_storage", "whether the storage driver has registered with nvidia-fs", "nvfs_no_driver",
     "nvidia_fs_missing"},
    {"nvidia_fs_version", "whether Penstock knows the version of nvidia-fs", "nvfs_version", ""},
    {"nvme_target", "whether an NVMe controller over a network is live", "", ""},
    {"ofed", "whether the driver of NVIDIA's NICs (mlx5_core) is of a release that goes with what is in use", "", ""},
    {"pcie_link", "whether the PCIe link of a GPU, drive or NIC has the width and speed that it could have", "", ""},
    {"pfc", "whether a RoCE port pauses the sender of a priority (PFC) instead of losing packets", "", ""},
    {"rdma_mtu", "whether RDMA packets carry as much as the device could put into one", "", ""},
    {"rdma_port", "whether a port of an RDMA device is active, and what it is", "", ""},
    {"required_path", "whether PENSTOCK_REQUIRE names another path", "", ""},
    {"roce_v2_gid", "whether a RoCE port has an address of RoCE v2, which routers pass on", "", ""},
    {"settings", "whether a session opens with the settings of the environment and of cuFile's configuration", "", ""},
    {"storage", "which direct path may serve the files of a file system, or what keeps all from it", "stack_unseen",
     ""},
    {"system", "whether NVIDIA names this distribution for nvidia-fs", "", ""},
    {"transfer", "whether 'penstock check --try' moved every byte in that folder, and how fast", "", ""},
    {"transfer_path", "whether the bytes of 'penstock check --try' took a direct path", "", ""},
    {"transport", "whether remote storage comes by RDMA or by TCP", "", ""},
    {"udev_database", "whether NVIDIA's library finds udev's database, by which it tells drives apart",
     "vendor_refused", ""},
    {"vendor_library", "", "vendor_library_missing", ""},
    {"vendor_setting", "whether PENSTOCK_VENDOR lets Penstock call NVIDIA's library", "", ""},
};

}  // namespace

std::span<const Code> codes() { return kCodes; }

const Code* code_named(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kCodes), std::end(kCodes), [&](const Code& one) { return one.name == name; });
  return found == std::end(kCodes) ? nullptr : found;
}

}  // namespace penstock::facts
