// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* Moves the bytes: direct I/O of the file on the pages of the device, so that the drive's DMA engine reaches them.
 * Where NVIDIA's module would find no hook, the same on the pages of the shadow buffer. */
#include <linux/bvec.h>
#include <linux/delay.h>
#include <linux/falloc.h>
#include <linux/file.h>
#include <linux/fileattr.h>
#include <linux/magic.h>
#include <linux/pagemap.h>
#include <linux/slab.h>
#include <linux/uio.h>
#include <linux/workqueue.h>

#include "standin.h"

atomic64_t reads_now, writes_now;

static struct workqueue_struct* transfers;

/* ---- Faults. ---- */

/* Whether this request is one that has to fail. */
static bool is_faulty(void) {
  if (!fault_io && !fault_short) return false;
  if (fault_after) {
    --fault_after;
    return false;
  }
  if (fault_times && --fault_times == 0) {
    pr_info("nvidia_fs stand-in: the last fault\n");
    fault_io = fault_short = 0;
    return true;
  }
  return true;
}

/* ---- What goes to the device. ---- */

/* Of the file's bytes in [from, to), which a chunk that begins at `start` has. */
static void keep_in_shadow(struct request* request, s64 start, loff_t from, loff_t to) {
  if (to > from) bitmap_set(request->shadowed, (from - start) / kSector, (to - from) / kSector);
}

/* Bytes that a file system fills with zeros itself: what lies in a hole, or was never written. It has blocks of its
 * own, and where these are smaller than ours, one of ours may hold data and zeros: the zeros stay beside the device. */
static void find_unwritten(struct request* request, s64 start, unsigned int blocks) {
  const loff_t end = start + (loff_t)blocks * kBlock;
  const loff_t size = i_size_read(file_inode(request->file));
  struct file* looker = dentry_open(&request->file->f_path, O_RDONLY | O_LARGEFILE, current_cred());
  loff_t at = start;

  if (IS_ERR(looker)) return;
  while (at < end) {
    loff_t data = vfs_llseek(looker, at, SEEK_DATA);
    if (data == -ENXIO) data = round_up(size, kBlock);
    if (data < 0) break;
    data = min(data, end);
    keep_in_shadow(request, start, at, data);
    at = vfs_llseek(looker, data, SEEK_HOLE);
    if (at < 0) break;
    if (at >= size) at = round_up(at, kBlock); /* The rest of the last block goes where its data goes. */
  }
  fput(looker);
}

/* Where in [start, end) a write begins to go through the page cache; `end` if nowhere. ext4 does that with files that
 * have no extents, from the first hole on, and is done with all of it when its call returns. */
static loff_t first_cached(const struct request* request, loff_t start, loff_t end) {
  const struct inode* inode = file_inode(request->file);
  struct file_kattr attributes = {};
  loff_t hole;

  if (!S_ISREG(inode->i_mode) || inode->i_sb->s_magic != EXT4_SUPER_MAGIC) return end;
  if (vfs_fileattr_get(request->file->f_path.dentry, &attributes) || (attributes.flags & FS_EXTENT_FL)) return end;
  hole = vfs_llseek(request->file, start, SEEK_HOLE);
  return hole < start || hole >= i_size_read(inode) ? end : min(hole, end);
}

static void choose_sectors(struct request* request, s64 start, unsigned int blocks) {
  const loff_t end = start + (loff_t)blocks * kBlock;
  unsigned int i;

  bitmap_zero(request->shadowed, kShadowBlocksMax * kSectorsOfBlock);
  if (!hooked) {
    keep_in_shadow(request, start, start, end);
    return;
  }
  for (i = hole_every; hole_every && i <= blocks; i += hole_every) {
    bitmap_set(request->shadowed, (i - 1) * kSectorsOfBlock, kSectorsOfBlock);
  }
  if (request->writes) {
    keep_in_shadow(request, start, first_cached(request, start, end), end);
  } else if (S_ISREG(file_inode(request->file)->i_mode)) {
    find_unwritten(request, start, blocks);
  }
}

/* As NVIDIA's module has it: a block of which any byte went to the device went there, and nobody is told of the rest.
 */
static bool is_beside(const struct request* request, unsigned int block) {
  const unsigned long end = (block + 1) * kSectorsOfBlock;

  return find_next_zero_bit(request->shadowed, end, block * kSectorsOfBlock) >= end;
}

static bool is_any_beside(const struct request* request, unsigned int blocks) {
  unsigned int i;

  for (i = 0; i < blocks; ++i) {
    if (is_beside(request, i)) return true;
  }
  return false;
}

/* ---- Bytes. ---- */

/* Sectors that follow one another, all in the device or all in the shadow buffer; `pages` are the chunk's. */
static s64 move_run(struct request* request, s64 offset, struct page** pages, unsigned int first, unsigned int end) {
  const unsigned int most = (end - first) / kSectorsOfBlock + 2;
  const size_t size = (size_t)(end - first) * kSector;
  struct bio_vec* pieces = kvcalloc(most, sizeof *pieces, GFP_KERNEL);
  struct iov_iter iterator;
  struct kiocb call;
  unsigned int count = 0, at, next;
  s64 moved;

  if (!pieces) return -ENOMEM;
  for (at = first; at < end; at = next) {
    next = min(round_down(at, kSectorsOfBlock) + kSectorsOfBlock, end);
    bvec_set_page(&pieces[count++], pages[at / kSectorsOfBlock], (next - at) * kSector, at % kSectorsOfBlock * kSector);
  }
  iov_iter_bvec(&iterator, request->writes ? ITER_SOURCE : ITER_DEST, pieces, count, size);
  init_sync_kiocb(&call, request->file);
  call.ki_pos = offset;
  call.ki_flags |= IOCB_DIRECT;
  if (request->writes) {
    kiocb_start_write(&call);
    moved = vfs_iocb_iter_write(request->file, &call, &iterator);
    kiocb_end_write(&call);
  } else {
    moved = request->file->f_op->read_iter(&call, &iterator); /* Whether it may read, was asked before. */
  }
  kvfree(pieces);
  return moved;
}

static void count_run(const struct request* request, bool direct, s64 bytes) {
  if (!direct) {
    atomic64_add(bytes, &counted.shadow_bytes);
  } else {
    atomic64_add(bytes, request->writes ? &counted.direct_written_bytes : &counted.direct_read_bytes);
  }
}

/* `blocks` of the file from `offset` on; what is shadowed into or out of the shadow buffer from block `shadow`. */
static s64 move_chunk(struct request* request, s64 offset, u64 gpu_at, unsigned int shadow, unsigned int blocks) {
  struct group* group = request->group;
  const unsigned int sectors = blocks * kSectorsOfBlock;
  unsigned int first = 0;
  s64 done = 0;

  while (first < sectors) {
    const bool direct = !test_bit(first, request->shadowed);
    const unsigned int next = direct ? find_next_bit(request->shadowed, sectors, first)
                                     : find_next_zero_bit(request->shadowed, sectors, first);
    struct page** pages = direct ? group->gpu + gpu_at / kBlock : group->shadow + shadow;
    const s64 moved = move_run(request, offset + (s64)first * kSector, pages, first, next);
    if (moved < 0) return done ? done : moved;
    count_run(request, direct, moved);
    done += moved;
    if (moved < (s64)(next - first) * kSector) break;
    first = next;
  }
  return done;
}

/* ---- What is told of a read with holes. ---- */

/* Returns how many bytes of `done` may be reported: the page has room for so many regions. */
static s64 report_holes(struct request* request, s64 start, s64 done) {
  struct fence* fence = request->group->fence;
  const unsigned int blocks = DIV_ROUND_UP(done, kBlock);
  unsigned int count = 0, i;

  for (i = 0; i < blocks; ++i) {
    struct hole* last = count ? &fence->holes[count - 1] : NULL;
    if (!is_beside(request, i)) continue;
    if (last && last->first + last->blocks == i) {
      ++last->blocks;
    } else if (count < kHolesMax) {
      fence->holes[count++] = (struct hole){i, 1};
    } else {
      done = (s64)i * kBlock;
      break;
    }
    atomic64_inc(&counted.hole_blocks);
  }
  if (!count) return done;
  fence->state = 1;
  fence->magic = FENCE_MAGIC;
  fence->version = 1;
  fence->nholes = count;
  fence->start = start;
  atomic64_add(count, &counted.hole_regions);
  if (!request->is_async) atomic64_inc(&counted.sparse_reads);
  return done;
}

/* ---- A request. ---- */

/* A file grows by a byte before its first direct write; nothing of the range may be in the page cache. */
static s64 prepare_write(struct request* request) {
  struct inode* inode = file_inode(request->file);
  struct address_space* mapping = request->file->f_mapping;
  int tries;

  if (!S_ISBLK(inode->i_mode)) {
    if (!request->file->f_op->fallocate) return -EIO;
    if (i_size_read(inode) == 0) {
      const int error = vfs_fallocate(request->file, 0, 0, 1);
      if (error) return error;
    }
  }
  if (!request->size) return 0;
  for (tries = 0; tries < 5; ++tries) {
    const loff_t last = request->offset + request->size - 1;
    int error;
    inode_lock(inode);
    error = filemap_write_and_wait_range(mapping, request->offset, last);
    if (!error) error = invalidate_inode_pages2_range(mapping, request->offset / kBlock, last / kBlock);
    inode_unlock(inode);
    if (!error) return 0;
    atomic64_inc(&counted.cache_retries);
    msleep(1);
  }
  return -EIO;
}

/* One piece, no longer than the shadow buffer has room. `*stop` where nothing must follow it. */
static s64 do_chunk(struct request* request, u64 done, u64 size, bool* stop) {
  const u64 gpu_at = request->gpu_at + done;
  const unsigned int blocks = size / kBlock;
  const s64 start = request->offset + done;
  s64 moved;

  choose_sectors(request, start, blocks);
  moved = move_chunk(request, start, gpu_at, gpu_at % kGpuPage / kBlock, blocks);
  request->file_system_said = moved;
  if (moved <= 0) return moved;
  if (!is_any_beside(request, blocks)) {
    *stop = moved < (s64)size;
    return moved;
  }
  *stop = true;
  if (!request->writes) return report_holes(request, start, moved);
  /* The file has the shadow buffer's bytes by now, and a sync caller is told of none. */
  atomic64_inc(&counted.write_state_errors);
  return request->is_async ? -EIO : 0;
}

static s64 do_chunks(struct request* request, u64 size) {
  struct group* group = request->group;
  const u64 room = (u64)group->shadow_pages * kBlock;
  bool stop = false;
  u64 done = 0;

  if (request->gpu_at % kGpuPage + min_t(u64, size, kGpuPage - request->gpu_at % kGpuPage) > room) return -EINVAL;
  while (done < size && !stop) {
    s64 moved;
    if (atomic_read(&group->state) != kInProgress) return -EIO;
    moved = do_chunk(request, done, min(size - done, room), &stop);
    if (moved < 0) return moved;
    done += moved;
    if (moved == 0) break;
  }
  return done;
}

static s64 do_request(struct request* request) {
  const uint error = fault_io;
  const uint most = fault_short;
  s64 result = request->writes ? prepare_write(request) : 0;
  u64 size = request->size;

  if (!result && is_faulty()) {
    result = -(s64)error;
    if (most) size = min_t(u64, size, round_down(most, kBlock));
    if (error >= 512) request->group->is_interrupted = true;
  }
  if (!result) result = do_chunks(request, size);
  if (unhook_after && --unhook_after == 0) hooked = false;
  if (result > 0) atomic64_add(result, request->writes ? &counted.written_bytes : &counted.read_bytes);
  return result;
}

/* The caller sees the ticket last, and by then the group is free for its next request. */
static void complete_fence(struct request* request, s64 result) {
  struct fence* fence = request->group->fence;

  change_state(request->group, kInProgress, kReady);
  WRITE_ONCE(fence->result, result);
  smp_wmb();
  WRITE_ONCE(fence->ticket, request->ticket);
}

/* Returns what the call answers if it waited for this. Of an asynchronous request that is what the file system said,
 * even where no byte went to the device: what that comes to, only the fence page tells. */
static s64 finish_request(struct request* request) {
  s64 result = do_request(request);

  if (request->is_async) {
    complete_fence(request, result);
    if (request->file_system_said > 0) result = request->file_system_said;
  } else {
    change_state(request->group, kInProgress, kReady);
  }
  atomic64_dec(request->writes ? &writes_now : &reads_now);
  put_group(request->group);
  fput(request->file);
  kfree(request);
  return result;
}

static void finish_later(struct work_struct* work) {
  if (async_delay_ms) msleep(async_delay_ms);
  finish_request(container_of(work, struct request, work));
}

static bool ends_at_once(const struct request* request) {
  const loff_t end = request->offset + request->size;

  return async_inline || (request->writes && first_cached(request, request->offset, end) < end);
}

s64 perform(struct request* request) {
  atomic64_inc(request->writes ? &writes_now : &reads_now);
  if (!request->is_async && sync_delay_ms) msleep(sync_delay_ms);
  if (!request->is_async || ends_at_once(request)) return finish_request(request);
  INIT_WORK(&request->work, finish_later);
  queue_work(transfers, &request->work);
  return 0;
}

int start_transfers(void) {
  transfers = alloc_workqueue("nvidia_fs_standin", WQ_UNBOUND, 0);
  return transfers ? 0 : -ENOMEM;
}

void stop_transfers(void) { destroy_workqueue(transfers); }
