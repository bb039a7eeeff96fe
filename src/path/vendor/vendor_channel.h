// SPDX-License-Identifier: Apache-2.0

// Moves chunks with NVIDIA's synchronous calls. The FallbackChannel around it handles refused chunks; a file's handle
// belongs to the path.
#pragma once

#include "path/pipeline/sequential_channel.h"

namespace penstock::core {

class VendorPath;

class VendorChannel final : public SequentialChannel {
 public:
  VendorChannel(VendorPath& path, Device& device) : path_(path), device_(device) {}

  Completion move_and_wait(const RoutedRequest& request, const Chunk& chunk) override;
  bool is_broken() const override { return false; }

 private:
  Status move(const RoutedRequest& request, const Chunk& chunk, std::uint64_t& moved);
  bool is_at_end(const RoutedRequest& request, const Chunk& chunk, std::uint64_t moved);

  VendorPath& path_;
  Device& device_;
};

}  // namespace penstock::core
