// SPDX-License-Identifier: Apache-2.0

// One request on its way, whoever moves it: a call, a queue, an entry of a batch, a part of a stream's request or of a
// large one. It is routed, shaped and cut once. From then on it knows which chunk is next, how far it came, and what
// its report says. Front ends make it, the router and its path fill it in, and one thread at a time moves it.
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
    routed,  // Routed or not even that; nothing of it is moved.
    middle,  // Any number of its chunks may be under way at once.
    ends,    // Head and tail of a direct middle. The kernel drops the middle's pages from the cache when it has been
             // moved, and a dirty page next to them might prevent that: so the ends come after the middle. A middle
             // that came out short is followed by its head alone.
    over,    // The report is complete.
  };

  // Admission, the router and the path fill these in before cut_into_chunks().
  RoutedRequest request;
  std::optional<PathId> required;  // Any other path refuses this one request.
  bool memory_is_staging = false;  // Its memory is staging memory of the caller, which no direct path can use.
  Path* path = nullptr;
  Report report;

  // Cuts it into chunks of at most so many bytes. It may be cut again as long as nothing was moved.
  void cut_into_chunks(std::uint64_t chunk_max);
  const Plan& plan() const { return *plan_; }
  // Asks the kernel for the I/O mode of the chunk at this moment: bytes that are in the page cache are taken from
  // there.
  IoMode query_io_mode(const Chunk& chunk) const;

  State state() const { return state_; }
  bool is_under_way() const { return state_ == State::middle || state_ == State::ends; }
  // True if another chunk can begin before those in flight have ended.
  bool has_next() const { return turn_ < turns_end_; }
  // The next chunk. It is in flight until on_completion(). Call only if has_next().
  Chunk next() {
    ++in_flight_;
    return in_turn(turn_++);
  }
  void on_completion(const Completion& completion) {
    progress_.add(completion);
    --in_flight_;
    proceed();
  }
  // Moves everything that is left, one chunk after the other, on the calling thread through an idle channel.
  void run(Channel& channel) {
    while (has_next()) on_completion(channel.move_and_wait(request, next()));
  }
  // Ends the request with a failure. No chunk is in flight, and none will be.
  void fail(const Status& status);

  // ---- For callers that move the middle with many threads, or the request in parts
  Chunk in_turn(std::uint64_t turn) const;
  void end_middle(const Progress& progress);
  void end(const Progress& progress);

  const Progress& progress() const { return progress_; }
  Outcome outcome() const { return {progress_.status(), report}; }

 private:
  // Goes to the next state if no chunk is in flight.
  void proceed() {
    if (in_flight_ == 0 && (turn_ == turns_end_ || !progress_.goes_on())) leave_state();
  }
  void leave_state();

  std::optional<Plan> plan_;
  Progress progress_;
  std::uint64_t turn_ = 0;       // The turn of the next chunk.
  std::uint64_t turns_end_ = 0;  // The first turn that has to wait.
  std::uint64_t in_flight_ = 0;
  State state_ = State::routed;
};

}  // namespace penstock::core
