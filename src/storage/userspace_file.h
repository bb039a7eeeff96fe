// SPDX-License-Identifier: Apache-2.0

// The seam to a file whose file system lives in user space: its own calls move the bytes, and the kernel knows nothing
// of it. cufile/ has one over the call-backs of CUfileFSOps_t. Called by several threads at once, one chunk each.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "core/io.h"

namespace penstock::core {

class UserspaceFile {
 public:
  virtual ~UserspaceFile() = default;
  // One transfer between the file and host memory, possibly short; 0 from a read is the end of the file. Fails with
  // unsupported where the file system has no such call.
  virtual Result<std::size_t> move(Op op, std::byte* memory, std::size_t size, std::uint64_t offset) = 0;
};

}  // namespace penstock::core
