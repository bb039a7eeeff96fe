// SPDX-License-Identifier: Apache-2.0

// Moves nothing and reports success, so that only the library's own cost remains. It is used only if configuration
// names it, and is counted under its own name.
#pragma once

#include "path/path.h"

namespace penstock::core {

class NullPath final : public Path {
 public:
  Verdict judge(File&, const PointerFacts&, Op) override { return usable(PathId::null); }
  Shape shape(const RoutedRequest& request) override { return {.limits = {.chunk_max = request.chunk_max}}; }
  std::uint64_t channel_bytes(const ChannelOptions&) const override { return 0; }
  Result<std::unique_ptr<Channel>> open_channel(const ChannelOptions& options) override;
};

}  // namespace penstock::core
