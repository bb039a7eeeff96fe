// SPDX-License-Identifier: Apache-2.0

// Executes many requests at once by queues of a session, which it keeps for reuse. The library's functions come in a
// table, since a process may have them in one of several libraries.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "penstock/checksums.h"
#include "penstock/penstock.h"

namespace penstock::kv {

struct Library {
  decltype(&penstock_file_register) file_register = nullptr;
  decltype(&penstock_file_close) file_close = nullptr;
  decltype(&penstock_file_sync) file_sync = nullptr;
  decltype(&penstock_transfer) transfer = nullptr;
  decltype(&penstock_queue_open) queue_open = nullptr;
  decltype(&penstock_queue_close) queue_close = nullptr;
  decltype(&penstock_queue_submit) queue_submit = nullptr;
  decltype(&penstock_queue_reap) queue_reap = nullptr;
  decltype(&penstock_crc32c_vector) crc32c_vector = nullptr;
  decltype(&penstock_path_count) path_count = nullptr;
  decltype(&penstock_report_bytes) report_bytes = nullptr;
  decltype(&penstock_file_advise) file_advise = nullptr;
};

core::Status status_of(const penstock_status& status);

// The bytes that reports tell of: by penstock_path, and by the reason for which a better path was refused.
struct MovedBytes {
  explicit MovedBytes(const Library& library) : by_path(library.path_count()) {}
  void count(const Library& library, const penstock_report& report);

  std::vector<std::uint64_t> by_path;
  std::map<std::int32_t, std::uint64_t> by_reason;
};

class QueuePool {
 public:
  using Ended = std::function<void(std::span<const penstock_completion>)>;

  // The session must outlive this.
  QueuePool(const Library& library, penstock_session* session) : library_(library), session_(session) {}
  ~QueuePool();
  QueuePool(const QueuePool&) = delete;
  QueuePool& operator=(const QueuePool&) = delete;

  // Calls `ended` with the requests that have ended, in any order, and returns when all have, or throws what `ended`
  // has thrown. Sets their cookies, to their places. Fails if no queue can be opened; then none has begun. The calling
  // thread moves up to caller_max of them itself, one after the other, without a queue. If there are more, it moves the
  // last one, while the session's threads, which have to be woken first, move the others. Any thread.
  core::Status transfer_all(std::span<penstock_request> requests, const Ended& ended, std::size_t caller_max = 0)
      EXCLUDES(mutex_);

 private:
  class Use;
  void transfer_here(std::span<const penstock_request> requests, const Ended& ended) const;
  core::Result<penstock_queue*> take() EXCLUDES(mutex_);
  void give_back(penstock_queue* queue) EXCLUDES(mutex_);

  const Library library_;
  penstock_session* const session_;
  core::Mutex mutex_;
  std::size_t made_ GUARDED_BY(mutex_) = 0;               // At most so many queues are there,
  std::vector<penstock_queue*> idle_ GUARDED_BY(mutex_);  // and there is room for each.
};

}  // namespace penstock::kv
