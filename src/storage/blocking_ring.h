// SPDX-License-Identifier: Apache-2.0

// A Ring without io_uring: every reap does the oldest pushed operation on the calling thread. Concurrency then
// comes from the session's workers alone.
#pragma once

#include <vector>

#include "storage/storage.h"

namespace penstock::core {

class BlockingRing final : public Ring {
 public:
  BlockingRing(FileIo& io, unsigned depth) : io_(io), waiting_(depth) {}

  void push(const RingOp& op) override;
  Status submit() override { return success(); }
  Result<unsigned> reap(std::span<RingCompletion> completions, bool wait) override;
  Status register_memory(void*, std::size_t) override {
    return failure(Code::unsupported, "register memory with the submission queue");
  }
  int register_file(int) override { return -1; }
  void unregister_file(int) override {}

 private:
  FileIo& io_;
  std::vector<RingOp> waiting_;  // A circular queue.
  std::size_t head_ = 0;
  std::size_t count_ = 0;
};

// Converts a transfer's result to a ring's form: bytes, or a negative errno.
std::int32_t bytes_or_errno(const Result<std::size_t>& moved);
// Does one operation on this thread.
std::int32_t perform(FileIo& io, const RingOp& op);

}  // namespace penstock::core
