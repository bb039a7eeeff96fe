// SPDX-License-Identifier: Apache-2.0

// Reads chunks, and believes only what their own headers and checksums say.
#pragma once

#include <cstdlib>
#include <memory>
#include <span>

#include "base/status.h"
#include "kv/drive.h"
#include "kv/format.h"
#include "kv/request.h"
#include "kv/pace.h"

namespace penstock::kv {

// Pages of host memory for headers, aligned for direct I/O. Throws std::bad_alloc.
class Pages {
 public:
  explicit Pages(std::size_t count);
  std::span<std::byte> operator[](std::size_t i) const { return {memory_.get() + i * kHeaderBytes, kHeaderBytes}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte[], Free> memory_;
};

struct Fetch {
  Chunk chunk;                    // From an index or a journal.
  std::span<const iovec> pieces;  // They have as many bytes as the chunk.
  Outcome outcome = Outcome::miss;
  core::Status status{};
};

// All at once. The outcome is done, damaged or failed; in the last two the memory may have anything in it. The pace, if
// there is one, is told how long it took, unless something failed.
void fetch(Drive& drive, const Name& store, std::span<Fetch> fetches, Pace* pace = nullptr);

}  // namespace penstock::kv
