// Futures and callbacks over a queue of penstock.hpp.
//
//   penstock::AsyncQueue queue(std::move(*session.queue(64)));
//   auto read = queue.submit(file.request(PENSTOCK_READ, memory, size, 0));
//   if (!read) return report(read.error().message());
//   const penstock::Outcome outcome = read->get();
//
// The queue starts no thread: a thread that waits in get() or run() reaps completions for itself and for all other
// waiters. An event loop watches eventfd(), and calls run(0) when it is readable. Thread-safe over a threaded queue.
// Over a polled queue, which moves bytes within these calls, only one thread may use it.
//
// Objects may be destroyed in any order. A future keeps the queue open. When the last object that holds the queue is
// destroyed, the queue waits for the requests that have begun; callbacks that were not called by then are never called.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "penstock/penstock.hpp"

namespace penstock {

namespace detail {

// The state that a queue and its futures share.
class Waiting {
 public:
  using Callback = std::function<void(const Outcome&)>;

  explicit Waiting(Queue queue) : queue_(std::move(queue)) {}
  Queue& queue() { return queue_; }

  // Returns the request's number, which cancel() takes.
  Result<std::uint64_t> submit(Request request, Callback callback) {
    {
      const std::lock_guard lock(mutex_);
      request.cookie = ++last_;
      callbacks_.emplace(request.cookie, std::move(callback));
    }
    const Status status = queue_.submit(request);
    if (status.ok()) return request.cookie;
    const std::lock_guard lock(mutex_);
    callbacks_.erase(request.cookie);
    return status;
  }

  // Returns how many requests have ended; it has called their callbacks on this thread.
  Result<unsigned> run(std::int64_t timeout_ns) {
    constexpr unsigned kAtOnce = 16;
    Completion done[kAtOnce];
    const Result<unsigned> count = queue_.reap(done, kAtOnce, 1, timeout_ns);
    for (unsigned i = 0; count && i < *count; ++i) {
      if (const Callback callback = take(done[i].cookie)) callback(done[i].outcome());
    }
    return count;
  }

  // Runs until is_over(), which a callback makes true. Of several threads one reaps, and the others wait for it.
  template <typename IsOver>
  Status run_until(IsOver is_over) {
    std::unique_lock lock(mutex_);
    while (!is_over()) {
      if (is_looked_after_) {
        changed_.wait(lock);
        continue;
      }
      is_looked_after_ = true;
      lock.unlock();
      const Result<unsigned> count = run(Queue::kForever);
      lock.lock();
      is_looked_after_ = false;
      changed_.notify_all();
      if (!count) return count.error();
      // Nothing is left to reap: another thread in run() took the completion, and is about to call the callback.
      if (*count == 0 && !is_over()) changed_.wait(lock);
    }
    return {};
  }
  // For callbacks: changes the state that is_over() reads.
  template <typename Change>
  void change(Change change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  template <typename Look>
  auto look(Look look) {
    const std::lock_guard lock(mutex_);
    return look();
  }

 private:
  // Empty for requests that the queue already had before it was wrapped.
  Callback take(std::uint64_t cookie) {
    const std::lock_guard lock(mutex_);
    const auto found = callbacks_.find(cookie);
    if (found == callbacks_.end()) return {};
    Callback callback = std::move(found->second);
    callbacks_.erase(found);
    return callback;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_looked_after_ = false;
  std::uint64_t last_ = 0;
  std::unordered_map<std::uint64_t, Callback> callbacks_;
  Queue queue_;  // Destroyed first: no request uses memory after that.
};

}  // namespace detail

// The outcome of a request submitted to an AsyncQueue. Thread-safe.
class Future {
 public:
  bool is_done() const {
    return waiting_->look([this] { return ended_->is_done; });
  }
  // Waits until the request has ended. May be called more than once, but not from a callback.
  Outcome get() const {
    const Status status = waiting_->run_until([this] { return ended_->is_done; });
    if (!status.ok()) return {status, {}};
    return waiting_->look([this] { return ended_->outcome; });
  }
  // Returns true if the request had not begun; get() then returns PENSTOCK_CANCELED.
  bool cancel() const {
    const Result<unsigned> canceled = waiting_->queue().cancel(number_);
    return canceled && *canceled > 0;
  }

 private:
  friend class AsyncQueue;
  struct Ended {
    bool is_done = false;
    Outcome outcome;
  };
  explicit Future(std::shared_ptr<detail::Waiting> waiting) : waiting_(std::move(waiting)) {}

  std::shared_ptr<detail::Waiting> waiting_;
  std::shared_ptr<Ended> ended_ = std::make_shared<Ended>();
  std::uint64_t number_ = 0;
};

class AsyncQueue {
 public:
  // Called once for each request, on a thread that is in run() or Future::get(). Must not throw.
  using Callback = detail::Waiting::Callback;

  explicit AsyncQueue(Queue queue) : waiting_(std::make_shared<detail::Waiting>(std::move(queue))) {}

  // The request's cookie is ignored. If the queue refuses the request, the callback is never called.
  Status submit(const Request& request, Callback callback) {
    return waiting_->submit(request, std::move(callback)).error();
  }
  Result<Future> submit(const Request& request) {
    Future future(waiting_);
    // The caller keeps the queue and the shared state alive; the callback holds neither, since a cycle would never be
    // freed.
    const auto end = [waiting = waiting_.get(), ended = future.ended_](const Outcome& outcome) {
      waiting->change([&] {
        ended->outcome = outcome;
        ended->is_done = true;
      });
    };
    const Result<std::uint64_t> number = waiting_->submit(request, end);
    if (!number) return number.error();
    future.number_ = *number;
    return future;
  }
  // Waits until a request has ended, or `timeout_ns` have passed. Calls the callbacks of the requests that have ended,
  // and returns their number; returns 0 at once where no request is outstanding.
  Result<unsigned> run(std::int64_t timeout_ns = Queue::kForever) { return waiting_->run(timeout_ns); }
  Result<int> eventfd() { return waiting_->queue().eventfd(); }

 private:
  std::shared_ptr<detail::Waiting> waiting_;
};

}  // namespace penstock
