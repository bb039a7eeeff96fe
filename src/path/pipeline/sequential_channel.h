// SPDX-License-Identifier: Apache-2.0

// For paths that can only move_and_wait() a chunk from start to end: chunks go one at a time, on the polling thread, so
// that workers, each with a channel, run them side by side. It has room for one chunk, so that no worker takes a chunk
// that another could begin.
#pragma once

#include <utility>

#include "path/path.h"
#include "path/pipeline/completions.h"

namespace penstock::core {

// The options of channels beside a sequential one.
inline ChannelOptions one_at_a_time(ChannelOptions options) {
  options.depth = 1;
  return options;
}

class SequentialChannel : public Channel {
 public:
  using Channel::Channel;
  bool has_room() const override { return is_idle(); }
  bool is_idle() const override { return submitted_.request == nullptr; }
  void submit(const RoutedRequest& request, const Chunk& chunk, std::uint64_t cookie) override {
    submitted_.take(request, chunk, cookie);
  }
  // Moves the chunk, whether the caller wants to wait or not.
  unsigned poll(std::span<Completion> completions, bool) override {
    if (completions.empty() || is_idle()) return 0;
    completions[0] = move_and_wait(*std::exchange(submitted_.request, nullptr), submitted_.chunk);
    completions[0].cookie = submitted_.cookie;
    return 1;
  }
  void forget_file(std::uint64_t) override {}
  bool has_storage_under_way() const override { return !is_idle(); }

 private:
  Submitted submitted_;  // Without a request: idle.
};

}  // namespace penstock::core
