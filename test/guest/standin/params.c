// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* What a test may set, at load or later, and what NVIDIA's module has of the same name. */
#include <linux/module.h>
#include <linux/moduleparam.h>

#include "standin.h"

bool rw_stats_enabled, peer_stats_enabled;
module_param(rw_stats_enabled, bool, 0644);
module_param(peer_stats_enabled, bool, 0644);
MODULE_PARM_DESC(rw_stats_enabled, "count reads and writes in the file stats");
MODULE_PARM_DESC(peer_stats_enabled, "shown, without effect");

bool hooked = true, unloading, async_inline;
module_param(hooked, bool, 0644);
module_param(unloading, bool, 0644);
module_param(async_inline, bool, 0644);
MODULE_PARM_DESC(hooked, "0: as with a storage driver that has no hooks, bytes go to the shadow buffer");
MODULE_PARM_DESC(unloading, "1: refuse as a module that is being unloaded does");
MODULE_PARM_DESC(async_inline, "1: asynchronous requests are done before their call returns");

uint hole_every, unhook_after, fault_map, fault_io, fault_short, fault_after, fault_times, async_delay_ms,
    sync_delay_ms, bar1_kib;
module_param(hole_every, uint, 0644);
module_param(unhook_after, uint, 0644);
module_param(fault_map, uint, 0644);
module_param(fault_io, uint, 0644);
module_param(fault_short, uint, 0644);
module_param(fault_after, uint, 0644);
module_param(fault_times, uint, 0644);
module_param(async_delay_ms, uint, 0644);
module_param(sync_delay_ms, uint, 0644);
module_param(bar1_kib, uint, 0644);
MODULE_PARM_DESC(hole_every, "N: every Nth block of 4 KiB goes to the shadow buffer");
MODULE_PARM_DESC(unhook_after, "so many reads and writes go well before hooked becomes 0; 0: it stays");
MODULE_PARM_DESC(fault_map, "the error number that pinning GPU memory gives");
MODULE_PARM_DESC(fault_io, "the error number that reads and writes give");
MODULE_PARM_DESC(fault_short, "reads and writes move at most so many bytes");
MODULE_PARM_DESC(fault_after, "so many reads and writes go well before fault_io and fault_short count");
MODULE_PARM_DESC(fault_times, "so many reads and writes fail, then no more; 0: all");
MODULE_PARM_DESC(async_delay_ms, "an asynchronous request begins so much later");
MODULE_PARM_DESC(sync_delay_ms, "a synchronous request begins so much later, and its call waits");
MODULE_PARM_DESC(bar1_kib, "pinned GPU memory together is at most so much; 0: no limit");
