// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* A stand-in for the kernel module nvidia-fs: what its files share. README.md says what it is good for.
 *
 * The interface is that of NVIDIA's module as its published source (versions 2.3 to 2.28) defines it: numbers, layouts,
 * the order of checks and their codes. The code is our own. Where that module would stop the kernel by an assertion,
 * this one kills the caller, and counts it.
 *
 * "GPU memory" is memory that a PCI device offers for peer-to-peer DMA, mapped into the caller; requests are direct I/O
 * of the file itself on those pages, so that a drive's DMA engine moves the bytes. */
#pragma once

#include <linux/bitmap.h>
#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/mm.h>
#include <linux/types.h>

/* It names itself with a major version that no release of NVIDIA's has. */
#define STANDIN_VERSION "0.1.0"
#define STANDIN_SHORT_VERSION "0.1"

enum {
  kBlock = 4096,
  kGpuPage = 65536,
  kShadowBlocksMax = 4096, /* 16 MiB. */
  kSector = 512,
  kSectorsOfBlock = kBlock / kSector,
  kHolesMax = 768,
  kDevicesMax = 16,
  kArgumentBytes = 104,
};

/* _IOW('t', number, int), though the argument is larger. */
#define STANDIN_REMOVE 0x40047401u
#define STANDIN_READ 0x40047402u
#define STANDIN_MAP 0x40047403u
#define STANDIN_WRITE 0x40047404u

#define PACKED __attribute__((packed, aligned(8)))

struct map_argument {
  s64 size;
  u64 device;
  u64 shadow;
  u64 gpu;
  u64 fence; /* Holds the error afterwards. */
  u32 shadow_blocks;
  u16 is_bounce_buffer;
  u8 padding[2];
} PACKED;

struct io_argument {
  u64 shadow;
  s64 offset;
  u64 size;
  u64 ticket;
  s64 result;
  u64 inode;
  u32 generation;
  u32 major;
  u32 minor;
  u8 gpu_offset[8]; /* A u64 that is not aligned. */
  u8 padding[4];
  s32 fd;
  u8 bits; /* 0 sync, 1 hipri, 2 allowreads. */
  u8 more_padding[3];
} PACKED;

union argument {
  struct map_argument map;
  struct io_argument io;
  u8 bytes[kArgumentBytes];
};

struct hole {
  u16 first, blocks;
};

struct fence {
  u64 ticket;
  s64 result;
  u32 state; /* 0 clean, 1 sparse. */
  u32 padding;
  u64 magic;
  u32 version;
  u32 nholes;
  s64 start;
  struct hole holes[kHolesMax];
};

#define FENCE_MAGIC 0xabc0cba1abc2cba3ull

static_assert(sizeof(struct map_argument) == 48 && sizeof(struct io_argument) == 80);
static_assert(offsetof(struct io_argument, gpu_offset) == 60 && offsetof(struct io_argument, fd) == 72);
static_assert(offsetof(struct fence, holes) == 48 && sizeof(struct fence) <= kBlock);

enum group_state { kFree, kInit, kReady, kInProgress, kDead, kTerminating };

/* A shadow buffer with the GPU memory and the fence page that MAP tied to it. */
struct group {
  struct kref references; /* The mapping's, and one for each request. */
  atomic_t state;
  struct page** shadow;
  unsigned long shadow_pages;
  struct page** gpu; /* From the boundary of 64 KiB at or before gpu_address. */
  unsigned long gpu_pages;
  u64 gpu_address;
  s64 gpu_size;
  struct page* fence_page;
  struct fence* fence;
  bool is_async;       /* Of the request in flight. */
  bool is_interrupted; /* NVIDIA's module must not see it again. */
  bool is_leaked;      /* NVIDIA's module would keep it for ever; this one does until it is unloaded. */
  struct list_head leaked;
};

/* Settings below /sys/module/nvidia_fs/parameters, for root. params.c says what each does. */
extern bool hooked, unloading, async_inline, rw_stats_enabled, peer_stats_enabled;
extern uint hole_every, unhook_after, fault_map, fault_io, fault_short, fault_after, fault_times, async_delay_ms,
    sync_delay_ms, bar1_kib;

/* What is counted; since the module was loaded, or a `write` of anything to its file `stats`. */
struct counters {
  atomic64_t opens, maps, maps_ok, maps_failed, unmaps, bar1_ok, bar1_failed, bar1_freed;
  atomic64_t reads, reads_ok, reads_failed, read_bytes, read_state_errors, sparse_reads, hole_regions, hole_blocks;
  atomic64_t writes, writes_ok, writes_failed, written_bytes, write_state_errors, cache_retries;
  atomic64_t direct_read_bytes, direct_written_bytes, shadow_bytes, assertions;
  atomic64_t async_alone; /* Asynchronous requests of processes with one thread, whose file nothing would hold. */
  atomic64_t lost_pins;   /* Mappings closed under an asynchronous request, whose GPU memory stays pinned. */
};
extern struct counters counted;
/* Of now. */
extern atomic64_t open_files, shadow_pages_now, gpu_pages_now, leaked_groups, reads_now, writes_now;
extern u64 last_device;

/* Where NVIDIA's module would stop the kernel. */
void would_assert(const char* what);

/* group.c: shadow buffers and MAP. */
int map_shadow(struct file* file, struct vm_area_struct* area);
struct group* find_group(u64 shadow);
void put_group(struct group* group);
void leak(struct group* group);
bool change_state(struct group* group, enum group_state from, enum group_state to);
int map_gpu(struct map_argument* argument);
void free_leaked_groups(void);

/* transfer.c: READ and WRITE after their checks. The request is consumed. */
struct request {
  struct group* group;
  struct file* file;
  s64 offset;
  u64 size;
  u64 gpu_at; /* From the first pinned page on. */
  u64 ticket;
  bool writes, is_async;
  s64 file_system_said; /* Of an asynchronous request: what its call answers where it ends at once. */
  struct work_struct work;
  /* What does not reach the device. A file system works by blocks of its own, which may be as small as a sector. */
  DECLARE_BITMAP(shadowed, kShadowBlocksMax* kSectorsOfBlock);
};
s64 perform(struct request* request);
int start_transfers(void);
void stop_transfers(void);

/* check.c */
s64 read_or_write(struct io_argument* argument, bool writes);

/* report.c: /proc/driver/nvidia-fs. */
int start_reports(void);
void stop_reports(void);
