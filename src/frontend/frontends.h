// SPDX-License-Identifier: Apache-2.0

// The front ends that belong to a session: batches by number, and requests on users' streams, with the executors that
// carry them out. Destroy it before the session. Thread-safe.
#pragma once

#include "frontend/gpu_file.h"
#include "frontend/streams.h"
#include "frontend/threaded_queue.h"

namespace penstock::core {

class Frontends {
 public:
  explicit Frontends(Session& session);
  // Cancels batches, refuses requests that their streams have not reached, and waits for those that have begun.
  ~Frontends();

  // Fails with invalid_argument for a capacity of 0.
  Result<std::uint64_t> open_batch(unsigned capacity);
  ThreadedQueue* pin_batch(std::uint64_t batch);  // Null if there is no such batch. Call unpin_batch() afterwards.
  void unpin_batch(std::uint64_t batch) { batches_.unpin(batch); }
  // Cancels, and waits for entries that have begun; false if there is no such batch.
  bool close_batch(std::uint64_t batch);
  // The executor for batches that their user owns.
  Executor& executor() { return *batch_executor_; }
  // Requests in the order of users' streams.
  Streams& streams() { return *streams_; }
  // Files that kernels read by themselves.
  GpuFiles& gpu_files() { return *gpu_files_; }
  // Opens in advance what the first requests of the calling thread's current device would wait for, if there is a
  // device. May wait for the device.
  void warm_up();

 private:
  Session& session_;
  // There are two, because copies of batches wait for the device, and so perhaps for a stream that waits for its own
  // request.
  std::unique_ptr<Executor> stream_executor_;
  std::unique_ptr<Executor> batch_executor_;
  std::unique_ptr<Streams> streams_;
  HandleTable<ThreadedQueue> batches_;
  std::unique_ptr<GpuFiles> gpu_files_;
};

}  // namespace penstock::core
