// SPDX-License-Identifier: Apache-2.0

#include "path/bounce/bounce_path.h"

#include "base/invariant.h"
#include "path/paths.h"
#include "path/pipeline/storage_channel.h"
#include "path/pipeline/storage_terms.h"

namespace penstock::core {

Verdict BouncePath::judge(File&, const PointerFacts& memory, Op) {
  if (!memory.needs_device()) return refused(PathId::bounce, Reason::host_memory);
  return usable_with_rings(PathId::bounce, io_);
}

Shape BouncePath::shape(const RoutedRequest& request) { return shape_staged(request, request.io_mode); }

Result<std::unique_ptr<Channel>> BouncePath::open_channel(const ChannelOptions& options) {
  PENSTOCK_INVARIANT(options.device != nullptr);
  return StorageChannel::open(io_, options);
}

std::unique_ptr<Path> make_bounce_path(const PathEnvironment& environment) {
  return std::make_unique<BouncePath>(environment.storage);
}

Reason bounce_outlook(const PathSettings&) { return Reason::none; }

}  // namespace penstock::core
