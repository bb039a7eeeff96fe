// SPDX-License-Identifier: Apache-2.0

// A store's chunks in batches that fit into a bounded piece of host memory, for those who read all of them.
#pragma once

#include <sys/uio.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kv/format.h"

namespace penstock::tools {

// A chunk of the batch, and as much memory as it has bytes.
struct ReadChunk {
  const kv::Chunk* chunk = nullptr;
  iovec memory{};
};

// Calls `read` for each batch, in order; shows progress, and stops where it is interrupted.
void for_each_batch(const std::string& label, std::span<const kv::Chunk> chunks,
                    const std::function<void(std::span<const ReadChunk>)>& read);

}  // namespace penstock::tools
