// SPDX-License-Identifier: Apache-2.0

// One request on a user's stream, from the call to its end: the operations queued on the stream, their work when the
// stream gets there, and the executor's part. Streams (streams.h) makes and keeps them.
//
// The device's part is done by the stream itself, out of or into staging memory that the request has for as long as
// the stream may look at it; the executor moves bytes between there and the file, and never calls the device. So a
// held stream waits for nothing that could wait for a stream. Long requests are cut into parts, which take turns with
// the slots of the staging memory:
//
//   read:  (reached, wait for the slot, copy it to the device) for each part; acknowledge
//   write: reached; (wait for the slot unless it is new, copy to it, staged) for each part; wait for the last ones
//
// Arriving at the first part of a read starts as many parts as there are slots; at each later one, that the slot of the
// part before it is free. Where none is left to be started, nobody is told of the arrival.
//
// Bytes that the stream reaches by itself in the page cache (stream_loan.h) are staged nowhere: the copy takes them
// from there. They are borrowed when the stream arrives.
//
// Where the stream has nothing else to do when the call comes, it is there already, and the request begins in the call:
// nobody needs to be told of the first arrival, and what little the page cache has is staged by the caller itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "base/mutex.h"
#include "device/stream_home.h"
#include "frontend/executor.h"
#include "frontend/parts_progress.h"
#include "frontend/stream_loan.h"
#include "frontend/stream_parts.h"
#include "frontend/transfer.h"

namespace penstock::core {

class StreamRequest;

// State that requests share with their session. A request whose stream has not reached it may outlive the session.
struct StreamRequestPool {
  ~StreamRequestPool();

  Mutex mutex;
  // Null if the driver is closed: the session is gone, or about to go.
  Session* session GUARDED_BY(mutex) = nullptr;
  Executor* executor GUARDED_BY(mutex) = nullptr;
  // A list, because a request may end where no memory may be allocated.
  StreamRequest* idle GUARDED_BY(mutex) = nullptr;

  Status enqueue(std::span<Job* const> jobs);
};

// The caller's parameters. Their pointers must be valid until the outcome is delivered.
struct StreamParameters {
  Op op = Op::read;
  std::uint64_t file = 0;
  void* base = nullptr;
  // The number of bytes, read when the stream reaches the request: it may be less then than at the call, which takes
  // memory for it, and not more.
  const std::uint64_t* size = nullptr;
  const std::int64_t* file_offset = nullptr;
  const std::int64_t* buffer_offset = nullptr;
  void* result = nullptr;  // The first argument of deliver().
  bool fixed = false;      // The numbers of the call are final, and their pointers are not used later.

  RawRequest request() const {  // A request with the values that the pointers have now.
    return {.op = op,
            .file = file,
            .base = base,
            .size = *size,
            .file_offset = *file_offset,
            .buffer_offset = *buffer_offset};
  }
};

// Functions of the caller's side, called on any thread. The last two are called if statistics are kept and the session
// is open.
struct StreamHooks {
  // Writes the outcome where the caller looks for it, before the stream continues. Allocates no memory.
  void (*deliver)(void* result, const RawRequest& request, const Outcome& outcome) = nullptr;
  std::uint64_t (*clock)(const Session& session) = nullptr;
  void (*finished)(Session& session, const RawRequest& request, const Outcome& outcome, std::uint64_t began) = nullptr;
};

class StreamRequest {
 public:
  // The promises of a registered stream: these values do not change between the call and the arrival.
  enum Fixed : unsigned { kFixedBufferOffset = 1, kFixedFileOffset = 2, kFixedSize = 4, kFixedAll = 7 };

  struct Target {
    StreamHome* home = nullptr;
    void* stream = nullptr;
    PointerFacts memory;
    bool blocking = false;  // Waits are host functions, because the stream cannot wait by itself.
    StreamLoan::Lender lender;
    Session* here = nullptr;  // The session if the stream is ready now; else null.
    std::uint64_t staging_limit = 0;
  };

  explicit StreamRequest(StreamRequestPool& pool) : pool_(pool) {}

  // Queues all operations. If that fails, bytes may have moved, but nothing is delivered except bytes that were staged
  // in the call and then could not be queued. The request returns to its pool by itself; it is lost if the stream's
  // context is destroyed before the stream has reached it.
  Status begin(std::shared_ptr<StreamRequestPool> pool, const StreamParameters& parameters, unsigned fixed,
               const StreamHooks& hooks, const Target& target);

 private:
  friend class Streams;
  friend struct StreamRequestPool;

  enum class State : std::uint8_t {
    under_way,
    over,       // The outcome is delivered; the stream may still have to copy.
    abandoned,  // It could not be queued completely, and nothing is delivered any more. The stream passes what was.
    lost,       // Abandoned, and nobody will tell when the stream has passed: it may look at the block for ever.
  };

  struct Part final : Job {
    void complete(const Outcome& outcome) override { owner->complete(index, outcome); }
    StreamRequest* owner = nullptr;
    std::uint64_t index = 0;
    const std::byte* lent = nullptr;  // The address from which the stream copies a lent part by itself.
  };

  std::uint64_t room() const;
  Status take_block(std::uint64_t size_max);
  bool borrow_whole();
  void use(StreamBlock& block);
  Status enqueue();
  Status enqueue_read_part(std::uint64_t part);
  Status enqueue_write_part(std::uint64_t part);
  Status enqueue_arrival();
  Status call(void (*function)(void*));
  Status wait(std::uint64_t part);
  void abandon();
  std::uint64_t parts_to_come() const;

  static void on_arrival(void* request) { static_cast<StreamRequest*>(request)->stream_reached(); }
  static void on_staged(void* request) { static_cast<StreamRequest*>(request)->take_staged(); }
  static void on_wait(void* request) { static_cast<StreamRequest*>(request)->block(); }
  static void on_end(void* request) { static_cast<StreamRequest*>(request)->release(); }

  void stream_reached();
  void take_staged();
  void block();
  void read_parameters();
  Status check_parameters() const REQUIRES(mutex_);
  void start(std::uint64_t first, std::uint64_t end);
  Job* job_of(std::uint64_t part);
  bool borrow(Part& job);
  bool stage_at_once(const Part& job);
  void complete(std::uint64_t part, const Outcome& outcome);
  void describe_copy(std::uint64_t part, std::uint64_t bytes) REQUIRES(mutex_);
  void deliver() REQUIRES(mutex_);
  void release();

  bool is_abandoned() const REQUIRES(mutex_) { return state_ == State::abandoned || state_ == State::lost; }
  bool is_staged() const { return target_.memory.needs_device(); }
  // From the request's final size.
  std::uint64_t size_of(std::uint64_t part) const REQUIRES(mutex_) { return parts_.size_of(part, progress_.end()); }
  std::byte* staging_of(std::uint64_t part) const {
    return block_->staging() + parts_.slot_of(part) * parts_.bytes_max();
  }
  std::uint32_t ready_at(std::uint64_t part) const;

  StreamRequestPool& pool_;
  StreamRequest* next_idle_ = nullptr;
  // begin() sets the following before the stream knows of the request.
  std::shared_ptr<StreamRequestPool> keep_;
  StreamParameters parameters_;
  StreamHooks hooks_;
  Target target_;
  unsigned fixed_ = 0;
  std::uint64_t size_max_ = 0;
  StreamBlock* block_ = nullptr;
  std::uint32_t first_ready_[StreamBlock::kSlots] = {};
  StreamParts parts_;
  Part jobs_[StreamBlock::kSlots];
  StreamLoan loan_;
  // Users that will still look at this object: queued functions, parts, and begin().
  std::atomic<std::uint64_t> references_{0};
  std::uint64_t arrivals_queued_ = 0;
  std::uint64_t staged_queued_ = 0;
  bool ready_at_once_ = false;  // Everything is ready, so the stream need not wait.

  // Only the stream uses these, and so one operation after another.
  RawRequest request_;
  std::uint64_t began_ = 0;
  std::uint64_t arrivals_ = 0;
  std::uint64_t staged_ = 0;
  std::uint64_t waits_ = 0;

  Mutex mutex_;
  State state_ GUARDED_BY(mutex_) = State::under_way;
  PartsProgress progress_ GUARDED_BY(mutex_);  // Positions count from the request's first byte.
};

}  // namespace penstock::core
