// SPDX-License-Identifier: Apache-2.0

// For the tests of a single path: a file and a device's memory, and requests between them that are prepared, planned
// and moved chunk by chunk, as in the engine. A derived class frees file, path and devices, in this order, in
// TearDown(), since they use its members.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <set>

#include "path/path.h"

namespace penstock::core {

class PathFixture : public testing::Test {
 protected:
  static constexpr std::uint64_t kFileBytes = 300'000, kChunk = 64u << 10;

  virtual Path& path() = 0;

  std::unique_ptr<Channel> channel(unsigned depth = 1) {
    return std::move(*path().open_channel({.device = device_, .depth = depth, .chunk_max = kChunk}));
  }
  // One of all bytes, unless it has a size; it lives as long as the test.
  const RoutedRequest& request(Op op, std::uint64_t size = kFileBytes) {
    RoutedRequest& request = requests_.emplace_back();
    request.op = op;
    request.size = size;
    request.file = file_.get();
    request.memory = reinterpret_cast<std::byte*>(memory_);
    request.facts = devices_->describe(memory_);
    request.io_mode = IoMode::o_direct;
    request.chunk_max = kChunk;
    request.shape = path().shape(request);
    return request;
  }
  Plan plan(Op op, std::uint64_t offset, std::uint64_t size) {
    const Request request{
        .op = op, .file_offset = offset, .buffer_address = reinterpret_cast<std::uintptr_t>(memory_), .size = size};
    return {request, this->request(op).shape.limits};
  }
  // All chunks of a request through one channel, four at a time; bytes by why they were bounced.
  std::map<Reason, std::uint64_t> move(Op op, std::uint64_t offset, std::uint64_t size) {
    const std::unique_ptr<Channel> channel = this->channel(4);
    const Plan plan = this->plan(op, offset, size);
    std::map<Reason, std::uint64_t> bytes;
    std::uint64_t next = 0;
    Completion completions[4];
    while (next < plan.chunk_count() || !channel->is_idle()) {
      while (next < plan.chunk_count() && channel->has_room()) channel->submit(request(op), plan.chunk(next++), 0);
      const unsigned count = channel->poll(completions, true);
      for (unsigned i = 0; i < count; ++i) {
        EXPECT_TRUE(completions[i].status.ok()) << describe(completions[i].status);
        EXPECT_EQ(completions[i].bytes, completions[i].size);
        bytes[completions[i].bounced] += completions[i].bytes;
        io_modes_.insert(completions[i].io_mode);
      }
    }
    return bytes;
  }

  std::unique_ptr<DeviceSet> devices_;
  Device* device_ = nullptr;
  char* memory_ = nullptr;
  std::unique_ptr<File> file_;
  std::set<IoMode> io_modes_;  // By which chunks have gone.
  std::deque<RoutedRequest> requests_;
};

}  // namespace penstock::core
