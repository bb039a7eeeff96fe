// SPDX-License-Identifier: Apache-2.0

// Chunks by NVIDIA's synchronous calls: one at a time and on the polling thread, so that workers, each with a channel,
// run them side by side. What is refused is the affair of the BouncingChannel around it.
#pragma once

#include <vector>

#include "path/path.h"
#include "storage/storage.h"

namespace penstock::core {

class VendorPath;

class VendorChannel final : public Channel {
 public:
  VendorChannel(VendorPath& path, Storage& storage, Device& device, unsigned depth)
      : path_(path), storage_(storage), device_(device), depth_(depth) {
    waiting_.reserve(depth);
  }

  bool has_room() const override { return waiting_.size() < depth_; }
  bool is_idle() const override { return waiting_.empty(); }
  void submit(const Task& task) override { waiting_.push_back(task); }
  // Moves one chunk, whether it is to wait or not.
  unsigned poll(std::span<Completion> completions, bool wait) override;
  Completion run(const Task& task) override;
  void forget_file(std::uint64_t) override {}  // Its handle is the path's.
  bool is_broken() const override { return false; }

 private:
  Status move(const Task& task, std::uint64_t& moved);
  bool is_at_end(const Task& task, std::uint64_t moved);

  VendorPath& path_;
  Storage& storage_;
  Device& device_;
  const unsigned depth_;
  std::vector<Task> waiting_;  // The oldest first.
};

}  // namespace penstock::core
