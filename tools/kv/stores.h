// SPDX-License-Identifier: Apache-2.0

// Serves the commands that look at stores: the library as stores need it (kv/session_volume.h), failures in the tool's
// words, and chunks in batches that fit into a limited piece of host memory, to read them all.
#pragma once

#include <sys/uio.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kv/format.h"
#include "kv/session_volume.h"
#include "tools/common/context.h"

namespace penstock::tools {

kv::Library own_library();

Status status_of(const core::Status& status);
// Opens a session for host memory only, without GPUs: bytes that are read are compared and dropped.
Session open_host_session();

// A chunk of the batch, and memory of its size.
struct ReadChunk {
  const kv::Chunk* chunk = nullptr;
  iovec memory{};
};

// Calls `read` for each batch, in order; shows progress, and stops if it is interrupted.
void for_each_batch(const std::string& label, std::span<const kv::Chunk> chunks,
                    const std::function<void(std::span<const ReadChunk>)>& read);

}  // namespace penstock::tools
