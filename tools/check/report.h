// SPDX-License-Identifier: Apache-2.0

// What `penstock check` tells of a machine: a page for people, a document for programs. Pure: they only look at what
// was read.
//
// The JSON document, whose keys and codes are stable (new ones may come):
//   schema            1
//   version           of Penstock
//   root              the captured machine's directory, or null for this machine
//   platform          distribution, architecture, cpu_model, cpu_count, memory_bytes, page_bytes, container (null or
//                     {kind, evidence}), virtual_machine (null or a name, possibly ""), wsl
//   kernel            release, p2pdma ("yes", "no", "unknown")
//   gpus[]            pci_address, vendor, device (PCI ids), driver, numa_node, link {speed_gts, width, speed_gts_max,
//                     width_max}, host_bridge, iommu_group, peer_memory_bytes (null where the kernel has none of it)
//   nvidia            loaded, version, open, registry_dwords, uvm, nodes[]; null where there is no driver
//   nvidia_fs         loaded, version, storage_drivers[]
//   device            null with --root; else kind ("cuda", "host"), reason, devices[] {ordinal, name,
//                     pci_address, memory_bytes, stand_in}
//   file_systems[]    mount_point, type, source, read_only, more_mounts, direct_io {state, code, because},
//                     device_pages {state, code, because}, stack (null or a device: name, disk, kind, transport,
//                     multipath, dm_type, md_level, pci_address, model, numa_node, logical_block_size, rotational,
//                     below[]), paths[] (of p2pdma, nvfs, vendor, bounce, those that may serve it: a direct one's
//                     self-test decides)
//   pairs[]           of device memory and file system: peer, mount_point, storage (a disk or null), reads, writes
//                     (whether p2pdma may be tried: only its self-test proves it), obstacles[], write_obstacles[]
//                     {code, effect ("refused", "copied", "part_copied", "silent_corruption", "slower"), certainty
//                     ("certain", "possible"), subject, sentence, remedy}
//   iommu             mode ("off", "passthrough", "translating", "unknown"), units[], command_line[]
//   io_uring          allowed (null with --root where unknown), sysctl (null or 0..2), errno (null with --root)
//   locked_memory     soft_bytes, hard_bytes (null: unlimited), exempt (CAP_IPC_LOCK); null where unknown
//   dma_buf           GPU memory as a dma-buf: null with --root and without a GPU; else exportable, refusal (null or
//   the
//                     driver's words), rdma_devices[] (adapters that may register it), io_uring ("no", "unknown")
//   paths[]           best first: path, usable (p2pdma: nothing is known that forbids a try), reason, sentence, remedy,
//                     needs[] {code, state ("ok", "missing", "unknown"), text, remedy}; p2pdma's needs are the
//                     obstacles of the pair that is best off
//   cufile            cuFile's configuration: file (null where there is none), refused (whether it keeps cuFile's
//                     driver closed), notes[] {severity, text}
//   settings          null with --root; else in_force {name: value}, unknown[] (PENSTOCK_... names that nothing reads),
//                     error (why no session opens with them, or null)
//   placement[]       drive, gpu (PCI addresses), relation ("switch", "host_bridge", "node", "apart")
//   usable            the bounce path is usable, and the settings are, cuFile's as well
//   required          null, or {what: a path or "gpu", met}
#pragma once

#include <string>
#include <vector>

#include "tools/common/context.h"
#include "tools/common/machine.h"
#include "tools/common/path_reports.h"

namespace penstock::tools {

// What --require named.
struct Requirement {
  std::string what;  // A path, or "gpu"; "" where nothing is required.
  bool is_met = true;
};

bool has_gpu(const Machine& machine);  // One of NVIDIA's, that can be used as far as is known.

Text check_text(const Machine& machine, const std::vector<PathReport>& paths, const Requirement& required);
// usable: as the exit code tells it without a requirement.
Json check_json(const Machine& machine, const std::vector<PathReport>& paths, const Requirement& required, bool usable);

}  // namespace penstock::tools
