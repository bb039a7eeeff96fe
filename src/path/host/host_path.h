// SPDX-License-Identifier: Apache-2.0

// Moves bytes between storage and host memory directly: no device is involved, and nothing is staged. Bytes that direct
// I/O cannot reach (unaligned ends, unaligned memory) go through the page cache.
#pragma once

#include "path/path.h"
#include "storage/storage.h"

namespace penstock::core {

class HostPath final : public Path {
 public:
  explicit HostPath(FileIo& io) : io_(io) {}

  Verdict judge(File& file, const PointerFacts& memory, Op op) override;
  Shape shape(const RoutedRequest& request) override;
  std::uint64_t channel_bytes(const ChannelOptions&) const override { return 0; }
  Result<std::unique_ptr<Channel>> open_channel(const ChannelOptions& options) override;

 private:
  FileIo& io_;
};

}  // namespace penstock::core
