// SPDX-License-Identifier: Apache-2.0

// Penstock's own settings. In the environment each is PENSTOCK_ and its name in capitals, in penstock_config_set() its
// name, and in a cufile.json, which programs of cuFile read, a key of section "penstock". For table.h alone.
#pragma once

#include "device/placement.h"
#include "settings/row.h"

namespace penstock::core {

// Names from other tables, separated by blanks: the paths that a list may name, the paths that may be required, and the
// kinds of devices that a session may have.
std::string_view listed_paths();
std::string_view required_paths();
std::string_view device_kinds();

// "auto" stands for the best that there is; in a list it must be alone.
constexpr SettingRow kPenstockRows[] = {
    // clang-format off
    {.key = "penstock.paths", .kind = SettingKind::texts, .initial = "auto",
     .meaning = "the paths that may be taken, best first; auto: all that move bytes", .choices = listed_paths,
     .variable = "PENSTOCK_PATHS", .forbids = true},
    {.key = "penstock.require", .kind = SettingKind::text, .initial = "",
     .meaning = "the one path that may serve; a request that would take another fails", .choices = required_paths,
     .variable = "PENSTOCK_REQUIRE", .forbids = true},
    {.key = "penstock.device", .kind = SettingKind::texts, .initial = "auto",
     .meaning = "which devices a session has, in this order; auto: GPUs where there are any, else host memory that "
                "stands in for one",
     .choices = device_kinds, .variable = "PENSTOCK_DEVICE"},
    {.key = "penstock.direct_io", .kind = SettingKind::text, .initial = "auto",
     .meaning = "whether storage is read and written around the page cache; auto: where the descriptor has O_DIRECT, "
                "and for large reads of data that is not cached",
     .words = "auto always never", .variable = "PENSTOCK_DIRECT_IO", .forbids = true},
    {.key = "penstock.policy", .kind = SettingKind::text, .initial = "balanced",
     .meaning = "what matters more where more speed costs more CPU time: speed, or CPU time",
     .words = "throughput balanced cpu", .variable = "PENSTOCK_POLICY"},
    {.key = "penstock.registration_cache_mib", .kind = SettingKind::number, .initial = "0",
     .otherwise = "a quarter of the memory of the machine or container",
     .meaning = "the most that is registered with GPUs of files in the page cache; 0: nothing",
     .high = 16777216, .variable = "PENSTOCK_REGISTRATION_CACHE_MIB", .former = "PENSTOCK_KEPT_MIB"},
    {.key = "penstock.io_uring", .kind = SettingKind::text, .initial = "auto",
     .meaning = "whether io_uring is used; auto: where the kernel allows it; off: preadv2 and pwritev2 in its place",
     .words = "auto off", .variable = "PENSTOCK_IO_URING"},
    {.key = "penstock.bounce_mib", .kind = SettingKind::number, .initial = "256",
     .meaning = "the most pinned host memory for bounce buffers of each device, and of host memory; requests on "
                "streams may take as much again",
     .low = 1, .high = 65536, .variable = "PENSTOCK_BOUNCE_MIB", .former = "PENSTOCK_RING_MIB"},
    {.key = "penstock.chunk_kib", .kind = SettingKind::number, .initial = "4096",
     .meaning = "the size of the chunks that a large request is cut into: one storage operation moves one chunk at "
                "most; for cuFile, properties.max_direct_io_size_kb may make it smaller",
     .low = 64, .high = 1048576, .unit = 64, .variable = "PENSTOCK_CHUNK_KIB"},
    {.key = "penstock.workers", .kind = SettingKind::number, .initial = "1",
     .otherwise = "one for each core of this rank's share, up to 8, or 16 under policy throughput",
     .meaning = "threads that share large requests; programs of cuFile have execution.max_io_threads unless it is set",
     .low = 1, .high = 256, .variable = "PENSTOCK_WORKERS"},
    {.key = "penstock.placement", .kind = SettingKind::text, .initial = "auto",
     .meaning = "where the library's threads run and its pinned memory lies; auto: on the NUMA node of the GPU that "
                "they work for; off: wherever the kernel puts them; node: on a NUMA node, for every GPU and for host "
                "memory; cpus: on these CPUs, and memory on their node where they have one in common. "
                "If the process may not use the node or the CPUs, no session opens. A memory policy of numactl takes "
                "precedence",
     .form = "auto, off, node:N or cpus:LIST, as node:1 or cpus:0-15,32-47", .takes = is_placement,
     .variable = "PENSTOCK_PLACEMENT"},
    {.key = "penstock.nvidia_export", .kind = SettingKind::boolean, .initial = "false",
     .meaning = "whether memory that Penstock allocates on an NVIDIA GPU is offered to storage; experimental",
     .variable = "PENSTOCK_NVIDIA_EXPORT"},
    {.key = "penstock.dmabuf", .kind = SettingKind::boolean, .initial = "false",
     .meaning = "whether raw drives reach GPU memory by dma-bufs of io_uring, on a kernel that has them; experimental: "
                "not yet seen on hardware",
     .variable = "PENSTOCK_DMABUF"},
    {.key = "penstock.dmabuf_files", .kind = SettingKind::boolean, .initial = "false",
     .meaning = "whether files on ext4 and XFS are read so, too, from where they lie on their drive; the process needs "
                "the right to read the drive's node, which opens every file on it",
     .variable = "PENSTOCK_DMABUF_FILES"},
    {.key = "penstock.dmabuf_write", .kind = SettingKind::boolean, .initial = "false",
     .meaning = "whether a KV store's own file, and no other, is also written so; the process needs the right to write "
                "the drive's node",
     .variable = "PENSTOCK_DMABUF_WRITE"},
    {.key = "penstock.scratch", .kind = SettingKind::text, .initial = "",
     .meaning = "what self-tests of the same storage may overwrite", .form = "a file or partition",
     .variable = "PENSTOCK_SCRATCH"},
    {.key = "penstock.nvfs", .kind = SettingKind::text, .initial = "off",
     .meaning = "whether Penstock itself calls the kernel module nvidia-fs; experimental: it was not yet run beside "
                "NVIDIA's; auto: unless it is unknown whether the module crashes a machine with this kernel; standin: "
                "also a module for tests, which calls itself nvidia-fs 0.x",
     .words = "off auto on standin", .variable = "PENSTOCK_NVFS"},
    {.key = "penstock.vendor", .kind = SettingKind::text, .initial = "auto",
     .meaning = "when NVIDIA's library is used; auto: where its self-test shows that it is direct; force: also where "
                "it is not, which is reported as vendor_not_direct; off: never",
     .words = "auto force off", .variable = "PENSTOCK_VENDOR"},
    {.key = "penstock.vendor_library", .kind = SettingKind::text, .initial = "",
     .otherwise = "where the CUDA toolkit has it",
     .meaning = "the file of NVIDIA's library", .form = "an absolute path", .absolute = true,
     .variable = "PENSTOCK_VENDOR_LIBRARY"},
    {.key = "penstock.cufile_version", .kind = SettingKind::text, .initial = "1.15",
     .meaning = "the version of cuFile whose answers libcufile gives where versions differ; with 1.20 the structures "
                "of statistics are 112 bytes longer, so choose it only for programs that were built for 1.19 or later",
     .words = "1.15 1.20", .variable = "PENSTOCK_CUFILE_VERSION"},
    {.key = "penstock.report", .kind = SettingKind::text, .initial = "",
     .meaning = "where a process writes its report whenever its last session closes and when it exits: the bytes "
                "that it moved, by which paths and why, of which files and in what time; in a file's name %p is the "
                "process's number, and a name that ends in .json asks for JSON",
     .form = "stderr or a file", .variable = "PENSTOCK_REPORT"},
    // clang-format on
};

}  // namespace penstock::core
