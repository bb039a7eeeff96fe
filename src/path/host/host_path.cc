// SPDX-License-Identifier: Apache-2.0

#include "path/host/host_path.h"

#include "path/paths.h"
#include "path/pipeline/storage_channel.h"
#include "path/pipeline/storage_terms.h"

namespace penstock::core {

Verdict HostPath::judge(File&, const PointerFacts& memory, Op) {
  if (memory.needs_device()) return refused(PathId::host, Reason::device_memory);
  return usable_with_rings(PathId::host, io_);
}

Shape HostPath::shape(const RoutedRequest& request) {
  Shape shape{.limits = {.file_align = file_align_for(*request.file, request.io_mode, request.chunk_max),
                         .memory_align = request.file->facts().direct_memory_align,
                         .chunk_max = request.chunk_max,
                         .staged = false},
              .tune_threads = true};
  // Only a registration gives the size of pageable memory. A queue lives long enough to make pinning its pages
  // worthwhile; calls have many channels, and each would have to pin them.
  const bool is_kept = request.facts.kind == MemoryKind::host && request.facts.size > 0;
  if (is_kept && request.mode == SubmitMode::queued && request.io_mode == IoMode::o_direct) {
    shape.channel_facts.buffer = reinterpret_cast<std::byte*>(request.facts.base);
    shape.channel_facts.buffer_bytes = request.facts.size;
  }
  return shape;
}

Result<std::unique_ptr<Channel>> HostPath::open_channel(const ChannelOptions& options) {
  ChannelOptions in_place = options;
  in_place.device = nullptr;
  return StorageChannel::open(io_, in_place);
}

std::unique_ptr<Path> make_host_path(const PathEnvironment& environment) {
  return std::make_unique<HostPath>(environment.storage);
}

Reason host_outlook(const PathSettings&) { return Reason::device_memory; }

}  // namespace penstock::core
