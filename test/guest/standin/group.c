// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* Shadow buffers, and MAP, which ties GPU memory and a fence page to one. */
#include <linux/memremap.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "standin.h"

atomic64_t shadow_pages_now, gpu_pages_now;
u64 last_device;

static LIST_HEAD(leaked_list);
static DEFINE_SPINLOCK(leaked_lock);

static void free_group(struct group* group) {
  unsigned long i;

  if (group->gpu_pages) {
    unpin_user_pages(group->gpu, group->gpu_pages);
    atomic64_sub(group->gpu_pages, &gpu_pages_now);
    atomic64_inc(&counted.bar1_freed);
  }
  if (group->fence_page) unpin_user_page(group->fence_page);
  for (i = 0; i < group->shadow_pages; ++i) {
    if (group->shadow[i]) __free_page(group->shadow[i]);
  }
  atomic64_sub(group->shadow_pages, &shadow_pages_now);
  kvfree(group->shadow);
  kvfree(group->gpu);
  kfree(group);
}

static void release_group(struct kref* references) {
  struct group* group = container_of(references, struct group, references);

  if (!group->is_leaked) {
    free_group(group);
    return;
  }
  spin_lock(&leaked_lock);
  list_add(&group->leaked, &leaked_list);
  spin_unlock(&leaked_lock);
}

void put_group(struct group* group) { kref_put(&group->references, release_group); }

void leak(struct group* group) {
  spin_lock(&leaked_lock);
  if (!group->is_leaked) atomic64_inc(&leaked_groups);
  group->is_leaked = true;
  spin_unlock(&leaked_lock);
}

/* At unload, when nobody has a node open or a buffer mapped. */
void free_leaked_groups(void) {
  struct group *group, *next;

  list_for_each_entry_safe(group, next, &leaked_list, leaked) free_group(group);
}

/* From the wrong state, the group is dead for ever, and what it holds stays. */
bool change_state(struct group* group, enum group_state from, enum group_state to) {
  if (atomic_cmpxchg(&group->state, from, to) == from) return true;
  if (atomic_read(&group->state) == kTerminating) return false;
  atomic_set(&group->state, kDead);
  leak(group);
  return false;
}

/* A sync request in flight stops at its next chunk; an asynchronous one is never waited for. */
static void close_shadow(struct vm_area_struct* area) {
  struct group* group = area->vm_private_data;

  atomic64_inc(&counted.unmaps);
  if (atomic_read(&group->state) == kInProgress) {
    if (group->is_async) {
      pr_warn("nvidia_fs stand-in: a shadow buffer was unmapped with an asynchronous request in flight\n");
      atomic64_inc(&counted.lost_pins);
      leak(group);
    } else {
      atomic_cmpxchg(&group->state, kInProgress, kTerminating);
    }
  }
  put_group(group);
}

static int refuse_split(struct vm_area_struct* area, unsigned long at) { return -ENOMEM; }

static int refuse_move(struct vm_area_struct* area) {
  pr_warn("nvidia_fs stand-in: mremap of a shadow buffer\n");
  return -ENOMEM;
}

static const struct vm_operations_struct shadow_operations = {
    .close = close_shadow,
    .may_split = refuse_split,
    .mremap = refuse_move,
};

static struct group* make_group(unsigned long pages) {
  struct group* group = kzalloc(sizeof *group, GFP_KERNEL);
  unsigned long i;

  if (!group) return NULL;
  kref_init(&group->references);
  group->shadow_pages = pages;
  atomic64_add(pages, &shadow_pages_now);
  group->shadow = kvcalloc(pages, sizeof *group->shadow, GFP_KERNEL);
  for (i = 0; group->shadow && i < pages; ++i) {
    group->shadow[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
    if (!group->shadow[i]) break;
  }
  if (group->shadow && i == pages) return group;
  if (!group->shadow) {
    atomic64_sub(pages, &shadow_pages_now);
    group->shadow_pages = 0;
  }
  put_group(group);
  return NULL;
}

static bool is_shadow_length(unsigned long bytes) {
  if (bytes == 0 || bytes > (unsigned long)kShadowBlocksMax * kBlock) return false;
  return bytes % (bytes < kGpuPage ? kBlock : kGpuPage) == 0;
}

int map_shadow(struct file* file, struct vm_area_struct* area) {
  const unsigned long bytes = area->vm_end - area->vm_start;
  const vm_flags_t needed = VM_SHARED | VM_READ | VM_WRITE;
  unsigned long count = bytes / kBlock;
  struct group* group;
  int error;

  atomic64_inc(&counted.maps);
  if (area->vm_pgoff) return -EIO;
  if ((area->vm_flags & needed) != needed || (area->vm_flags & VM_EXEC) || !is_shadow_length(bytes)) return -EINVAL;
  group = make_group(count);
  if (!group) return -ENOMEM;
  vm_flags_mod(area, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP, VM_MAYEXEC);
  error = vm_insert_pages(area, area->vm_start, group->shadow, &count);
  if (error) {
    put_group(group);
    return error;
  }
  area->vm_ops = &shadow_operations;
  area->vm_private_data = group;
  atomic64_inc(&counted.maps_ok);
  return 0;
}

/* The group whose shadow buffer begins there, in the caller's memory; NULL if none does. */
struct group* find_group(u64 shadow) {
  struct group* group = NULL;
  struct vm_area_struct* area;

  mmap_read_lock(current->mm);
  area = vma_lookup(current->mm, shadow);
  if (area && area->vm_ops == &shadow_operations && area->vm_start == shadow) {
    group = area->vm_private_data;
    kref_get(&group->references);
  }
  mmap_read_unlock(current->mm);
  return group;
}

static s64 pin_fence(struct group* group, u64 at) {
  struct page* page;
  int pinned;

  if (!at || at % kBlock) return -EINVAL;
  pinned = pin_user_pages_fast(at, 1, FOLL_WRITE | FOLL_LONGTERM, &page);
  if (pinned != 1) return pinned < 0 ? pinned : -EFAULT;
  group->fence_page = page;
  group->fence = page_address(page);
  return 0;
}

static bool all_of_a_device(struct page** pages, unsigned long count) {
  unsigned long i;

  for (i = 0; i < count; ++i) {
    if (!is_pci_p2pdma_page(pages[i])) return false;
  }
  return true;
}

/* The pages of [gpu, gpu + size), rounded to 64 KiB as the driver's call wants them. A device's memory cannot be pinned
 * for long, so these pins only last as short ones do: until they are let go. */
static s64 pin_gpu(struct group* group, u64 gpu, u64 size) {
  const u64 start = round_down(gpu, kGpuPage);
  const unsigned long count = (round_up(gpu + size, kGpuPage) - start) / kBlock;
  long pinned;

  if (fault_map) return -(s64)fault_map;
  if (!count) return -EINVAL;
  if (bar1_kib && (atomic64_read(&gpu_pages_now) + count) * (kBlock / 1024) > bar1_kib) return -ENOMEM;
  group->gpu = kvcalloc(count, sizeof *group->gpu, GFP_KERNEL);
  if (!group->gpu) return -ENOMEM;
  pinned = pin_user_pages_fast(start, count, FOLL_WRITE | FOLL_PCI_P2PDMA, group->gpu);
  if (pinned != (long)count || !all_of_a_device(group->gpu, count)) {
    if (pinned > 0) unpin_user_pages(group->gpu, pinned);
    return -EINVAL;
  }
  group->gpu_pages = count;
  atomic64_add(count, &gpu_pages_now);
  return 0;
}

static s64 map_group(struct group* group, const struct map_argument* wanted) {
  const u64 in_page = wanted->gpu % kGpuPage;
  s64 error;

  if (wanted->shadow_blocks == 0 || wanted->shadow_blocks > group->shadow_pages) {
    would_assert("MAP with more or fewer blocks than the shadow buffer has");
    return -EINVAL;
  }
  if (!change_state(group, kFree, kInit)) return -EINVAL;
  error = pin_fence(group, wanted->fence);
  if (error) return error;
  if (wanted->size < 0 || wanted->gpu + (u64)wanted->size < wanted->gpu) return -EINVAL;
  if (wanted->size < kGpuPage && (u64)wanted->shadow_blocks * kBlock < in_page + wanted->size) return -EINVAL;
  error = pin_gpu(group, wanted->gpu, wanted->size);
  atomic64_inc(error ? &counted.bar1_failed : &counted.bar1_ok);
  if (error) return error;
  group->gpu_address = wanted->gpu;
  group->gpu_size = wanted->size;
  last_device = wanted->device;
  change_state(group, kInit, kReady);
  return 0;
}

int map_gpu(struct map_argument* argument) {
  const struct map_argument wanted = *argument;
  struct group* group;
  s64 error;

  if (!wanted.shadow || wanted.shadow % kBlock) return -EINVAL;
  group = find_group(wanted.shadow);
  if (!group) return -EINVAL;
  error = map_group(group, &wanted);
  if (error) leak(group); /* A mapping that failed behind the first checks keeps its shadow buffer. */
  if (error) atomic64_inc(&counted.maps_failed);
  put_group(group);
  return error;
}
