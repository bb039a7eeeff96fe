// SPDX-License-Identifier: Apache-2.0

// Requests in the order of users' streams: keeps registered streams, and queues requests on any stream
// (stream_request.h). The session owns one and closes it before its executor. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "frontend/stream_request.h"

namespace penstock::core {

class Streams {
 public:
  Streams(Session& session, Executor& executor);
  // Destroy it after the executor.
  ~Streams();
  // Requests that their streams reach from now on are refused with `closed`, and the streams continue. The executor
  // finishes requests that have begun.
  void close();

  // Loads the kernels that streams of the caller's current context need, if there is a context. The driver cannot load
  // them while a stream is held, so this must not wait for the first request. Later calls cost almost nothing.
  void prepare();
  // Queues a request on a stream without waiting. A request of size 0 is over when this returns. Refuses with
  // `unsupported` if the configuration says so, if the stream is being captured, and if its device does not reach the
  // memory.
  Status submit(void* stream, const StreamParameters& parameters, const StreamHooks& hooks);
  // `flags` are cuFile's: StreamRequest::Fixed, and others that have no effect here. Fails with invalid_argument if the
  // stream is registered already.
  Status register_stream(void* stream, unsigned flags);
  // Registers a stream that may belong to any context.
  void expect_stream(void* stream, unsigned flags);
  // Waits for the stream, as cuFile's call does. Fails with invalid_argument if the stream is not registered.
  Status deregister_stream(void* stream);

 private:
  // The default stream is a different one in each context.
  using Key = std::pair<std::uint64_t, void*>;  // The home's id, the stream.
  static constexpr std::uint64_t kAnyHome = 0;  // The id of no home.

  Result<StreamHome*> home_of(void* stream, const char* step);
  unsigned flags_of(const Key& key);
  std::map<Key, unsigned>::iterator find_locked(const Key& key) REQUIRES(mutex_);
  bool is_registered(void* stream);  // True if the stream is registered for any context.
  StreamRequest* take_request();

  Session& session_;
  const std::shared_ptr<StreamRequestPool> pool_;
  Mutex mutex_;
  std::map<Key, unsigned> flags_ GUARDED_BY(mutex_);
};

}  // namespace penstock::core
