// SPDX-License-Identifier: Apache-2.0

// Reads the kernel's list of symbols (/proc/kallsyms) once for all who ask about P2PDMA and nvidia-fs: platform.h and
// gds_evidence.h. It judges nothing. A reading takes tens of milliseconds, most of them the kernel's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/root.h"
#include "topology/tristate.h"

namespace penstock::core {

constexpr const char* kKernelSymbolsFile = "/proc/kallsyms";
constexpr std::size_t kKernelSymbolsBytesMax = 64 << 20;
// The second sign is a family of functions, listed even if data symbols are not (CONFIG_KALLSYMS_ALL=n).
constexpr std::string_view kP2pdmaSigns[] = {"p2pdma_pgmap_ops", " pci_p2pdma_"};
// By functions whose names end so, or are this one, nvidia-fs hooks into storage drivers.
constexpr std::string_view kHookEnd = "_register_nvfs_dma_ops";
constexpr std::string_view kScsiHook = "scsi_v1_register_dma_scsi_ops";

struct KernelSymbols {
  // no: the kernel lists no function to this process, so what is missing may be there. unknown: there is no list.
  Tristate has_functions = Tristate::unknown;
  bool has_p2pdma = false;
  std::vector<std::string> hooks;  // The lines that name a hook of nvidia-fs, or a symbol derived from one.
};
KernelSymbols read_kernel_symbols(const Root& root);

// Reads no further than to the first function.
Tristate lists_functions(const Root& root);

}  // namespace penstock::core
