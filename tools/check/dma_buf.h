// SPDX-License-Identifier: Apache-2.0

// GPU memory as a dma-buf. Says if the driver exports it, and which adapters could register it. This is tried with 2
// MiB of a GPU's memory; there is no answer for a captured machine, or without a GPU. No path of Penstock uses it yet.
#pragma once

#include "facts/machine.h"
#include "tools/common/context.h"
#include "tools/common/page.h"

namespace penstock::tools {

void print_dma_buf(Page& page, const facts::Machine& machine);
// null, or {exportable, refusal (null or the driver's answer), rdma_devices[], io_uring ("no", "unknown")}.
Json dma_buf_json(const facts::Machine& machine);

}  // namespace penstock::tools
