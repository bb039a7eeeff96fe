// SPDX-License-Identifier: Apache-2.0

// One request on its way, whoever moves it: a call, a queue, the entry of a batch, a part of a stream's, or of a large
// request. It is routed, shaped and cut once, and knows from then on what is to be moved next, how far it came, and
// what is told of it. Front ends make it, the router and its path fill it in, and one thread at a time moves it.
#pragma once

#include <cstdint>
#include <optional>

#include "core/report.h"
#include "engine/progress.h"
#include "path/path.h"

namespace penstock::core {

class Flight {
 public:
  enum class State : std::uint8_t {
    routed,  // Or not even that. Nothing of it is moved.
    middle,  // Any number of its chunks may be under way at once.
    ends,  // Head and tail of a direct middle. The kernel takes the middle's pages out of the cache when that has been
           // moved, and a page dirtied next to them may be in its way: so they come after it.
    over,  // The report is told.
  };

  // Admission, the router and its path fill these in, before it is cut.
  RoutedRequest request;
  bool staged = false;  // Its bytes go through memory of the caller's, which no direct path knows.
  Path* path = nullptr;
  Prepared prepared;
  Report report;

  // Into chunks of at most so many bytes. May be cut anew while nothing is moved.
  void cut(std::uint64_t chunk_max);
  const Plan& plan() const { return *plan_; }
  // The way by which the chunk would be moved now: bytes in the page cache are taken from there.
  IoMode io_mode_now(const Chunk& chunk) const;

  State state() const { return state_; }
  bool is_under_way() const { return state_ == State::middle || state_ == State::ends; }
  // True where another chunk can be begun before any that is under way has ended.
  bool has_next() const { return turn_ < turns_end_; }
  // It is under way until on_completion(). Needs has_next().
  Task next() {
    ++in_flight_;
    return task(turn_++);
  }
  void on_completion(const Completion& completion) {
    progress_.take_in(completion);
    --in_flight_;
    proceed();
  }
  // All that is left, one chunk after the other on the calling thread, through an idle channel.
  void run(Channel& channel) {
    while (has_next()) on_completion(channel.run(next()));
  }
  // Nothing of it is under way, and nothing more will be.
  void fail(const Status& status);

  // ---- For those who move the middle by many threads, or all of it in parts
  Task task(std::uint64_t turn) const;
  void end_middle(const Progress& progress);
  void end(const Progress& progress);

  const Progress& progress() const { return progress_; }
  Outcome outcome() const { return {progress_.status(), report}; }

 private:
  // On to what comes next, where nothing is under way.
  void proceed() {
    if (in_flight_ == 0 && (turn_ == turns_end_ || !progress_.goes_on())) leave_state();
  }
  void leave_state();

  std::optional<Plan> plan_;
  Progress progress_;
  std::uint64_t turn_ = 0;       // The turn of the chunk that is begun next,
  std::uint64_t turns_end_ = 0;  // and of the first that has to wait.
  std::uint64_t in_flight_ = 0;
  State state_ = State::routed;
};

}  // namespace penstock::core
