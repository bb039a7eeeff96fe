// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* /proc/driver/nvidia-fs: version, devcount, modules and stats as NVIDIA's module has them, in the lines and words that
 * clients read; and `standin`, which only this one has. */
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

#include "standin.h"

static u64 of(atomic64_t* count) { return atomic64_read(count); }

static u64 mebibytes(atomic64_t* bytes) { return of(bytes) >> 20; }

static int show_version(struct seq_file* out, void* unused) {
  seq_puts(out, "version: " STANDIN_SHORT_VERSION "\n");
  return 0;
}

static int show_devcount(struct seq_file* out, void* unused) {
  seq_printf(out, "%d\n", kDevicesMax);
  return 0;
}

/* Drivers register when the first node is opened, and are gone with the last. */
static int show_modules(struct seq_file* out, void* unused) {
  if (hooked && (of(&open_files) > 0 || of(&shadow_pages_now) > 0)) seq_puts(out, "nvme: (null)\n");
  seq_puts(out, "wekafsio: 1\n");
  return 0;
}

static void show_reads_and_writes(struct seq_file* out) {
  if (rw_stats_enabled) {
    seq_printf(out, "Batches\t\t\t\t: n=0 ok=0 err=0 Avg-Submit-Latency(usec)=0\n");
    seq_printf(out, "Reads\t\t\t\t: n=%llu ok=%llu err=%llu readMiB=%llu io_state_err=%llu\n", of(&counted.reads),
               of(&counted.reads_ok), of(&counted.reads_failed), mebibytes(&counted.read_bytes),
               of(&counted.read_state_errors));
    seq_printf(out, "Reads\t\t\t\t: Bandwidth(MiB/s)=0 Avg-Latency(usec)=0\n");
  } else {
    seq_printf(out, "Reads\t\t\t\t: err=%llu io_state_err=%llu\n", of(&counted.reads_failed),
               of(&counted.read_state_errors));
  }
  seq_printf(out, "Sparse Reads\t\t\t: n=%llu io=%llu holes=%llu pages=%llu\n", of(&counted.reads),
             of(&counted.sparse_reads), of(&counted.hole_regions), of(&counted.hole_blocks));
  if (rw_stats_enabled) {
    seq_printf(out,
               "Writes\t\t\t\t: n=%llu ok=%llu err=%llu writeMiB=%llu io_state_err=%llu pg-cache=%llu "
               "pg-cache-fail=%llu pg-cache-eio=0\n",
               of(&counted.writes), of(&counted.writes_ok), of(&counted.writes_failed),
               mebibytes(&counted.written_bytes), of(&counted.write_state_errors), of(&counted.writes),
               of(&counted.cache_retries));
    seq_printf(out, "Writes\t\t\t\t: Bandwidth(MiB/s)=0 Avg-Latency(usec)=0\n");
  } else {
    seq_printf(out, "Writes\t\t\t\t: err=%llu io_state_err=%llu pg-cache=%llu pg-cache-fail=%llu pg-cache-eio=0\n",
               of(&counted.writes_failed), of(&counted.write_state_errors), of(&counted.writes),
               of(&counted.cache_retries));
  }
}

static int show_stats(struct seq_file* out, void* unused) {
  const u64 pinned = of(&gpu_pages_now) * kBlock >> 20;

  seq_puts(out, "GDS Version: stand-in \nNVFS statistics(ver: 4.0)\nNVFS Driver(version: " STANDIN_VERSION ")\n");
  seq_puts(out, "Mellanox PeerDirect Supported: False\n");
  seq_printf(out, "IO stats: %s, peer IO stats: %s\n", rw_stats_enabled ? "Enabled" : "Disabled",
             peer_stats_enabled ? "Enabled" : "Disabled");
  seq_puts(out, "Logging level: info\n\n");
  seq_printf(out, "Active Shadow-Buffer (MiB): %llu\n", of(&shadow_pages_now) * kBlock >> 20);
  seq_printf(out, "Active Process: %llu\n", of(&open_files) / kDevicesMax);
  show_reads_and_writes(out);
  seq_printf(out, "Mmap\t\t\t\t: n=%llu ok=%llu err=%llu munmap=%llu\n", of(&counted.maps), of(&counted.maps_ok),
             of(&counted.maps) - of(&counted.maps_ok), of(&counted.unmaps));
  seq_printf(out, "Bar1-map\t\t\t: n=%llu ok=%llu err=%llu free=%llu callbacks=0 active=%llu delay-frees=0\n",
             of(&counted.bar1_ok) + of(&counted.bar1_failed), of(&counted.bar1_ok), of(&counted.bar1_failed),
             of(&counted.bar1_freed), of(&counted.bar1_ok) - of(&counted.bar1_freed));
  seq_puts(out, "Error\t\t\t\t: cpu-gpu-pages=0 sg-ext=0 dma-map=0 dma-ref=0\n");
  seq_printf(out, "Ops\t\t\t\t: Read=%llu Write=%llu BatchIO=0\n", of(&reads_now), of(&writes_now));
  if (last_device) {
    seq_printf(out,
               "GPU %04llx:%02llx:%02llx.%llx  uuid:00000000-0000-0000-0000-000000000000 : Registered_MiB=%llu "
               "Cache_MiB=0 max_pinned_MiB=%llu\n",
               last_device >> 32, last_device >> 8 & 0xff, last_device >> 3 & 0x1f, last_device & 7, pinned, pinned);
  }
  return 0;
}

/* In bytes and single events, for the tests. */
static int show_standin(struct seq_file* out, void* unused) {
  seq_printf(out, "direct_read_bytes %llu\ndirect_written_bytes %llu\nshadow_bytes %llu\n",
             of(&counted.direct_read_bytes), of(&counted.direct_written_bytes), of(&counted.shadow_bytes));
  seq_printf(out, "pinned_bytes %llu\nshadow_pages %llu\nleaked_groups %llu\nassertions %llu\nopens %llu\n",
             of(&gpu_pages_now) * kBlock, of(&shadow_pages_now), of(&leaked_groups), of(&counted.assertions),
             of(&counted.opens));
  seq_printf(out, "async_alone %llu\nlost_pins %llu\nrequests %llu\nrequests_now %llu\n", of(&counted.async_alone),
             of(&counted.lost_pins), of(&counted.reads) + of(&counted.writes), of(&reads_now) + of(&writes_now));
  return 0;
}

static int open_stats(struct inode* inode, struct file* file) { return single_open(file, show_stats, NULL); }

/* Whatever is written, what was counted is forgotten, but for how much is mapped. */
static ssize_t reset_stats(struct file* file, const char __user* text, size_t size, loff_t* at) {
  const u64 pinned = of(&counted.bar1_ok) - of(&counted.bar1_freed);

  memset(&counted, 0, sizeof counted);
  atomic64_set(&counted.bar1_ok, pinned);
  return size;
}

static const struct proc_ops stats_operations = {
    .proc_open = open_stats,
    .proc_read = seq_read,
    .proc_lseek = seq_lseek,
    .proc_release = single_release,
    .proc_write = reset_stats,
};

int start_reports(void) {
  struct proc_dir_entry* folder = proc_mkdir("driver/nvidia-fs", NULL);

  if (!folder) return -ENOMEM;
  if (proc_create_single("version", 0444, folder, show_version) &&
      proc_create_single("devcount", 0444, folder, show_devcount) &&
      proc_create_single("modules", 0444, folder, show_modules) &&
      proc_create("stats", 0444, folder, &stats_operations) &&
      proc_create_single("standin", 0444, folder, show_standin))
    return 0;
  stop_reports();
  return -ENOMEM;
}

void stop_reports(void) { remove_proc_subtree("driver/nvidia-fs", NULL); }
