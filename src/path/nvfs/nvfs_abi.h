// SPDX-License-Identifier: Apache-2.0

// The interface of NVIDIA's kernel module nvidia-fs, as a client in user space sees it: structures, numbers, limits,
// and which versions they hold for. Names and layout definitions are our own. Sources: the module's public source
// (github.com/NVIDIA/gds-nvidia-fs), versions 2.3.1 to 2.28.4 compared; offsets, sizes and numbers below are the same
// in all of them, unless a line says since when. Later versions were not read, so whatever the version, its interface
// is tested before its first use (nvfs_interface.h). Layouts and answers were compared with those of the module itself,
// version 2.28.4, in an emulated machine without a GPU.
//
// A mapping ("group") is a shadow buffer (mmap of a device node), a pinned range of GPU memory and a page for results
// (the fence page), bound together for life by one MAP call. READ and WRITE name the shadow buffer. The module trusts
// its caller: many bad arguments trip a kernel assertion. So only NvfsGroup (nvfs_group.h) makes these calls.
#pragma once

#include <linux/ioctl.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace penstock::core::nvfs {

// ---- Names ---------------------------------------------------------------------------------------------------------

inline constexpr const char* kNodeStem = "/dev/nvidia-fs";  // Plus a number. All nodes are equivalent.
inline constexpr unsigned kNodesMax = 16;
inline constexpr const char* kVersionFile = "/proc/driver/nvidia-fs/version";       // "version: 2.28"
inline constexpr const char* kModuleVersionFile = "/sys/module/nvidia_fs/version";  // "2.28.4"
inline constexpr const char* kModulesFile = "/proc/driver/nvidia-fs/modules";       // Empty unless a node is open.
inline constexpr const char* kStatsFile = "/proc/driver/nvidia-fs/stats";
inline constexpr const char* kKernelReleaseFile = "/proc/sys/kernel/osrelease";  // "6.12.117+deb12-cloud-amd64"

// ---- Limits --------------------------------------------------------------------------------------------------------

inline constexpr std::uint64_t kBlock = 4096;           // Alignment of file offsets, sizes and offsets in GPU memory.
inline constexpr std::uint64_t kGpuPage = 64u << 10;    // A range that begins within a GPU page must end within it.
inline constexpr std::uint64_t kShadowMax = 16u << 20;  // Limit of one mmap; above 64 KiB only multiples of 64 KiB.
inline constexpr unsigned kHolesMax = 768;

// ---- Calls ---------------------------------------------------------------------------------------------------------

// Each ioctl number encodes the size of an int, though the argument is larger. We do not use 5 to 8 (RDMA by a file
// server, batches): if one entry of a batch fails, the module frees entries that are still running.
inline constexpr unsigned long kRemove = _IOW('t', 1, int);  // Does nothing.
inline constexpr unsigned long kRead = _IOW('t', 2, int);
inline constexpr unsigned long kMap = _IOW('t', 3, int);
inline constexpr unsigned long kWrite = _IOW('t', 4, int);
static_assert(kRemove == 0x40047401 && kRead == 0x40047402 && kMap == 0x40047403 && kWrite == 0x40047404);

struct [[gnu::packed, gnu::aligned(8)]] MapArgument {
  std::int64_t gpu_bytes = 0;
  std::uint64_t gpu_pci = 0;      // domain << 32 | bus << 8 | device << 3 | function; only for statistics.
  std::uint64_t shadow = 0;       // Address of the shadow buffer.
  std::uint64_t gpu_address = 0;  // The pinned range is rounded outwards to whole GPU pages.
  std::uint64_t fence_page = 0;   // Overwritten with the error of a MAP that fails.
  std::uint32_t shadow_blocks = 0;
  std::uint16_t is_bounce_buffer = 0;  // Only affects statistics: Cache_MiB instead of Registered_MiB.
  std::uint16_t unused = 0;
};
static_assert(sizeof(MapArgument) == 48 && offsetof(MapArgument, fence_page) == 32 &&
              offsetof(MapArgument, shadow_blocks) == 40);

struct [[gnu::packed, gnu::aligned(8)]] IoArgument {
  std::uint64_t shadow = 0;  // The same as in MAP.
  std::int64_t file_offset = 0;
  std::uint64_t size = 0;
  std::uint64_t ticket = 0;      // For asynchronous requests, of which we make none.
  std::int64_t result = 0;       // Out: bytes, or a negative errno.
  std::uint64_t inode = 0;       // Not 0; must match the file, like the device below.
  std::uint32_t generation = 0;  // 0: not compared.
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  std::uint64_t gpu_offset = 0;  // Relative to the mapping's gpu_address.
  std::uint32_t unused = 0;
  std::int32_t fd = -1;    // With O_DIRECT.
  std::uint8_t flags = 0;  // kSync. The bits of a write-only file, of RDMA and of a batch's entry are never set.
  std::uint8_t unused_too[3] = {};
};
inline constexpr std::uint8_t kSync = 1;
static_assert(sizeof(IoArgument) == 80 && offsetof(IoArgument, result) == 32 &&
              offsetof(IoArgument, device_major) == 52 && offsetof(IoArgument, gpu_offset) == 60 &&
              offsetof(IoArgument, fd) == 72 && offsetof(IoArgument, flags) == 76);

// The module copies this many bytes in for every call, and out for these three (80 in 2.3, and in builds without RDMA).
// The structures above are at its beginning.
struct alignas(8) Argument {
  std::byte bytes[104] = {};

  template <typename Content>
  void put(const Content& content) {
    std::memcpy(bytes, &content, sizeof content);
  }
  template <typename Content>
  Content get() const {
    Content content;
    std::memcpy(&content, bytes, sizeof content);
    return content;
  }
};
static_assert(sizeof(Argument) == 104);

// A failed READ, WRITE or MAP returns -1 and EPERM; the true error is at offset 32.
inline constexpr int kFailed = 1;  // EPERM
// The errors of an interrupted wait (kernel-internal numbers). The mapping must not be used again.
constexpr bool is_interruption(int error) { return error == 512 || error == 513 || error == 514 || error == 516; }

// ---- The fence page ------------------------------------------------------------------------------------------------

struct Hole {
  std::uint16_t first = 0;  // First block of the hole, counted from Fence::file_offset.
  std::uint16_t count = 0;  // Blocks that DMA did not move: their bytes are in the shadow buffer.
};

// Written by the kernel; read through std::atomic_ref. The fields from `state` to `holes` are written by READs that
// meet a hole, and never cleared.
struct Fence {
  std::uint64_t ticket;  // Only for asynchronous requests, like `result`.
  std::int64_t result;
  std::uint32_t state;
  std::uint32_t unused;
  std::uint64_t magic;
  std::uint32_t meta_version;
  std::uint32_t hole_count;
  std::int64_t file_offset;
  Hole holes[kHolesMax];
  std::byte rest[4096 - 48 - 4 * kHolesMax];
};
static_assert(sizeof(Fence) == 4096 && offsetof(Fence, magic) == 24 && offsetof(Fence, hole_count) == 36 &&
              offsetof(Fence, holes) == 48);

// Values of Fence::state. kDied: the GPU memory was freed.
inline constexpr std::uint32_t kClean = 0, kSparse = 1, kDied = 2;
inline constexpr std::uint64_t kMagic = 0xabc0cba1abc2cba3;

}  // namespace penstock::core::nvfs
