// SPDX-License-Identifier: Apache-2.0

// The meaning of lines that the GPU operator's containers, cuFile, nvidia-fs and Kubernetes itself write into logs. For
// log_findings.cc and the code that prints them. A row matches a line that contains all of its words, in any case; the
// first row that does so counts.
#pragma once

#include <array>

namespace penstock::tools {

struct LogCause {
  const char* id;
  std::array<const char*, 3> words;  // Null for fewer words.
  const char* meaning;
  const char* remedy;  // Only a reason of Penstock's may have "".
  const char* source;
};

constexpr LogCause kLogCauses[] = {
    // clang-format off
    // ---- NVIDIA's cuFile, in cufile.log or a pod's own log.
    {"nvme_without_hooks", {"nvme driver not registered with nvidia-fs"},
     "nvidia-fs is loaded, but the node's NVMe driver has none of its hooks, as kernels of distributions have it",
     "boot Ubuntu's linux-nvidia kernel, or install DOCA-OFED with its NVMe driver on the host; else take p2pdma or "
     "bounce, in a cluster by penstock-k8s render --path p2pdma",
     "NVIDIA/gds-nvidia-fs#31"},
    {"nvidia_fs_not_loaded", {"nvidia-fs.ko driver not loaded"},
     "the node has no module nvidia_fs, so NVIDIA's library copies through the processor, or fails",
     "load it on the host (modprobe nvidia-fs), or in a cluster set gds.enabled in the operator's values, where the "
     "node's system has an image of it; p2pdma and bounce need none",
     "NVIDIA/gds-nvidia-fs#31"},
    {"compat_mode", {"running in compatible mode"},
     "NVIDIA's library copies through the processor from here on",
     "the lines before it say why; properties.allow_compat_mode: false in cufile.json makes it fail instead",
     "NVIDIA/gds-nvidia-fs#31"},
    {"compat_mode", {"using cufile posix read/write with compat mode"},
     "NVIDIA's library copies this file through the processor",
     "the lines before it say why; properties.allow_compat_mode: false in cufile.json makes it fail instead",
     "NVIDIA/gds-nvidia-fs#31"},
    {"file_not_supported", {"gpudirect storage not supported on current file"},
     "NVIDIA's library takes neither this file's file system nor its drive",
     "use XFS, or ext4 that shows data=ordered, on an NVMe drive with nvidia-fs's hooks; 'penstock explain FILE' names "
     "what is missing",
     "tinygrad/open-gpu-kernel-modules#51"},
    {"file_not_registered", {"cufilehandleregister error"},
     "NVIDIA's library refuses the file: it follows from what the lines before it name",
     "mend what they name; 'penstock explain FILE' says what is missing of the file's drive and file system",
     "tinygrad/open-gpu-kernel-modules#51"},
    {"no_block_device", {"error creating udev_device for block device", "dev_no: 0:"},
     "the file lies on no block device: on a container's overlay, or on a file system that NVIDIA's library does not "
     "know",
     "put it on ext4 or XFS on an NVMe drive; in a container, on a volume", "LMCache/LMCache#795"},
    {"no_block_device", {"volume attributes", "dev_no: 0:"},
     "the file lies on no block device: on a container's overlay, or on a file system that NVIDIA's library does not "
     "know",
     "put it on ext4 or XFS on an NVMe drive; in a container, on a volume", "NVIDIA/gds-nvidia-fs#62"},
    {"no_udev_record", {"volume attributes", "dev_no:"},
     "NVIDIA's library cannot read the block device's attributes from udev's data base (/run/udev/data), as in a "
     "container without it",
     "run udevd, or mount the host's /run/udev into the container, read-only; Penstock's own paths need no udev",
     "LMCache/LMCache#795"},
    {"no_udev_record", {"udev property not found", "id_fs_usage"},
     "NVIDIA's library cannot read the block device's attributes from udev's data base (/run/udev/data), as in a "
     "container without it",
     "run udevd, or mount the host's /run/udev into the container, read-only; Penstock's own paths need no udev",
     "LMCache/LMCache#795"},
    {"no_liburcu", {"unable to load", "liburcu-bp"},
     "NVIDIA's library tries liburcu-bp by several names, and there is none by this one",
     "install it if all of them failed: liburcu8 (Debian, Ubuntu), userspace-rcu (Red Hat); Penstock does not use it",
     "rapidsai/kvikio#508"},
    {"block_device_not_supported", {"unsupported block device", "/dev/dm-"},
     "the file lies on LVM or another device mapper, which NVIDIA's library does not pass",
     "put the file system on the drive or a partition of it", "NVIDIA/gds-nvidia-fs#62"},
    {"peermem_not_loaded", {"nvidia_peermem.ko is not loaded"},
     "NVIDIA's library does without RDMA of its own; local drives do not need it",
     "for a distributed file system load it: modprobe nvidia-peermem", "NVIDIA/gds-nvidia-fs#4"},
    {"bar_used_up", {"inc-bar-usage failed"},
     "more GPU memory is registered than its BAR can show",
     "register less at a time, or lower properties.max_device_pinned_mem_size_kb",
     "NVIDIA/gds-nvidia-fs#4"},
    {"no_gpu_in_container", {"cuda_error_no_device"},
     "the container sees no GPU",
     "give it one: docker run --gpus all, or of a pod resources.limits nvidia.com/gpu: 1",
     "NVIDIA/gds-nvidia-fs#31"},
    {"no_nvidia_fs_device", {"/dev/nvidia-fs", "no such file"},
     "the container has no device of nvidia-fs",
     "give it /dev/nvidia-fs*; of a pod set NVIDIA_GDS=enabled in env, and enable gds of the device plugin",
     "NVIDIA/nvidia-container-toolkit#567"},

    // ---- The GPU operator's containers.
    {"p2p_symbols", {"unknown symbol", "nvidia_p2p_"},
     "nvidia-fs finds no symbols of NVIDIA's driver: its proprietary module, or one that was built for another kernel",
     "install the driver's open modules; in a cluster set kernelModuleType: open, and let its pod build anew",
     "NVIDIA/gds-nvidia-fs#34"},
    {"p2p_symbols", {"nvidia_p2p_", "undefined!"},
     "nvidia-fs was built where the driver's symbols could not be found",
     "install the driver's open modules; in a cluster set kernelModuleType: open, and let its pod build anew",
     "NVIDIA/gds-nvidia-fs#72"},
    {"waits_for_ofed", {"waiting for mofed to be installed"},
     "the driver's pod waits for the network operator's driver, without end: until then the node has no GPU",
     "install it (NicClusterPolicy with ofedDriver), set driver.rdma.useHostMofed for one on the host, or "
     "driver.rdma.enabled: false",
     "source of k8s-driver-manager"},
    {"open_modules_needed", {"useopenkernelmodules"},
     "this release of nvidia-fs needs the driver's open modules; the message's option has had no effect since v25.3.0",
     "set kernelModuleType: open; with an NVIDIADriver auto is refused, too",
     "source of the GPU operator"},
    {"peermem_refused", {"nvidia_peermem", "invalid argument"},
     "the network driver was replaced under a loaded nvidia_peermem",
     "delete the driver's pod on this node, so that it is built anew; DMA-BUF needs no nvidia_peermem",
     "NVIDIA/gpu-operator#2868"},
    {"compiler_missing", {"gcc-12", "not found"},
     "nvidia-fs-ctr does not find the compiler that the kernel was built with",
     "add /run/nvidia/driver/usr/bin to PATH by gds.env",
     "NVIDIA/gpu-operator#1849"},
    {"gds_image_missing", {"nvidia-fs", "imagepullbackoff"},
     "there is no image of nvidia-fs for this node's system, and the node has no GPUs until the pod is ready",
     "set gds.enabled: false, or use nodes with Ubuntu 22.04, 24.04 or OpenShift",
     "NVIDIA/gpu-operator#2911"},
    {"gds_image_missing", {"nvidia-gds-driver", "not found"},
     "this image of nvidia-fs holds no installer for the node's system",
     "set gds.enabled: false, or use nodes with Ubuntu 22.04, 24.04 or OpenShift",
     "NVIDIA/gpu-operator#2416"},
    {"storage_modules_loaded", {"unload_storage_modules"},
     "the network operator's driver stops, since modules of the node's storage are loaded that it must replace",
     "set UNLOAD_STORAGE_MODULES=true in ofedDriver.env, where no storage of the node is mounted by them",
     "source of the DOCA-OFED driver container"},

    // ---- Kubernetes.
    {"pod_security", {"violates podsecurity"},
     "the namespace allows fewer rights than the pod asks for; the message ends with which",
     "Penstock's workloads need none ('restricted'): penstock-k8s render; else label the namespace with the level",
     "https://kubernetes.io/docs/concepts/security/pod-security-standards/"},
    {"schema", {"unknown field", "spec."},
     "the API server does not know the key",
     "penstock-k8s lint FILE names the right one", "what an API server answers"},
    {"schema", {"required value", "spec."},
     "the object lacks a key that the API server demands",
     "penstock-k8s lint FILE names all of them", "what an API server answers"},
    {"no_operator", {"no matches for kind", "clusterpolicy"},
     "the GPU operator is not installed, or not its definitions",
     "install the operator first", "what an API server answers"},
    {"no_operator", {"no matches for kind", "nicclusterpolicy"},
     "the network operator is not installed, or not its definitions",
     "install the operator first", "what an API server answers"},
    {"seccomp_profile_missing", {"seccomp profile", "no such file"},
     "the node does not have the seccomp profile that the pod names",
     "copy deploy/seccomp/penstock.json to /var/lib/kubelet/seccomp/profiles/ on each node",
     "https://kubernetes.io/docs/tutorials/security/seccomp/"},
    {"io_uring_forbidden", {"io_uring", "operation not permitted"},
     "the container's seccomp profile forbids io_uring, as the default ones of containerd 2, Docker 25 and CRI-O do",
     "nothing has to be done: Penstock uses preadv2; deploy/seccomp has a profile that allows io_uring",
     "containerd#9320, moby/moby#46762"},
    {"mount_option", {"mount", "bad option"},
     "the volume's mount options are not those of its file system",
     "use data=ordered for ext4 alone, and proto=rdma for NFS alone; XFS needs none", "mount(8)"},
    {"memlock", {"ibv_reg_mr", "cannot allocate memory"},
     "the container may lock too little memory for RDMA, and IPC_LOCK counts only for user 0",
     "raise LimitMEMLOCK of the container runtime's service on the node", "NVIDIA/nvidia-container-toolkit#2037"},
    {"gpu_short", {"insufficient nvidia.com/gpu"},
     "no node has a free GPU", "wait, or look whether the device plugin runs on the GPU nodes", "kube-scheduler"},
    {"gpu_taint", {"untolerated taint", "nvidia.com/gpu"},
     "the GPU nodes keep away pods that do not tolerate their taint",
     "add tolerations: key nvidia.com/gpu, operator Exists", "kube-scheduler"},
    {"out_of_memory", {"oomkilled"},
     "the container used more memory than its limit; the page cache counts into it only while it cannot be dropped",
     "raise the limit, or lower PENSTOCK_BOUNCE_MIB", "kubelet"},
    // clang-format on
};

}  // namespace penstock::tools
