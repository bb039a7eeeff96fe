// SPDX-License-Identifier: Apache-2.0

// cuFile's statistics: the counting in cufile.cc, batch.cc and stream.cc, and the state behind cuFileSetStatsLevel,
// which outlives the driver. The counters are in the session's segment (stats/cufile_counters.h), so that gds_stats can
// read them; with level 0 nothing is counted and no clock is read.
//
//   const std::uint64_t began = stats_clock(session);
//   const Outcome outcome = transfer(session, request);
//   count_transfer(session, request, outcome, began);
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/mutex.h"
#include "session/session.h"
#include "stats/cufile_counters.h"

namespace penstock::core {

// The time now; 0 if nothing is counted. The functions below count nothing that began at 0.
std::uint64_t stats_clock(const Session& session);

// Counts a success or a failure of a handle, a buffer, or a batch's set-up, cancellation and destruction.
inline void count(const Session& session, CufileOperation operation, bool ok) {
  session.counters().cufile().add(operation, ok);
}

// Counts a read or a write. `began` is its start; for a stream's request the time when the stream reached it. Counts a
// request that was refused before it reached the session with count(session, CufileOperation::read or write, false).
// `is_piece`: it is a piece of a vectored transfer, which is counted as a whole by count_vectored().
void count_transfer(Session& session, const RawRequest& request, const Outcome& outcome, std::uint64_t began,
                    bool is_piece);
// Counts a cuFileReadv or cuFileWritev that moved this many bytes; -1: it failed.
void count_vectored(const Session& session, Op op, std::int64_t bytes, std::uint64_t began);

// Counts a cuFileBatchIOSubmit: `ok` if its entries were accepted, `mixed` if they both read and write.
void count_batch_submit(Session& session, unsigned entries, bool mixed, bool ok, std::uint64_t began);
// Counts the end of one entry; `began` is the time of its submission.
void count_batch_entry(Session& session, const RawRequest& request, const Outcome& outcome, std::uint64_t began);
// Counts the end of all entries of one submission; ok if none failed.
void count_batch_complete(Session& session, std::uint64_t read_bytes, std::uint64_t written_bytes, bool ok,
                          std::uint64_t began);

class CufileStats {
 public:
  static CufileStats& instance();

  // Called when the driver has opened this session and its gate. If the level is above 0, counting begins; a level that
  // the program set overrides the configured one.
  void session_opened(Session& session, unsigned configured_level);

  // The session is null if the driver is closed.
  void choose_level(unsigned level, Session* session);
  unsigned chosen_level(const Session* session);
  void forget_level();
  // Calls CufileCounters::start, stop or reset; one call at a time.
  void change(Session& session, void (CufileCounters::*action)());

  // For level 3, which reports how much of each GPU's memory is registered.
  void count_buffer_register(Session& session, const void* base, std::uint64_t bytes, bool ok);
  void count_buffer_deregister(Session& session, const void* base, bool ok);

 private:
  explicit CufileStats(CufileStats* parents = nullptr);

  struct Registered {
    int gpu = -1;
    std::uint64_t bytes = 0;
  };

  const std::uint32_t forks_ = fork_count();
  Mutex mutex_;
  std::optional<unsigned> chosen_level_ GUARDED_BY(mutex_);
  std::map<const void*, Registered> registered_ GUARDED_BY(mutex_);  // Only at level 3.
};

}  // namespace penstock::core
