// SPDX-License-Identifier: Apache-2.0

// Stands in the list for a path that this version does not have yet, so that every explanation names it. Always
// refuses.
#pragma once

#include "path/path.h"

namespace penstock::core {

class AbsentPath final : public Path {
 public:
  explicit AbsentPath(PathId id) : id_(id) {}

  PathId id() const override { return id_; }
  Verdict judge(File& file, const PointerFacts& memory, Op op) override;
  Limits limits(File&, Op, Way, std::uint64_t chunk_max) override { return {.chunk_max = chunk_max}; }
  std::uint64_t channel_bytes(const ChannelOptions&) const override { return 0; }
  Result<std::unique_ptr<Channel>> open_channel(const ChannelOptions&) override {
    return failure(Code::unsupported, "use a path that is not built");
  }

 private:
  const PathId id_;
};

}  // namespace penstock::core
