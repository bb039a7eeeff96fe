// SPDX-License-Identifier: Apache-2.0

// Copies of memory in more pieces than go together, on a driver that refuses one call.
#include "path/pipeline/copy_batch.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "fakes/failing_gpu.h"

namespace penstock::core {
namespace {

TEST(CopyBatchTest, EachCallOfTheDriverMayFailAndThePiecesAreRightWhereNoneDid) {
  constexpr std::size_t kPiece = 16, kPieces = 300;
  FailingGpu gpu;
  auto* const memory = static_cast<std::byte*>(*gpu.allocate(2 * kPiece * kPieces));
  std::vector<MemoryPiece> pieces;
  for (std::size_t i = 0; i < kPieces; ++i) pieces.push_back({memory + 2 * i * kPiece, kPiece});
  std::string host(kPiece * kPieces, 'h');
  unsigned errors = 0;
  for (unsigned n = 1; n == 1 || gpu.has_failed(); ++n) {
    const auto queue = std::move(*gpu.open_copy_queue(1));
    std::memset(memory, 0, 2 * kPiece * kPieces);
    CopyBatch batch(4);
    gpu.fail_at(n);
    const Status status = copy_and_wait(*queue, batch, Op::read, RequestMemory(pieces),
                                        reinterpret_cast<std::byte*>(host.data()), host.size());
    errors += status.ok() ? 0 : 1;
    for (std::size_t i = 0; status.ok() && i < kPieces; ++i) {
      EXPECT_EQ(std::memcmp(memory + 2 * i * kPiece, host.data(), kPiece), 0) << i;
      EXPECT_EQ(memory[(2 * i + 1) * kPiece], std::byte{0}) << "nothing between them";
    }
  }
  EXPECT_EQ(errors, 5u) << "three times copies, the marker and the wait";
}

}  // namespace
}  // namespace penstock::core
