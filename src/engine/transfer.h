// SPDX-License-Identifier: Apache-2.0

// One large request under way. Any number of threads draw its chunks from one counter, each through a channel of its
// own, until none is left or something went wrong; the thread that made it collects what came of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/mutex.h"
#include "engine/channel_pool.h"
#include "engine/progress.h"
#include "path/path.h"

namespace penstock::core {

inline Progress progress_of(const RoutedRequest& input) { return {input.file_offset, input.size}; }

Task make_task(const RoutedRequest& input, const Token& token, Chunk chunk);

class Transfer {
 public:
  Transfer(const RoutedRequest& input, const Token& token, const Plan& plan, ChannelPool& pool)
      : input_(input), token_(token), plan_(plan), pool_(pool), chunk_count_(plan.chunk_count()),
        progress_(progress_of(input)) {}

  // The owner's part: waits for a channel.
  void work();
  // A helper's part: false where no channel is free or nothing is left to do.
  bool help();

  // The owner's again, once nobody else works on it: what had to wait for the middle.
  void finish();

  // Once it is over.
  const Progress& progress() const {
    progress_mutex_.assume_held();  // Nobody else works on it any more.
    return progress_;
  }
  std::uint64_t cpu_ns() const {  // Of all who worked on it.
    progress_mutex_.assume_held();
    return cpu_ns_;
  }

 private:
  bool has_work() const {
    return !stop_.load(std::memory_order_relaxed) && next_.load(std::memory_order_relaxed) < chunk_count_;
  }
  void move_chunks(Channel& channel);
  std::optional<Task> next_task();
  bool submit_next(Channel& channel);
  void run_chunks(Channel& channel, Progress& own);
  void pipe_chunks(Channel& channel, Progress& own);
  void read_gap_again() REQUIRES(progress_mutex_);
  void finish_head_and_tail() REQUIRES(progress_mutex_);
  std::uint64_t chunk_at(std::uint64_t position) const;

  const RoutedRequest& input_;
  const Token& token_;
  const Plan& plan_;
  ChannelPool& pool_;
  const std::uint64_t chunk_count_;
  alignas(64) std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> stop_{false};
  Mutex progress_mutex_;  // Taken once by each thread, when it is through.
  Progress progress_ GUARDED_BY(progress_mutex_);
  std::uint64_t cpu_ns_ GUARDED_BY(progress_mutex_) = 0;
};

}  // namespace penstock::core
