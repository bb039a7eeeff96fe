// SPDX-License-Identifier: Apache-2.0

// For paths that can only move_and_wait() a chunk from start to end: chunks go one at a time, on the polling thread, so
// that workers, each with a channel, run them side by side. It has room for one chunk, so that no worker takes a chunk
// that another could begin.
#pragma once

#include <optional>
#include <utility>

#include "path/path.h"

namespace penstock::core {

// The options of channels beside a sequential one.
inline ChannelOptions one_at_a_time(ChannelOptions options) {
  options.depth = 1;
  return options;
}

class SequentialChannel : public Channel {
 public:
  bool has_room() const override { return !task_; }
  bool is_idle() const override { return !task_; }
  void submit(const Task& task) override { task_ = task; }
  // Moves the chunk, whether the caller wants to wait or not.
  unsigned poll(std::span<Completion> completions, bool) override {
    if (completions.empty() || !task_) return 0;
    const Task task = *std::exchange(task_, std::nullopt);
    completions[0] = move_and_wait(task);
    return 1;
  }
  void forget_file(std::uint64_t) override {}
  bool has_storage_under_way() const override { return task_.has_value(); }

 private:
  std::optional<Task> task_;
};

}  // namespace penstock::core
