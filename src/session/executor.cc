#include "session/executor.h"

#include <algorithm>
#include <array>

#include "base/thread.h"
#include "session/queue.h"

namespace penstock::core {
namespace {

// Up to this size a request is worth having in flight beside others; larger ones keep a storage device busy alone.
constexpr std::uint64_t kQueuedBytesMax = 128u << 10;
constexpr unsigned kQueueDepth = 32;

// A queue keeps what it has pinned. All of them together take no more than half of a device's ring, so that lanes of
// other requests find room.
bool is_worth_queues(const Config& config, unsigned threads) {
  constexpr std::uint64_t kQueueBytes = kQueueDepth * (kQueuedBytesMax + 4096);
  return threads * kQueueBytes <= config.ring_bytes / 2;
}

bool is_large(const Job& job) { return job.request.size > kQueuedBytesMax || job.request.staging != nullptr; }

}  // namespace

// One thread's part: its queue, and what it has in flight there.
class Executor::Hand {
 public:
  Hand(Session& session, unsigned threads) : session_(session), queues_(is_worth_queues(session.config(), threads)) {}

  bool is_idle() const { return in_flight_ == 0; }
  unsigned room() const { return kQueueDepth - in_flight_; }

  void carry_out(Job& job) {
    if (!queues_ || is_large(job) || !open_queue()) return move_now(job);
    const Status status = queue_->submit(job.request, reinterpret_cast<std::uintptr_t>(&job));
    // What the queue has no room for (pinned memory, one device more) goes like a call of its own.
    if (status.is(Code::limit) || status.is(Code::closed)) return move_now(job);
    if (!status.ok()) return job.finish({status, {}});
    ++in_flight_;
  }

  void reap(unsigned least) {
    if (is_idle()) return;
    std::array<QueueCompletion, kQueueDepth> completions;
    const unsigned count = queue_->reap(completions, least);
    in_flight_ -= count;
    for (unsigned i = 0; i < count; ++i) {
      reinterpret_cast<Job*>(completions[i].cookie)->finish({completions[i].status, completions[i].report});
    }
  }

 private:
  bool open_queue() {
    if (queue_ != nullptr) return true;
    Result<std::unique_ptr<Queue>> queue = Queue::open(session_, kQueueDepth, kQueuedBytesMax);
    if (queue.ok()) queue_ = std::move(*queue);
    return queue_ != nullptr;
  }

  // What is in flight does not wait for it longer than it must.
  void move_now(Job& job) {
    reap(0);
    job.finish(session_.transfer(job.request));
  }

  Session& session_;
  const bool queues_;
  std::unique_ptr<Queue> queue_;
  unsigned in_flight_ = 0;
};

Executor::~Executor() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    arrivals_.notify_all();
  }
  for (const pthread_t thread : threads_) ::pthread_join(thread, nullptr);
}

Status Executor::start_locked() {
  while (threads_.size() < threads_max_) {
    const auto body = [](void* executor) { static_cast<Executor*>(executor)->loop(); };
    pthread_t thread;
    if (!start_thread(thread, "penstock-async", body, this)) break;
    threads_.push_back(thread);
  }
  return threads_.empty() ? failure(Code::out_of_memory, "start a thread for the request") : success();
}

void Executor::append_locked(Job& job) {
  job.previous_ = last_;
  job.next_ = nullptr;
  job.waiting_ = true;
  (last_ == nullptr ? first_ : last_->next_) = &job;
  last_ = &job;
  ++waiting_;
}

void Executor::unlink_locked(Job& job) {
  (job.previous_ == nullptr ? first_ : job.previous_->next_) = job.next_;
  (job.next_ == nullptr ? last_ : job.next_->previous_) = job.previous_;
  job.waiting_ = false;
  --waiting_;
}

Status Executor::submit(std::span<Job* const> jobs) {
  const std::lock_guard lock(mutex_);
  if (threads_.empty()) {
    if (const Status status = start_locked(); !status.ok()) return status;
  }
  for (Job* job : jobs) append_locked(*job);
  // Each wakes up for a share.
  for (std::size_t i = 0; i < std::min(jobs.size(), threads_.size()); ++i) arrivals_.notify_one();
  return success();
}

bool Executor::withdraw(Job& job) {
  const std::lock_guard lock(mutex_);
  const bool waiting = job.waiting_;
  if (waiting) unlink_locked(job);
  return waiting;
}

// A fair share of the line, so that all threads take part; and one large job at most, since what a thread has taken
// can neither be withdrawn nor be carried out by another.
unsigned Executor::take(std::span<Job*> jobs, bool wait) {
  std::unique_lock lock(mutex_);
  if (wait) arrivals_.wait(lock, [this] { return waiting_ > 0 || stopping_; });
  const std::size_t share = std::min((waiting_ + threads_.size() - 1) / threads_.size(), jobs.size());
  unsigned count = 0;
  for (bool large = false; count < share && !large; ++count) {
    jobs[count] = first_;
    large = is_large(*first_);
    unlink_locked(*first_);
  }
  return count;
}

void Executor::loop() {
  Hand hand(session_, threads_max_);
  std::array<Job*, kGrabMax> jobs;
  for (;;) {
    const bool idle = hand.is_idle();
    const unsigned count = take(std::span(jobs).first(std::min(hand.room(), kGrabMax)), idle);
    if (count == 0 && idle) return;
    for (unsigned i = 0; i < count; ++i) hand.carry_out(*jobs[i]);
    hand.reap(count == 0 || hand.room() == 0 ? 1 : 0);
  }
}

}  // namespace penstock::core
