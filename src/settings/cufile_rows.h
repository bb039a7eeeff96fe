// SPDX-License-Identifier: Apache-2.0

// Every key of cuFile's configuration: the keys that Penstock supports, with their meaning, and the keys without
// effect, with the reason. For table.h alone.
#pragma once

#include "settings/row.h"

namespace penstock::core {

namespace idle {
constexpr std::string_view kNoRdma = "there is no RDMA in this version";
constexpr std::string_view kNoNvidiaFs =
    "NVIDIA's library, where it is used (path vendor), reads this key itself; nothing else goes by it";
constexpr std::string_view kNoGpuCache = "no GPU memory is taken for staging";
constexpr std::string_view kOneBound =
    "PENSTOCK_BOUNCE_MIB bounds the pinned host memory of each GPU, "
    "and as much again that requests on streams may take";
constexpr std::string_view kNoPolling = "completions are waited for, never polled";
constexpr std::string_view kNoP2pdma =
    "memory that a program allocated itself cannot be offered to storage; 'penstock help p2pdma' tells what can";
constexpr std::string_view kNoTopology =
    "no path is chosen by a table of the PCIe topology: obstacles and a self-test decide for each pair";
constexpr std::string_view kNoneOfThese =
    "there is neither RDMA nor a list of known file systems or GPUs, and every buffer is checked";
constexpr std::string_view kOnePriority = "all requests have the same priority";
constexpr std::string_view kNoObjects =
    "cuObject's transfers of objects need NVIDIA's own library, and its calls are refused here";
constexpr std::string_view kNobodys =
    "neither this library nor NVIDIA's reads it; CUFILE_LOGGING_LEVEL says what cufile.log has";
constexpr std::string_view kNoMarks = "nothing is marked for NVTX; NVIDIA deprecated the key";
}  // namespace idle

constexpr SettingRow kCufileRows[] = {
    // clang-format off
    {.key = "logging.dir", .kind = SettingKind::text, .initial = "",
     .meaning = "the directory of cufile.log; without it, the one where the program runs", .form = "a directory",
     .parameter = 2},
    {.key = "logging.level", .kind = SettingKind::text, .initial = "ERROR",
     .meaning = "how much is written to cufile.log: ERROR only errors of the configuration, WARN also notes, INFO "
                "also keys without effect",
     .words = "NOTICE ERROR WARN INFO DEBUG TRACE", .variable = "CUFILE_LOGGING_LEVEL", .parameter = 0},
    {.key = "logging.max_file_size_mb", .kind = SettingKind::number, .initial = "32",
     .meaning = "the size at which cufile.log is started again; 0 and below: no limit", .low = -1, .high = 4096,
     .variable = "CUFILE_LOGFILE_MAX_SIZE_MB"},
    {.key = "call.logfile_path", .kind = SettingKind::text, .initial = "",
     .meaning = "the log itself, in place of cufile.log in logging.dir; by variable or call alone", .form = "a file",
     .variable = "CUFILE_LOGFILE_PATH", .parameter = 1},
    {.key = "profile.nvtx", .kind = SettingKind::boolean, .initial = "false", .idle = idle::kNoMarks,
     .variable = "CUFILE_NVTX", .parameter = 5},
    {.key = "profile.cufile_stats", .kind = SettingKind::number, .initial = "0",
     .meaning = "the level of cuFile's statistics when the driver opens, 0 to 3", .variable = "CUFILE_STATS_LEVEL",
     .parameter = 0},

    {.key = "execution.max_io_queue_depth", .kind = SettingKind::number, .initial = "128",
     .idle = "requests wait without a bound of their own; batches are bounded by their size", .low = 1, .high = 256,
     .parameter = 1},
    {.key = "execution.max_io_threads", .kind = SettingKind::number, .initial = "4",
     .meaning = "threads that share large requests, unless penstock.workers says how many; 0: none, and no streams",
     .high = 128, .parameter = 2},
    {.key = "execution.parallel_io", .kind = SettingKind::boolean, .initial = "true",
     .meaning = "whether threads may share a request, and whether streams are served", .parameter = 4},
    {.key = "execution.min_io_threshold_size_kb", .kind = SettingKind::number, .initial = "8192",
     .meaning = "a request is shared by no more threads than it has pieces of this size", .low = 4,
     .high = 4294967295, .parameter = 3},
    {.key = "execution.max_request_parallelism", .kind = SettingKind::number, .initial = "4",
     .meaning = "the most threads on one request, the calling one included", .high = 8,
     .parameter = 4},

    {.key = "properties.io_batchsize", .kind = SettingKind::number, .initial = "128",
     .meaning = "the most entries of a batch", .low = 1, .high = 256, .counted = "entries, not bytes",
     .aliases = "profile.io_batchsize properties.max_batch_io_size", .printed = "properties.max_batch_io_size",
     .parameter = 9},
    {.key = "properties.max_batch_io_timeout_msecs", .kind = SettingKind::number, .initial = "5",
     .idle = "completions of a batch are reported at once, so nothing waits for a tick", .low = 1, .high = 1000,
     .parameter = 11},
    {.key = "properties.max_direct_io_size_kb", .kind = SettingKind::number, .initial = "16384",
     .meaning = "for programs that call cuFile: the most that any storage operation moves, of small requests, too; it "
                "makes the chunks of penstock.chunk_kib smaller, and never larger",
     .low = 64, .high = 16384, .unit = 64, .parameter = 5},
    {.key = "properties.max_device_cache_size_kb", .kind = SettingKind::number, .initial = "131072",
     .idle = idle::kNoGpuCache, .high = 268435456, .unit = 4, .parameter = 6},
    {.key = "properties.per_buffer_cache_size_kb", .kind = SettingKind::number, .initial = "1024",
     .idle = idle::kNoGpuCache, .low = 64, .high = 16384, .parameter = 7},
    {.key = "properties.gpu_bounce_buffer_slab_config.slab_size_kb", .kind = SettingKind::numbers,
     .initial = "1024 8192 16384 65536", .idle = idle::kNoGpuCache,
     .printed = "properties.gpu_bounce_buffer_slab_size_kb"},
    {.key = "properties.gpu_bounce_buffer_slab_config.slab_count", .kind = SettingKind::numbers,
     .initial = "128 8 4 2", .idle = idle::kNoGpuCache, .printed = "properties.gpu_bounce_buffer_slab_count"},
    {.key = "properties.gpu_bounce_buffer_mode", .kind = SettingKind::boolean, .initial = "false",
     .idle = idle::kNoGpuCache},
    {.key = "properties.max_device_pinned_mem_size_kb", .kind = SettingKind::number, .initial = "33554432",
     .idle = "no GPU memory is mapped for the PCIe bus", .low = 64, .high = 268435456, .unit = 4, .or_zero = true,
     .parameter = 8},
    {.key = "properties.posix_pool_slab_size_kb", .kind = SettingKind::numbers, .initial = "4 1024 16384",
     .idle = idle::kOneBound},
    {.key = "properties.posix_pool_slab_count", .kind = SettingKind::numbers, .initial = "128 64 64",
     .idle = idle::kOneBound},
    {.key = "properties.use_poll_mode", .kind = SettingKind::boolean, .initial = "false", .idle = idle::kNoPolling,
     .parameter = 0},
    {.key = "properties.poll_mode_max_size_kb", .kind = SettingKind::number, .initial = "4",
     .idle = idle::kNoPolling, .low = 4, .high = 18014398509481980, .unit = 4, .parameter = 10},
    {.key = "properties.allow_compat_mode", .kind = SettingKind::boolean, .initial = "true",
     .meaning = "whether GPU memory may go through host memory; false: by a direct path or not at all",
     .variable = "CUFILE_ALLOW_COMPAT_MODE", .aliases = "properties.use_compat_mode",
     .printed = "properties.use_compat_mode", .parameter = 1, .forbids = true},
    {.key = "properties.force_compat_mode", .kind = SettingKind::boolean, .initial = "false",
     .meaning = "true: by the paths bounce and host alone, whatever allow_compat_mode says",
     .variable = "CUFILE_FORCE_COMPAT_MODE", .parameter = 2, .forbids = true},
    {.key = "properties.use_pci_p2pdma", .kind = SettingKind::boolean, .initial = "false", .idle = idle::kNoP2pdma,
     .variable = "CUFILE_USE_PCIP2PDMA", .parameter = 7},
    {.key = "properties.gds_rdma_write_support", .kind = SettingKind::boolean, .initial = "true",
     .idle = idle::kNoRdma},
    {.key = "properties.force_odirect_mode", .kind = SettingKind::boolean, .initial = "false",
     .meaning = "true: direct I/O always; penstock.direct_io takes precedence", .parameter = 9,
     .forbids = true},
    {.key = "properties.prefer_iouring", .kind = SettingKind::boolean, .initial = "false",
     .idle = "io_uring is used wherever the kernel allows it", .parameter = 8},
    {.key = "properties.vanilla_posix_io_mode", .kind = SettingKind::boolean, .initial = "false",
     .meaning = "true: by the paths bounce and host alone, if allow_compat_mode allows them",
     .aliases = "properties.posix_io_mode properties.vanilla_posix_mode", .parameter = 12, .forbids = true},
    {.key = "properties.gds_fallback_io", .kind = SettingKind::boolean, .initial = "false",
     .idle = idle::kNoNvidiaFs, .parameter = 13},
    {.key = "properties.allow_system_memory", .kind = SettingKind::boolean, .initial = "true",
     .meaning = "whether host memory is served; false: it is refused with 5008", .parameter = 6,
     .forbids = true},
    {.key = "properties.io_priority", .kind = SettingKind::text, .initial = "default",
     .idle = idle::kOnePriority, .words = "default low med high"},
    {.key = "properties.compat_odirect_unaligned_read_split", .kind = SettingKind::boolean, .initial = "false",
     .idle = "the aligned part of an unaligned read goes by direct I/O in any case"},
    {.key = "properties.compat_odirect_unaligned_read_split_min_size_kb", .kind = SettingKind::number,
     .initial = "128", .idle = "the aligned part of an unaligned read goes by direct I/O in any case"},
    {.key = "properties.rdma_dev_addr_list", .kind = SettingKind::texts, .initial = "", .idle = idle::kNoRdma},
    {.key = "properties.rdma_load_balancing_policy", .kind = SettingKind::text, .initial = "RoundRobin",
     .idle = idle::kNoRdma, .words = "FirstFit MaxMinFit RoundRobin RoundRobinMaxMin Randomized",
     .aliases = "properties.rdma_peer_affinity_policy"},
    {.key = "properties.rdma_dynamic_routing", .kind = SettingKind::boolean, .initial = "false",
     .idle = idle::kNoRdma},
    {.key = "properties.rdma_dynamic_routing_order", .kind = SettingKind::texts,
     .initial = "GPU_MEM_NVLINKS GPU_MEM SYS_MEM P2P", .idle = idle::kNoRdma},
    {.key = "properties.rdma_dc_key", .kind = SettingKind::text, .initial = "", .idle = idle::kNoRdma},
    {.key = "properties.rdma_access_mask", .kind = SettingKind::text, .initial = "", .idle = idle::kNoRdma},
    {.key = "properties.rdma_peer_type", .kind = SettingKind::text, .initial = "peer_mem", .idle = idle::kNoRdma},
    {.key = "properties.rdma_topN_ranks", .kind = SettingKind::number, .initial = "1", .idle = idle::kNoRdma},
    {.key = "properties.rdma_transport_type", .kind = SettingKind::text, .initial = "DC_V1", .idle = idle::kNoRdma,
     .words = "DC_V1", .parameter = 3},
    {.key = "properties.allow_rdma_token_reset", .kind = SettingKind::boolean, .initial = "false",
     .idle = idle::kNoRdma},
    {.key = "properties.rdma_multipath_enabled", .kind = SettingKind::anything, .initial = "", .idle = idle::kNoRdma},
    {.key = "properties.rdma_max_backup_devices", .kind = SettingKind::anything, .initial = "",
     .idle = idle::kNoRdma},
    {.key = "properties.rdma_io_retry_count", .kind = SettingKind::anything, .initial = "", .idle = idle::kNoRdma},
    {.key = "properties.rdma_io_retry_delay_ms", .kind = SettingKind::anything, .initial = "", .idle = idle::kNoRdma},
    {.key = "properties.rdma_failback_enabled", .kind = SettingKind::anything, .initial = "", .idle = idle::kNoRdma},
    {.key = "properties.rdma_failback_delay_ms", .kind = SettingKind::anything, .initial = "", .idle = idle::kNoRdma},
    {.key = "properties.rdma_health_check_interval_ms", .kind = SettingKind::anything, .initial = "",
     .idle = idle::kNoRdma},
    {.key = "properties.rdma_async_event_monitoring", .kind = SettingKind::anything, .initial = "",
     .idle = idle::kNoRdma},
    {.key = "properties.rdma_unhealthy_threshold", .kind = SettingKind::anything, .initial = "",
     .idle = idle::kNoRdma},

    {.key = "fs.generic.posix_unaligned_writes", .kind = SettingKind::boolean, .initial = "false",
     .meaning = "true: a write whose offset or size is not a multiple of 4096 goes through the page cache as a whole"},
    {.key = "fs.lustre.posix_gds_min_kb", .kind = SettingKind::number, .initial = "0", .idle = idle::kNoNvidiaFs},
    {.key = "fs.lustre.rdma_dev_addr_list", .kind = SettingKind::texts, .initial = "", .idle = idle::kNoRdma},
    {.key = "fs.lustre.mount_table", .kind = SettingKind::anything, .initial = "", .idle = idle::kNoRdma},
    {.key = "fs.lustre.use_pci_p2pdma", .kind = SettingKind::boolean, .initial = "false", .idle = idle::kNoP2pdma},
    {.key = "fs.beegfs.posix_gds_min_kb", .kind = SettingKind::number, .initial = "0", .idle = idle::kNoNvidiaFs},
    {.key = "fs.beegfs.rdma_dev_addr_list", .kind = SettingKind::texts, .initial = "", .idle = idle::kNoRdma},
    {.key = "fs.beegfs.mount_table", .kind = SettingKind::anything, .initial = "", .idle = idle::kNoRdma},
    {.key = "fs.beegfs.use_pci_p2pdma", .kind = SettingKind::boolean, .initial = "false", .idle = idle::kNoP2pdma},
    {.key = "fs.scatefs.posix_gds_min_kb", .kind = SettingKind::number, .initial = "0", .idle = idle::kNoNvidiaFs},
    {.key = "fs.scatefs.use_pci_p2pdma", .kind = SettingKind::boolean, .initial = "false", .idle = idle::kNoP2pdma},
    {.key = "fs.nfs.rdma_dev_addr_list", .kind = SettingKind::texts, .initial = "", .idle = idle::kNoRdma},
    {.key = "fs.nfs.mount_table", .kind = SettingKind::anything, .initial = "", .idle = idle::kNoRdma},
    {.key = "fs.nfs.use_pci_p2pdma", .kind = SettingKind::boolean, .initial = "false", .idle = idle::kNoP2pdma},
    {.key = "fs.gpfs.rdma_dev_addr_list", .kind = SettingKind::texts, .initial = "", .idle = idle::kNoRdma},
    {.key = "fs.gpfs.mount_table", .kind = SettingKind::anything, .initial = "", .idle = idle::kNoRdma},
    {.key = "fs.gpfs.use_pci_p2pdma", .kind = SettingKind::boolean, .initial = "false", .idle = idle::kNoP2pdma},
    {.key = "fs.gpfs.gds_write_support", .kind = SettingKind::boolean, .initial = "false", .idle = idle::kNoNvidiaFs},
    {.key = "fs.gpfs.gds_async_support", .kind = SettingKind::boolean, .initial = "true", .idle = idle::kNoNvidiaFs},
    {.key = "fs.weka.rdma_write_support", .kind = SettingKind::boolean, .initial = "false", .idle = idle::kNoRdma},
    {.key = "fs.weka.rdma_dev_addr_list", .kind = SettingKind::texts, .initial = "", .idle = idle::kNoRdma},
    {.key = "fs.weka.mount_table", .kind = SettingKind::anything, .initial = "", .idle = idle::kNoRdma},
    {.key = "fs.virtiofs.use_pci_p2pdma", .kind = SettingKind::boolean, .initial = "false", .idle = idle::kNoP2pdma},

    {.key = "block.nvme.use_pci_p2pdma", .kind = SettingKind::boolean, .initial = "false", .idle = idle::kNoP2pdma},
    {.key = "block.nvmeof.use_pci_p2pdma", .kind = SettingKind::boolean, .initial = "false", .idle = idle::kNoP2pdma},
    {.key = "block.raid.use_pci_p2pdma", .kind = SettingKind::boolean, .initial = "false", .idle = idle::kNoP2pdma},
    {.key = "block.raid1.use_pci_p2pdma", .kind = SettingKind::boolean, .initial = "false", .idle = idle::kNoP2pdma},
    {.key = "block.raid10.use_pci_p2pdma", .kind = SettingKind::boolean, .initial = "false", .idle = idle::kNoP2pdma},

    {.key = "denylist.drivers", .kind = SettingKind::texts, .initial = "",
     .meaning = "storage drivers whose files are barred from direct paths", .aliases = "blacklist.drivers",
     .forbids = true},
    {.key = "denylist.devices", .kind = SettingKind::texts, .initial = "",
     .meaning = "block devices whose files are barred from direct paths", .aliases = "blacklist.devices",
     .forbids = true},
    {.key = "denylist.mounts", .kind = SettingKind::texts, .initial = "",
     .meaning = "mounts whose files are barred from direct paths", .aliases = "blacklist.mounts",
     .forbids = true},
    {.key = "denylist.filesystems", .kind = SettingKind::texts, .initial = "",
     .meaning = "file systems whose files are barred from direct paths", .aliases = "blacklist.filesystems",
     .forbids = true},

    {.key = "sparse.p2p_compat_enable", .kind = SettingKind::boolean, .initial = "true", .idle = idle::kNoP2pdma},
    {.key = "sparse.min_p2pdma_threshold_kb", .kind = SettingKind::number, .initial = "8", .idle = idle::kNoP2pdma},

    {.key = "miscellaneous.api_check_aggressive", .kind = SettingKind::boolean, .initial = "false",
     .idle = "every argument of every call is checked in any case", .aliases = "fs.misc.api_check_aggressive",
     .parameter = 3},
    {.key = "miscellaneous.skip_topology_detection", .kind = SettingKind::boolean, .initial = "false",
     .idle = idle::kNoTopology, .variable = "CUFILE_SKIP_TOPOLOGY_DETECTION", .parameter = 10},
    {.key = "miscellaneous.stream_memops_bypass", .kind = SettingKind::boolean, .initial = "false",
     .meaning = "true: a stream is held by a host function that waits, not by a wait for a value",
     .variable = "CUFILE_STREAM_MEMOPS_BYPASS", .parameter = 11},
    {.key = "miscellaneous.enable_static_routing", .kind = SettingKind::boolean, .initial = "false",
     .idle = idle::kNoTopology, .aliases = "sparse.enable_static_routing"},
    {.key = "miscellaneous.static_routing_filepath", .kind = SettingKind::text, .initial = "/etc/topology.json",
     .idle = idle::kNoTopology, .aliases = "sparse.static_routing_filepath"},
    {.key = "miscellaneous.enable_static_config", .kind = SettingKind::boolean, .initial = "false",
     .idle = idle::kNoTopology},
    {.key = "miscellaneous.static_config_filepath", .kind = SettingKind::text, .initial = "",
     .idle = idle::kNoTopology},
    {.key = "miscellaneous.rdma_token_reset_timeout_secs", .kind = SettingKind::number, .initial = "30",
     .idle = idle::kNoRdma},
    // clang-format on
};

// A variable that NVIDIA's library knows, or is said to know, and that has no effect here, with the reason.
struct IdleVariable {
  const char* name;
  std::string_view reason;
};

constexpr IdleVariable kIdleVariables[] = {{"CUFILE_VISIBLE_DEVICES", idle::kNoneOfThese},
                                           {"CUFILE_SKIP_BUFFER_VALIDITY_CHECK", idle::kNoneOfThese},
                                           {"CUFILE_RDMA_ALLOW_RDMA_TOKEN_RESET", idle::kNoneOfThese},
                                           {"CUFILE_RDMA_TOKEN_RESET_TIMEOUT_SECS", idle::kNoneOfThese},
                                           {"CUFILE_IB_SL", idle::kNoneOfThese},
                                           {"CUFILE_CQ_DEPTH", idle::kNoneOfThese},
                                           {"CUFILE_ENV_EXPERIMENTAL_FS", idle::kNoneOfThese},
                                           {"CUFILE_EXPERIMENTAL_FS", idle::kNoneOfThese},
                                           {"CUFILE_ETH_SL", idle::kNoneOfThese},
                                           {"CUFILE_MIN_RNR_TIMER", idle::kNoneOfThese},
                                           {"CUFILE_RDMA_DC_KEY", idle::kNoneOfThese},
                                           {"CUFILE_RDMA_HOP_LIMIT", idle::kNoneOfThese},
                                           {"CUFILE_RDMA_PKEY_INDEX", idle::kNoneOfThese},
                                           {"CUFILE_RDMA_SR_MAX_WR", idle::kNoneOfThese},
                                           {"CUFILE_RDMA_SR_MAX_SGE", idle::kNoneOfThese},
                                           {"CUFILE_MAX_DEVICE_CACHE_SIZE", idle::kNoGpuCache},
                                           {"CUFILE_PER_BUFFER_CACHE_SIZE", idle::kNoGpuCache},
                                           {"CUFILE_IO_PRIORITY", idle::kOnePriority},
                                           {"GDS_LOG_LEVEL", idle::kNobodys},
                                           {"CUFILE_DMABUF_ENABLE", idle::kNoRdma},  // It sets rdma_peer_type.
                                           // cuObject reads these. It shares the library of cuFile 1.20.
                                           {"CUOBJ_DMABUF_ENABLE", idle::kNoObjects},
                                           {"CUOBJ_ENV_PATH_JSON", idle::kNoObjects},
                                           {"CUOBJ_IO_PRIORITY", idle::kNoObjects},
                                           {"CUOBJ_LOGFILE_MAX_SIZE_MB", idle::kNoObjects},
                                           {"CUOBJ_LOGGING_LEVEL", idle::kNoObjects},
                                           {"CUOBJ_MAX_DEVICE_CACHE_SIZE", idle::kNoObjects},
                                           {"CUOBJ_PER_BUFFER_CACHE_SIZE", idle::kNoObjects},
                                           {"CUOBJ_RDMA_ALLOW_RDMA_TOKEN_RESET", idle::kNoObjects},
                                           {"CUOBJ_RDMA_DC_KEY", idle::kNoObjects},
                                           {"CUOBJ_RDMA_TOKEN_RESET_TIMEOUT_SECS", idle::kNoObjects},
                                           {"CUOBJ_STATS_LEVEL", idle::kNoObjects},
                                           {"CUOBJ_STREAM_MEMOPS_BYPASS", idle::kNoObjects},
                                           {"CUOBJ_VISIBLE_DEVICES", idle::kNoObjects}};

}  // namespace penstock::core
