// SPDX-License-Identifier: Apache-2.0

#include "storage/blocking_ring.h"

#include <cerrno>

#include "base/invariant.h"

namespace penstock::core {

std::int32_t bytes_or_errno(const Result<std::size_t>& moved) {
  if (moved.ok()) return static_cast<std::int32_t>(*moved);
  return moved.status().domain == Domain::os ? -moved.status().code : -EIO;
}

std::int32_t perform(FileIo& io, const RingOp& op) {
  return bytes_or_errno(op.op == Op::read ? io.read(op.fd, op.memory, op.size, op.offset)
                                          : io.write(op.fd, op.memory, op.size, op.offset));
}

void BlockingRing::push(const RingOp& op) {
  PENSTOCK_INVARIANT(count_ < waiting_.size());
  waiting_[(head_ + count_++) % waiting_.size()] = op;
}

Result<unsigned> BlockingRing::reap(std::span<RingCompletion> completions, bool) {
  if (count_ == 0 || completions.empty()) return 0u;
  const RingOp op = waiting_[head_];
  head_ = (head_ + 1) % waiting_.size();
  --count_;
  completions[0] = {op.tag, perform(io_, op)};
  return 1u;
}

}  // namespace penstock::core
