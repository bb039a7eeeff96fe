// SPDX-License-Identifier: Apache-2.0

// The front ends that a session has one set of: batches by number, and requests on users' streams, with the executors
// that carry them out. To be destroyed before the session. Thread-safe.
#pragma once

#include "frontend/batch.h"
#include "frontend/streams.h"

namespace penstock::core {

class Frontends {
 public:
  explicit Frontends(Session& session);
  // Cancels batches, refuses what streams have not arrived at, and waits for what has begun.
  ~Frontends();

  // Fails with invalid_argument where there is no room for anything in it.
  Result<std::uint64_t> open_batch(unsigned capacity);
  Batch* pin_batch(std::uint64_t batch);  // Null where there is none; to be unpinned.
  void unpin_batch(std::uint64_t batch) { batches_.unpin(batch); }
  bool close_batch(std::uint64_t batch);  // Cancels, and waits for what has begun; false where there is none.
  // For batches that are their user's own.
  Executor& executor() { return *batch_executor_; }
  // Requests in the order of users' streams.
  Streams& streams() { return *streams_; }
  // Makes ready all that the first requests of the calling thread's current device would wait for, if it has one. May
  // wait for the device.
  void warm_up();

 private:
  Session& session_;
  // Two, since copies of batches wait for the device, and perhaps for a stream that waits for its own request.
  std::unique_ptr<Executor> stream_executor_;
  std::unique_ptr<Executor> batch_executor_;
  std::unique_ptr<Streams> streams_;
  HandleTable<Batch> batches_;
};

}  // namespace penstock::core
