// SPDX-License-Identifier: Apache-2.0

// Memory for torch.cuda.MemPool: penstock_torch_alloc() and penstock_torch_free(), which torch finds by name in this
// module and calls from any thread, with or without the GIL. They allocate memory of the chosen session by its own
// allocator, so that paths which need that (p2pdma with export_memory) can serve the tensors in it.
#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

void bind_torch_pool(nanobind::module_& module);

}  // namespace penstock::python
