// SPDX-License-Identifier: Apache-2.0

#include "path/host/host_path.h"

#include "path/pipeline/storage_channel.h"
#include "path/pipeline/storage_terms.h"

namespace penstock::core {

Verdict HostPath::judge(File&, const PointerFacts& memory, Op) {
  if (memory.needs_device()) return refused(PathId::host, Reason::device_memory);
  return usable_with_rings(PathId::host, storage_);
}

Limits HostPath::limits(File& file, Op, Way way, std::uint64_t chunk_max) {
  return {.file_align = file_align_for(file, way, chunk_max),
          .memory_align = file.facts().direct_memory_align,
          .chunk_max = chunk_max,
          .staged = false};
}

Result<std::unique_ptr<Channel>> HostPath::open_channel(const ChannelOptions& options) {
  ChannelOptions in_place = options;
  in_place.device = nullptr;
  return StorageChannel::open(storage_, in_place);
}

}  // namespace penstock::core
