// SPDX-License-Identifier: Apache-2.0

// The answers of `penstock check` about a machine: a page for people, a document for programs. Pure: they only look at
// facts that were read.
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
//                     below[]), paths[] (of p2pdma, nvfs, vendor, bounce, those that may serve it as the settings are:
//                     a direct one's self-test decides), outlook[] {path, standing, reason, sentence, remedy} of every
//                     path there
//   pairs[]           of device memory and file system: peer, mount_point, storage (a disk or null), standing, reason
//                     (as of paths: how p2pdma stands between the two), reads, writes (whether nothing between the two
//                     is known to close it), obstacles[], write_obstacles[]
//                     {code, effect ("refused", "copied", "part_copied", "silent_corruption", "slower"), certainty
//                     ("certain", "possible"), subject, sentence, remedy}
//   iommu             mode ("off", "passthrough", "translating", "unknown"), units[], command_line[]
//   io_uring          allowed (null with --root where unknown), sysctl (null or 0..2), errno (null with --root)
//   locked_memory     soft_bytes, hard_bytes (null: unlimited), exempt (CAP_IPC_LOCK); null where unknown
//   dma_buf           GPU memory as a dma-buf: null with --root and without a GPU; else exportable, refusal (null or
//   the
//                     driver's words), rdma_devices[] (adapters that may register it), io_uring ("no", "unknown")
//   paths[]           best first, as the best file system has them: path, standing ("usable", "off" by a setting,
//                     "unknown", "closed"), usable (standing is "usable"), reason, sentence, remedy, needs[] {code,
//                     state ("ok", "missing", "off", "unknown"), text, remedy}; p2pdma's needs are the obstacles of the
//                     pair that is best off
//   cufile            cuFile's configuration: file (null where there is none), refused (whether it keeps cuFile's
//                     driver closed), notes[] {severity, text}
//   settings          of the process that is asked about: in_force {name: value}, unknown[] (PENSTOCK_... names that
//                     nothing reads),
//                     error (why no session opens with them, or null)
//   placement[]       drive, gpu (PCI addresses), relation ("switch", "host_bridge", "node", "apart")
//   usable            the bounce path is usable, and the settings are, cuFile's as well
//   findings[]        of drivers, fabric and with --try of transfers, as of findings_page.h's rows, with counts {} and
//                     causes beside them
//   odirect[]         with --try, of each folder: folder, place, cases[], storage_notes[]
//   required          null, or {what: a path or "gpu", met}
#pragma once

#include <string>
#include <vector>

#include "facts/examination.h"
#include "tools/check/odirect.h"
#include "tools/check/transfer.h"
#include "tools/common/context.h"
#include "tools/common/terminal.h"

namespace penstock::tools {

// The answer to --require.
struct Requirement {
  std::string what;  // A path, or "gpu", or "".
  bool is_met = true;
};

// The results of --try.
struct Tries {
  facts::Findings findings;
  validate::Details details;
  std::vector<OdirectTry> odirect;  // One for each folder.

  bool are_right() const;
};

// True if the command exits with 0: bytes can move, and what was asked for holds. Findings may fail all the same.
bool passes(const facts::Examination& examined, const Requirement& required, const Tries& tries);
// True if CUDA can use a GPU; if the machine is captured, true if it has one.
bool can_use_gpu(const facts::Machine& machine);

// With `all`, it has every row; otherwise one line for each path.
Text check_text(const facts::Examination& examined, const Requirement& required, const Tries& tries, bool all);
// `usable` says the same as the exit code, unless something is required.
Json check_json(const facts::Examination& examined, const Requirement& required, bool usable, const Tries& tries);

}  // namespace penstock::tools
