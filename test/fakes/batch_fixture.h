// SPDX-License-Identifier: Apache-2.0

// The fixture of batch tests: a session over storage whose transfers can be blocked, so that tests control which
// requests are in flight.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/host/host_device.h"
#include "fakes/fake_storage.h"
#include "fakes/test_config.h"
#include "frontend/frontends.h"

namespace penstock::core {

inline constexpr std::uint64_t kLarge = 1u << 20;
inline constexpr unsigned kThreads = 2;

// Transfers wait here until it opens.
class Barrier {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    const unsigned number = ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_ || number <= let_through_; });
  }
  // The first so many.
  void let_through(unsigned arrivals) {
    const std::lock_guard lock(mutex_);
    let_through_ = arrivals;
    changed_.notify_all();
  }
  void wait_for(unsigned arrivals) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= arrivals; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool is_open() {
    const std::lock_guard lock(mutex_);
    return open_;
  }
  unsigned arrived() {
    const std::lock_guard lock(mutex_);
    return arrived_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned arrived_ = 0;
  unsigned let_through_ = 0;
  bool open_ = false;
};

// Reads outside the page cache wait until the barrier opens.
class HeldRing final : public Ring {
 public:
  HeldRing(std::unique_ptr<Ring> real, Barrier& barrier) : real_(std::move(real)), barrier_(barrier) {}
  void push(const RingOp& op) override { real_->push(op); }
  Status submit() override { return real_->submit(); }
  Result<unsigned> reap(std::span<RingCompletion> completions, bool wait) override {
    if (wait) barrier_.pass();
    return wait || barrier_.is_open() ? real_->reap(completions, wait) : 0u;
  }
  Status register_memory(void*, std::size_t) override { return success(); }
  int register_file(int) override { return -1; }
  void unregister_file(int) override {}

 private:
  const std::unique_ptr<Ring> real_;
  Barrier& barrier_;
};

class HeldStorage final : public FakeStorage {
 public:
  Result<std::size_t> read(int fd, void* memory, std::size_t size, std::uint64_t offset) override {
    if (barrier != nullptr) barrier->pass();
    return FakeStorage::read(fd, memory, size, offset);
  }
  Result<std::size_t> read_if_cached(int fd, void* memory, std::size_t size, std::uint64_t offset) override {
    if (barrier != nullptr && size >= held_from) barrier->pass();
    return FakeStorage::read_if_cached(fd, memory, size, offset);
  }
  Result<std::size_t> write(int fd, const void* memory, std::size_t size, std::uint64_t offset) override {
    if (barrier != nullptr) barrier->pass();
    return FakeStorage::write(fd, memory, size, offset);
  }

  Result<std::unique_ptr<Ring>> open_ring(unsigned depth) override {
    auto ring = FakeStorage::open_ring(depth);
    if (ring_barrier == nullptr) return ring;
    return std::unique_ptr<Ring>(std::make_unique<HeldRing>(std::move(ring.value()), *ring_barrier));
  }

  Barrier* barrier = nullptr;
  std::size_t held_from = 0;  // Bytes; of what is in the page cache.
  Barrier* ring_barrier = nullptr;
};

class BatchTest : public testing::Test {
 protected:
  explicit BatchTest(std::uint64_t bounce_bytes = 0) {
    auto storage = std::make_unique<HeldStorage>();
    storage->content.resize(64 << 20);
    storage_ = storage.get();
    Config config = test_config({{"workers", std::to_string(kThreads)}});
    if (bounce_bytes != 0) config.bounce_bytes = bounce_bytes;
    session_ = std::make_unique<Session>(config, std::move(storage), std::make_unique<HostDeviceSet>());
    frontends_ = std::make_unique<Frontends>(*session_);
    file_ = *session_->register_file(FakeStorage::kUserFd);
  }
  ~BatchTest() override { barrier_.open(); }

  ThreadedQueue& open_batch(unsigned capacity) {
    batch_ = *frontends_->open_batch(capacity);
    ThreadedQueue* batch = frontends_->pin_batch(batch_);
    frontends_->unpin_batch(batch_);
    return *batch;
  }
  void hold_transfers_up() { storage_->barrier = &barrier_; }
  char* device_memory(std::size_t size) {
    return static_cast<char*>(session_->devices().device(0).value()->memory().allocate(size).value());
  }
  // Entry i reads or writes its own mebibyte of the file, and has the cookie i + 1.
  std::vector<QueuedRequest> entries(unsigned count, Op op, char* memory, std::uint64_t size = kLarge) {
    std::vector<QueuedRequest> all;
    for (unsigned i = 0; i < count; ++i) {
      const auto offset = static_cast<std::int64_t>(i * kLarge);
      all.push_back({.request = {op, file_, memory, size, offset, offset}, .cookie = std::uint64_t{i} + 1});
    }
    return all;
  }
  static ThreadedQueue::Deadline soon() { return std::chrono::steady_clock::now() + std::chrono::milliseconds(5); }

  Barrier barrier_;
  HeldStorage* storage_ = nullptr;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Frontends> frontends_;
  std::uint64_t file_ = 0;
  std::uint64_t batch_ = 0;
};

}  // namespace penstock::core
