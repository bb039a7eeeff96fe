// SPDX-License-Identifier: Apache-2.0

#include "path/bounce/bounce_path.h"

#include "base/invariant.h"
#include "path/pipeline/storage_channel.h"
#include "path/pipeline/storage_terms.h"

namespace penstock::core {
Verdict BouncePath::judge(File&, const PointerFacts& memory, Op) {
  if (!memory.needs_device()) return refused(PathId::bounce, Reason::host_memory);
  return usable_with_rings(PathId::bounce, storage_);
}

Limits BouncePath::limits(File& file, Op, Way way, std::uint64_t chunk_max) {
  return {
      .file_align = file_align_for(file, way, chunk_max), .memory_align = 1, .chunk_max = chunk_max, .staged = true};
}

Result<std::unique_ptr<Channel>> BouncePath::open_channel(const ChannelOptions& options) {
  PENSTOCK_INVARIANT(options.device != nullptr);
  return StorageChannel::open(storage_, options);
}

}  // namespace penstock::core
