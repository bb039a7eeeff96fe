// SPDX-License-Identifier: Apache-2.0

// Requests on an object that lies in several files (stripe/). A member's part of a request is one range of its file,
// and the stripes in memory are the pieces of a vectored request for that range. All members are moved at once and come
// to one outcome, as pieces do (parts_progress.h); a failure names its member. A call within one stripe is a request on
// its member and costs nothing more; any other call allocates memory, as requests of queues do.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "frontend/executor.h"
#include "frontend/vectored.h"
#include "session/session.h"
#include "stripe/layout.h"

namespace penstock::core {

struct Striped : std::enable_shared_from_this<Striped> {
  StripeLayout layout;
  std::vector<std::uint64_t> files;  // The registered files of the members.
  std::vector<std::string> names;    // For messages.
};

// Checks a request, and cuts a read at the end of the object. The request's file is ignored; its memory is its base, or
// the pieces if there are any.
Status admit_striped(const Striped& striped, RawRequest& request, std::span<const MemoryPiece> pieces);

// A request on a striped object, for the executor. When its job is taken from the run queue, one part for each member
// of the stripe is queued; when all parts have ended, the job is completed with their common outcome.
class StripedJob {
 public:
  // The request was admitted and is not empty. From now on the executor carries out the parts in place of the job,
  // until this object is destroyed, in whole.complete() at the earliest.
  StripedJob(Executor& executor, const Striped& striped, Job& whole, std::span<const MemoryPiece> pieces);
  ~StripedJob() { whole_.parts = {}; }
  StripedJob(const StripedJob&) = delete;
  StripedJob& operator=(const StripedJob&) = delete;

  // Used by a caller that waits: moves the first part on its own thread, and the others by the executor.
  void move_with_executor(Session& session);

 private:
  struct Share final : Job {
    void complete(const Outcome& outcome) override { striped->complete(*this, outcome); }
    StripedJob* striped = nullptr;
    std::uint32_t member = 0;
    std::vector<MemoryPiece> memory;
    std::optional<VectoredJob> vectored;
  };

  void share_out(std::span<const MemoryPiece> pieces);
  void complete(const Share& share, const Outcome& outcome);
  void add_share(const Share& share, const Outcome& outcome) REQUIRES(mutex_);

  Executor& executor_;
  const std::shared_ptr<const Striped> striped_;  // Shared, because it may be deregistered meanwhile.
  Job& whole_;
  std::unique_ptr<Share[]> shares_;  // In the order in which the members' first stripes follow the request's start.
  std::vector<Job*> jobs_;
  Mutex mutex_;
  PartsProgress progress_ GUARDED_BY(mutex_);
};

// Moves the whole request.
Outcome transfer_striped(Session& session, Executor& executor, const Striped& striped, RawRequest request,
                         std::span<const MemoryPiece> pieces = {});

}  // namespace penstock::core
