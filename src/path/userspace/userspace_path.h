// SPDX-License-Identifier: Apache-2.0

// Serves files of file systems in user space: the file system's own calls move the bytes, directly into host memory, or
// through a bounce buffer into device memory. It serves only such files, and no other path serves them, so no list of
// paths names it.
#pragma once

#include "path/path.h"

namespace penstock::core {

class UserspacePath final : public Path {
 public:
  Verdict judge(File&, const PointerFacts&, Op) override { return usable(PathId::userspace); }
  Shape shape(const RoutedRequest& request) override;
  std::uint64_t channel_bytes(const ChannelOptions& options) const override;
  Result<std::unique_ptr<Channel>> open_channel(const ChannelOptions& options) override;
};

}  // namespace penstock::core
