// SPDX-License-Identifier: Apache-2.0

// Kernels on the host: the code of penstock/gpu.cuh, where a thread stands for a lane and work in a stream of the
// stand-in device for a kernel. Registered pages are read as the stand-in holds them: like a GPU, a kernel goes on to
// see pages that were truncated away.
#pragma once

#include <barrier>
#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "device/host/host_streams.h"
#include "penstock/gpu.cuh"

namespace penstock {

// A lane of a group of threads, as a Warp has lanes.
class Lane {
 public:
  struct Group {
    explicit Group(unsigned lanes) : count(lanes), barrier(static_cast<std::ptrdiff_t>(lanes)) {}
    const unsigned count;
    std::barrier<> barrier;
    unsigned long long shared = 0;
  };
  Lane(Group& group, unsigned rank) : group_(group), rank_(rank) {}

  unsigned thread_rank() const { return rank_; }
  unsigned size() const { return group_.count; }
  void sync() const { group_.barrier.arrive_and_wait(); }
  template <typename Value>
  Value shfl(Value value, unsigned from) const {
    sync();
    if (rank_ == from) group_.shared = static_cast<unsigned long long>(value);
    sync();
    return static_cast<Value>(group_.shared);
  }

 private:
  Group& group_;
  const unsigned rank_;
};

class HostKernels {
 public:
  HostKernels() { gpu::detail::fetch_pages = fetch; }
  ~HostKernels() {
    wait();
    gpu::detail::fetch_pages = nullptr;
  }
  HostKernels(const HostKernels&) = delete;
  HostKernels& operator=(const HostKernels&) = delete;

  // Begins a kernel: body(lane) on so many threads, one group. The device waits for it from the call's return on.
  void launch(unsigned lanes, std::function<void(const Lane&)> body) {
    const auto has_begun = std::make_shared<std::latch>(1);
    threads_.emplace_back([lanes, has_begun, body = std::move(body)] {
      auto run = [&] {
        has_begun->count_down();
        run_group(lanes, body);
      };
      const auto call = [](void* work) { (*static_cast<decltype(run)*>(work))(); };
      (void)core::HostStreamHome::of_process().call(&run, call, &run);
    });
    has_begun->wait();
  }
  // Returns when all kernels have ended.
  void wait() {
    for (std::thread& each : threads_) each.join();
    threads_.clear();
  }

 private:
  static void run_group(unsigned lanes, const std::function<void(const Lane&)>& body) {
    Lane::Group group(lanes);
    std::vector<std::thread> others;
    for (unsigned rank = 1; rank < lanes; ++rank) others.emplace_back([&group, &body, rank] { body({group, rank}); });
    body({group, 0});
    for (std::thread& each : others) each.join();
  }
  static bool fetch(void* to, const void* from, unsigned long size) {
    return core::HostStreamHome::of_process().pages().fetch(to, from, size);
  }

  std::vector<std::thread> threads_;
};

}  // namespace penstock
