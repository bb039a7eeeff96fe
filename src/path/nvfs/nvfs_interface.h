// SPDX-License-Identifier: Apache-2.0

// The test whether the loaded nvidia-fs, whatever its version, has the interface that nvfs_abi.h describes. It is made
// once, before the first self-test, on a mapping of its own of 64 KiB of GPU memory, which is thrown away: the mapping
// shows the size and layout of arguments, and reads with one wrong field each have to be refused, with nothing moved.
// It makes only those bad requests that known versions refuse without changing their state; most others would trip a
// kernel assertion. The self-test then compares bytes in both directions.
#pragma once

#include "path/nvfs/nvfs_group.h"

namespace penstock::core {

// `fd` is any readable file with O_DIRECT; it is not changed. Reason::none means that the module matches nvfs_abi.h.
Proof test_nvfs_interface(const std::shared_ptr<NvfsModule>& module, Device& device, int fd);

}  // namespace penstock::core
