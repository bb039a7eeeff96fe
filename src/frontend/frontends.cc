// SPDX-License-Identifier: Apache-2.0

#include "frontend/frontends.h"

namespace penstock::core {

Frontends::Frontends(Session& session)
    : session_(session), stream_executor_(std::make_unique<Executor>(session, session.config().workers)),
      batch_executor_(std::make_unique<Executor>(session, session.config().workers)),
      streams_(std::make_unique<Streams>(session, *stream_executor_)), gpu_files_(std::make_unique<GpuFiles>(session)) {
}

Frontends::~Frontends() {
  gpu_files_.reset();
  for (std::uint64_t batch = batches_.next(0); batch != 0; batch = batches_.next(batch)) (void)close_batch(batch);
  batch_executor_.reset();
  streams_->close();
  stream_executor_.reset();
  streams_.reset();
}

void Frontends::warm_up() {
  if (session_.is_inherited()) return;
  streams_->prepare();
  if (Device* const device = session_.devices().current()) session_.engine().warm_up(*device);
}

Result<std::uint64_t> Frontends::open_batch(unsigned capacity) {
  if (capacity == 0) return failure(Code::invalid_argument, "open the batch");
  if (session_.is_inherited()) return failure(Code::closed, "open the batch");
  return batches_.insert(std::make_unique<ThreadedQueue>(*batch_executor_, capacity));
}

ThreadedQueue* Frontends::pin_batch(std::uint64_t batch) {
  return session_.is_inherited() ? nullptr : batches_.pin(batch);
}

bool Frontends::close_batch(std::uint64_t handle) {
  if (session_.is_inherited()) return false;
  ThreadedQueue* batch = batches_.retire(handle);
  if (batch == nullptr) return false;
  batch->cancel();  // Wakes callers that wait for its entries.
  (void)batches_.wait_and_take(handle);
  return true;
}

}  // namespace penstock::core
