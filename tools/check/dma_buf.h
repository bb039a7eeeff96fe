// SPDX-License-Identifier: Apache-2.0

// Memory of GPUs as a dma-buf: if the driver exports it, and which adapters could take it. Tried with 2 MiB of a GPU's
// memory; nothing for a captured machine, or without a GPU. No path of Penstock uses it yet.
#pragma once

#include "facts/machine.h"
#include "tools/common/context.h"
#include "tools/common/page.h"

namespace penstock::tools {

void print_dma_buf(Page& page, const facts::Machine& machine);
// null, or {exportable, refusal (null or what the driver says), rdma_devices[], io_uring ("no", "unknown")}.
Json dma_buf_json(const facts::Machine& machine);

}  // namespace penstock::tools
