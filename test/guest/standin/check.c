// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* What a READ or WRITE has to pass before a byte moves: in this order, with these codes. */
#include <linux/blkdev.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/kdev_t.h>
#include <linux/slab.h>
#include <linux/unaligned.h>

#include "standin.h"

enum { kSync = 1, kAllowReads = 4 };

static bool is_block_device(const struct file* file) { return S_ISBLK(file_inode(file)->i_mode); }

static s64 check_file(const struct file* file, const struct io_argument* wanted, bool writes) {
  const struct inode* inode = file_inode(file);
  const bool readable = (file->f_mode & FMODE_READ) || (wanted->bits & kAllowReads);
  const dev_t device = is_block_device(file) ? inode->i_rdev : inode->i_sb->s_dev;

  if (writes ? !(file->f_mode & FMODE_WRITE) : !readable) return -EBADF;
  if (wanted->inode == 0) return -EINVAL;
  if (is_block_device(file) && wanted->major == 0) return -EINVAL;
  if (wanted->generation && wanted->generation != inode->i_generation) return -ESTALE;
  if (wanted->inode != inode->i_ino) return -ESTALE;
  if (wanted->major != MAJOR(device) || wanted->minor != MINOR(device)) return -ESTALE;
  return 0;
}

/* What depends on the mapping, of a group that is in progress by now. */
static s64 check_range(const struct group* group, const struct file* file, const struct io_argument* wanted) {
  const u64 offset = get_unaligned((const u64*)wanted->gpu_offset);
  const u64 at = group->gpu_address % kGpuPage + offset;

  if (!(file->f_flags & O_DIRECT)) return -EINVAL;
  if (!(wanted->bits & kSync) && wanted->ticket == 0) return -EINVAL;
  if (at % kBlock) return -EINVAL;
  if (wanted->size > (u64)group->gpu_size || offset > (u64)group->gpu_size - wanted->size) return -EINVAL;
  if (at % kGpuPage && wanted->size > kGpuPage - at % kGpuPage) return -EINVAL;
  return 0;
}

/* What would end in an assertion, or never. */
static bool is_survivable(struct group* group, const struct io_argument* wanted) {
  const u64 shadow = (u64)group->shadow_pages * kBlock;

  if (group->is_interrupted) {
    would_assert("a request on a group that was interrupted before");
  } else if (!(wanted->bits & kSync) && wanted->size > shadow) {
    would_assert("an asynchronous request longer than its shadow buffer");
  } else {
    return true;
  }
  return false;
}

static struct request* make_request(struct group* group, struct file* file, const struct io_argument* wanted,
                                    bool writes) {
  struct request* request = kzalloc(sizeof *request, GFP_KERNEL);

  if (!request) return NULL;
  request->group = group;
  request->file = file;
  request->offset = wanted->offset;
  request->size = wanted->size;
  request->gpu_at = group->gpu_address % kGpuPage + get_unaligned((const u64*)wanted->gpu_offset);
  request->ticket = wanted->ticket;
  request->writes = writes;
  request->is_async = !(wanted->bits & kSync);
  return request;
}

/* NVIDIA's module takes no reference to the file of a process with one thread: when that dies, the completion of an
 * asynchronous request finds a file that is gone, and the kernel dies. This one holds the file, and counts. */
static void count_alone(const struct group* group) {
  if (group->is_async && atomic_read(&current->files->count) == 1) atomic64_inc(&counted.async_alone);
}

/* Takes over both references where it performs. */
static s64 start_request(struct group* group, struct file* file, const struct io_argument* wanted, bool writes) {
  struct request* request;
  s64 error = -EBUSY;

  /* A second request kills the group under the first one. */
  if (!change_state(group, kReady, kInProgress)) goto refused;
  group->is_async = !(wanted->bits & kSync);
  error = check_range(group, file, wanted);
  if (error) goto ready_again;
  error = -EBUSY;
  if (!is_survivable(group, wanted)) goto refused;
  error = 0;
  if (group->is_async && wanted->size == 0) goto refused; /* It never completes, and the group stays busy. */
  error = -ENOMEM;
  request = make_request(group, file, wanted, writes);
  if (request) {
    count_alone(group);
    return perform(request);
  }
ready_again:
  change_state(group, kInProgress, kReady);
refused:
  put_group(group);
  fput(file);
  return error;
}

static s64 check_and_start(const struct io_argument* wanted, bool writes) {
  struct group* group;
  struct file* file;
  s64 error;

  if (wanted->offset < 0 || wanted->offset % kBlock || wanted->size % kBlock) return -EINVAL;
  if (wanted->size > (u64)(S64_MAX - wanted->offset)) return -EINVAL;
  file = fget(wanted->fd);
  if (!file) return -EINVAL;
  error = check_file(file, wanted, writes);
  if (error) goto no_group;
  error = -EINVAL;
  group = find_group(wanted->shadow);
  if (group) return start_request(group, file, wanted, writes);
no_group:
  fput(file);
  return error;
}

s64 read_or_write(struct io_argument* argument, bool writes) {
  const struct io_argument wanted = *argument;
  const s64 result = check_and_start(&wanted, writes);

  atomic64_inc(writes ? &counted.writes : &counted.reads);
  if (result < 0) {
    atomic64_inc(writes ? &counted.writes_failed : &counted.reads_failed);
  } else {
    atomic64_inc(writes ? &counted.writes_ok : &counted.reads_ok);
  }
  return result;
}
