// SPDX-License-Identifier: Apache-2.0

// A flight that many threads move. Each thread draws chunks of its middle from one counter and moves them through a
// channel of its own, until none is left or one fails. The thread that made it then collects the progress and moves the
// chunks that had to wait for the middle.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/mutex.h"
#include "engine/channel_pool.h"
#include "engine/drive_share.h"
#include "engine/flight.h"

namespace penstock::core {

class SharedFlight {
 public:
  // The flight has been cut, and must outlive this.
  // It is all of a request of so many bytes, or a part of it, and its file is on the drive.
  SharedFlight(Flight& flight, ChannelPool& pool, std::uint64_t request_bytes, DriveShare& drive)
      : flight_(flight), plan_(flight.plan()), pool_(pool), is_long_(!pool.shape().fits(request_bytes)),
        drive_(is_long_ && plan_.middle_io_mode() == IoMode::o_direct ? &drive : nullptr),
        chunk_count_(plan_.middle_count()), progress_(flight.progress()) {}

  // The owner's work; waits for a channel.
  void work();
  // A helper's work; false if no channel is free or nothing is left to do.
  bool help();

  // Called by the owner when no other thread works on it: moves what is left, and ends the flight.
  void move_rest();
  std::uint64_t cpu_ns() const {  // The CPU time of all threads; call it when the middle has ended.
    progress_mutex_.assume_held();
    return cpu_ns_;
  }

 private:
  bool has_work() const {
    return !stop_.load(std::memory_order_relaxed) && next_.load(std::memory_order_relaxed) < chunk_count_;
  }
  TakenShare share() const { return {drive_, chunk_count_ > 0 ? plan_.in_turn(0).size : 0}; }
  void move_chunks(Channel& channel);
  std::optional<std::uint64_t> next_turn();
  void run_chunks(Channel& channel, Progress& own);
  void pipe_chunks(Channel& channel, Progress& own);
  void read_gap_again() REQUIRES(progress_mutex_);
  std::uint64_t turn_at(std::uint64_t position) const;

  Flight& flight_;
  const Plan& plan_;
  ChannelPool& pool_;
  const bool is_long_;
  DriveShare* const drive_;          // Null: it takes no share of it.
  const std::uint64_t chunk_count_;  // The chunks of the middle.
  alignas(64) std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> stop_{false};
  Mutex progress_mutex_;  // Each thread takes it once, when it has finished.
  Progress progress_ GUARDED_BY(progress_mutex_);
  std::uint64_t cpu_ns_ GUARDED_BY(progress_mutex_) = 0;
};

}  // namespace penstock::core
