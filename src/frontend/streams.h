// SPDX-License-Identifier: Apache-2.0

// Requests in the order of users' streams: registered streams, and requests on any stream (stream_request.h). The
// session owns one and closes it before its executor. Thread-safe.
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
  // After the executor.
  ~Streams();
  // Requests whose streams arrive from now on are refused with `closed`, and their streams go on. The executor finishes
  // requests that have begun.
  void close();

  // Loads what streams of the caller's current context need, where there is one: the driver does not load it while a
  // stream is held, so this must not wait for the first request. Costs next to nothing from the second call on.
  void prepare();
  // Queues a request on a stream, and waits for nothing. One of size 0 is over when this returns. Refused with
  // `unsupported`: where the configuration says so, a stream that is being captured, memory that its device does not
  // reach.
  Status submit(void* stream, const StreamParameters& parameters, const StreamHooks& hooks);
  // `flags` are cuFile's: StreamRequest::Fixed, and others that say nothing here. Fails with invalid_argument for a
  // stream that is registered, and for one that is not.
  Status register_stream(void* stream, unsigned flags);
  // The same for a stream that may be of any context.
  void expect_stream(void* stream, unsigned flags);
  // Waits for the stream, as cuFile's does.
  Status deregister_stream(void* stream);

 private:
  // A default stream is another one in each context.
  using Key = std::pair<std::uint64_t, void*>;  // The home's id, the stream.
  static constexpr std::uint64_t kAnyHome = 0;  // No home's id.

  Result<StreamHome*> home_of(void* stream, const char* step);
  unsigned flags_of(const Key& key);
  std::map<Key, unsigned>::iterator find_locked(const Key& key) REQUIRES(mutex_);
  bool is_registered(void* stream);  // In whatever context.
  StreamRequest* take_request();

  Session& session_;
  const std::shared_ptr<StreamRequestPool> pool_;
  Mutex mutex_;
  std::map<Key, unsigned> flags_ GUARDED_BY(mutex_);
};

}  // namespace penstock::core
