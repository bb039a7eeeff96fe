// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* The device nodes and their calls. */
#include <linux/cdev.h>
#include <linux/compat.h>
#include <linux/device.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "standin.h"

struct counters counted;
atomic64_t open_files, leaked_groups;

static uint max_devices = kDevicesMax;
module_param(max_devices, uint, 0444);
MODULE_PARM_DESC(max_devices, "how many nodes, at most 16; 0: 16");

static dev_t first_node;
static struct cdev nodes;
static struct class* node_class;

void would_assert(const char* what) {
  pr_crit("nvidia_fs stand-in: NVIDIA's module would stop the kernel here: %s\n", what);
  atomic64_inc(&counted.assertions);
  force_sig(SIGKILL);
}

static int open_node(struct inode* inode, struct file* file) {
  if (unloading) return -EINVAL;
  atomic64_inc(&open_files);
  atomic64_inc(&counted.opens);
  return 0;
}

static int release_node(struct inode* inode, struct file* file) {
  atomic64_dec(&open_files);
  return 0;
}

/* A failed call gives -1, and so EPERM; the error is in the argument. */
static long finish(void __user* at, const union argument* argument, bool failed) {
  if (copy_to_user(at, argument, kArgumentBytes)) return -EPERM;
  return failed ? -1 : 0;
}

static long call_node(struct file* file, unsigned int number, unsigned long at) {
  union argument argument;
  s64 result;

  /* All of it, whatever the number. */
  if (copy_from_user(&argument, (void __user*)at, kArgumentBytes)) return -ENOMEM;
  if (unloading) return -EINVAL;
  switch (number) {
    case STANDIN_REMOVE: return 0;
    case STANDIN_MAP:
      result = map_gpu(&argument.map);
      if (result) argument.map.fence = (u64)result;
      return finish((void __user*)at, &argument, result != 0);
    case STANDIN_READ:
    case STANDIN_WRITE:
      argument.io.result = read_or_write(&argument.io, number == STANDIN_WRITE);
      return finish((void __user*)at, &argument, argument.io.result < 0);
    default: /* RDMA registration and batches: as a module that was built without. */ return -ENOTTY;
  }
}

static const struct file_operations node_operations = {
    .owner = THIS_MODULE,
    .open = open_node,
    .release = release_node,
    .mmap = map_shadow,
    .unlocked_ioctl = call_node,
    .compat_ioctl = compat_ptr_ioctl,
};

static char* node_mode(const struct device* device, umode_t* mode) {
  if (mode) *mode = 0666;
  return NULL;
}

static int make_nodes(void) {
  int error = alloc_chrdev_region(&first_node, 0, max_devices, "nvidia-fs");
  uint i;

  if (error) return error;
  cdev_init(&nodes, &node_operations);
  nodes.owner = THIS_MODULE;
  error = cdev_add(&nodes, first_node, max_devices);
  if (error) goto no_nodes;
  node_class = class_create("nvidia-fs-class");
  if (IS_ERR(node_class)) {
    error = PTR_ERR(node_class);
    goto no_class;
  }
  node_class->devnode = node_mode;
  for (i = 0; i < max_devices; ++i) device_create(node_class, NULL, first_node + i, NULL, "nvidia-fs%u", i);
  return 0;
no_class:
  cdev_del(&nodes);
no_nodes:
  unregister_chrdev_region(first_node, max_devices);
  return error;
}

static void remove_nodes(void) {
  uint i;

  for (i = 0; i < max_devices; ++i) device_destroy(node_class, first_node + i);
  class_destroy(node_class);
  cdev_del(&nodes);
  unregister_chrdev_region(first_node, max_devices);
}

static int __init load(void) {
  int error;

  if (max_devices == 0 || max_devices > kDevicesMax) max_devices = kDevicesMax;
  error = start_transfers();
  if (error) return error;
  error = start_reports();
  if (error) goto no_reports;
  error = make_nodes();
  if (error) goto no_nodes;
  pr_notice("nvidia_fs stand-in " STANDIN_VERSION ": for tests; this is not NVIDIA's module\n");
  return 0;
no_nodes:
  stop_reports();
no_reports:
  stop_transfers();
  return error;
}

static void __exit unload(void) {
  remove_nodes();
  stop_reports();
  stop_transfers();
  free_leaked_groups();
}

module_init(load);
module_exit(unload);
MODULE_DESCRIPTION("A stand-in for nvidia-fs, for Penstock's tests");
MODULE_VERSION(STANDIN_VERSION);
MODULE_LICENSE("GPL");
