// SPDX-License-Identifier: Apache-2.0

// Shared by the commands that look at stores: the tool's own library as stores want it (kv/session_drive.h), its
// failures as the tool tells them, and chunks in batches that fit into a bounded piece of host memory, to read all of
// them.
#pragma once

#include <sys/uio.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kv/format.h"
#include "kv/session_drive.h"
#include "tools/common/context.h"

namespace penstock::tools {

kv::Library own_library();

Status status_of(const core::Status& status);
// A session for host memory only, without GPUs: bytes that are read are compared and let go.
Session open_host_session();

// A chunk of the batch, and as much memory as it has bytes.
struct ReadChunk {
  const kv::Chunk* chunk = nullptr;
  iovec memory{};
};

// Calls `read` for each batch, in order; shows progress, and stops where it is interrupted.
void for_each_batch(const std::string& label, std::span<const kv::Chunk> chunks,
                    const std::function<void(std::span<const ReadChunk>)>& read);

}  // namespace penstock::tools
