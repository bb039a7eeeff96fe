// SPDX-License-Identifier: Apache-2.0

// The kernel's files, on a file system that a test may say has other blocks.
#pragma once

#include <optional>

#include "storage/posix_storage.h"

namespace penstock::core {

class BlockStorage final : public PosixStorage {
 public:
  BlockStorage() : PosixStorage(true) {}
  Result<FileFacts> facts(int fd) override {
    Result<FileFacts> facts = PosixStorage::facts(fd);
    if (facts.ok() && block_size) facts->block_size = *block_size;
    return facts;
  }

  std::optional<std::uint64_t> block_size;
};

}  // namespace penstock::core
