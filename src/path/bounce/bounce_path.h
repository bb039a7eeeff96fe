// SPDX-License-Identifier: Apache-2.0

// Storage to pinned host memory to device, overlapped. Every machine can do that for device memory.
#pragma once

#include "path/path.h"
#include "storage/storage.h"

namespace penstock::core {

class BouncePath final : public Path {
 public:
  explicit BouncePath(FileIo& io) : io_(io) {}

  Verdict judge(File& file, const PointerFacts& memory, Op op) override;
  Shape shape(const RoutedRequest& request) override;
  std::uint64_t channel_bytes(const ChannelOptions& options) const override {
    return options.depth * options.chunk_max;
  }
  Result<std::unique_ptr<Channel>> open_channel(const ChannelOptions& options) override;

 private:
  FileIo& io_;
};

}  // namespace penstock::core
