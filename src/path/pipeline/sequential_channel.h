// SPDX-License-Identifier: Apache-2.0

// For paths that can do no more than run() a chunk from start to end: chunks go one at a time, on the polling thread,
// so that workers, each with a channel, run them side by side.
#pragma once

#include <vector>

#include "path/path.h"

namespace penstock::core {

class SequentialChannel : public Channel {
 public:
  explicit SequentialChannel(unsigned depth) : depth_(depth) { waiting_.reserve(depth); }

  bool has_room() const override { return waiting_.size() < depth_; }
  bool is_idle() const override { return waiting_.empty(); }
  void submit(const Task& task) override { waiting_.push_back(task); }
  // Moves one chunk, whether it is to wait or not.
  unsigned poll(std::span<Completion> completions, bool) override {
    if (completions.empty() || waiting_.empty()) return 0;
    const Task task = waiting_.front();
    waiting_.erase(waiting_.begin());
    completions[0] = run(task);
    return 1;
  }
  void forget_file(std::uint64_t) override {}

 private:
  const unsigned depth_;
  std::vector<Task> waiting_;  // The oldest first.
};

}  // namespace penstock::core
