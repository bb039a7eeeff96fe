// SPDX-License-Identifier: Apache-2.0

// The seam to a file whose file system lives in user space: the file system's own calls move the bytes, without the
// kernel. cufile/ implements it with the callbacks of CUfileFSOps_t. Several threads call it at once, each for one
// chunk.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "core/io.h"

namespace penstock::core {

class UserspaceFile {
 public:
  virtual ~UserspaceFile() = default;
  // Makes one transfer between the file and host memory, possibly a short one; 0 from a read is the end of the file.
  // Fails with unsupported if the file system has no such call.
  virtual Result<std::size_t> move(Op op, std::byte* memory, std::size_t size, std::uint64_t offset) = 0;
};

}  // namespace penstock::core
