// SPDX-License-Identifier: Apache-2.0

#include "frontend/stream_request.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/invariant.h"

namespace penstock::core {
namespace {

// The most bytes that a caller stages itself: copying more out of the page cache would keep it from its other work.
constexpr std::uint64_t kAtOnceMax = 64u << 10;

const char* step_of(Op op) { return op == Op::read ? "read the file on the stream" : "write the file on the stream"; }

}  // namespace

StreamRequestPool::~StreamRequestPool() {
  while (idle != nullptr) delete std::exchange(idle, idle->next_idle_);
}

Status StreamRequestPool::enqueue(std::span<Job* const> jobs) {
  const MutexLock lock(mutex);
  return executor != nullptr ? executor->enqueue(jobs) : failure(Code::closed, step_of(jobs[0]->request.op));
}

// ---- The call ------------------------------------------------------------------------------------------------------

Status StreamRequest::begin(std::shared_ptr<StreamRequestPool> pool, const StreamParameters& parameters, unsigned fixed,
                            const StreamHooks& hooks, const Target& target) {
  mutex_.assume_held();  // No other thread knows of the request yet.
  keep_ = std::move(pool);
  parameters_ = parameters;
  fixed_ = fixed;
  hooks_ = hooks;
  target_ = target;
  request_ = parameters.request();
  size_max_ = request_.size;
  if (is_staged()) request_.memory = &target_.memory;
  began_ = arrivals_ = staged_ = waits_ = arrivals_queued_ = staged_queued_ = 0;
  progress_ = {};
  state_ = State::under_way;
  ready_at_once_ = false;
  loan_.reset(target.lender);
  for (Part& job : jobs_) job.lent = nullptr;
  block_ = nullptr;
  references_.store(1);

  Status status = borrow_whole() ? success() : take_block(std::min(size_max_, room()));
  if (status.ok()) {
    references_.fetch_add(parts_.count());
    status = enqueue();
    if (!status.ok()) abandon();
  }
  release();
  return status;
}

// Borrows the whole request for a stream that is ready now, as one part without staging memory. The block is taken
// first: from then on nothing is unregistered.
bool StreamRequest::borrow_whole() {
  mutex_.assume_held();  // No other thread knows of the request yet.
  if (target_.here == nullptr || !loan_.may_lend(size_max_) || !check_parameters().ok()) return false;
  const Result<StreamBlock*> block = target_.home->memory().take(0, target_.staging_limit);
  if (!block.ok()) return false;
  parts_ = StreamParts::whole(size_max_);
  fixed_ = kFixedAll;
  const bool is_lent = loan_.borrow_whole(*target_.here, request_);
  if (is_lent) use(**block);
  else target_.home->memory().give_back(**block);
  return is_lent;
}

// The bytes from the base to the end of its allocation. A larger request is refused when the stream reaches it, so it
// needs no parts.
std::uint64_t StreamRequest::room() const {
  const PointerFacts& memory = target_.memory;
  const std::uint64_t at = reinterpret_cast<std::uintptr_t>(parameters_.base) - memory.base;
  return !is_staged() || memory.size == 0 ? UINT64_MAX : at < memory.size ? memory.size - at : 0;
}

// Takes a block of staging memory; makes parts shorter if there is no room for long ones.
Status StreamRequest::take_block(std::uint64_t size_max) {
  parts_ = is_staged() ? StreamParts::staged(parameters_.op, size_max) : StreamParts::whole(size_max);
  for (;;) {
    // Pinned memory stays pinned, so a request gets more than two slots only while much of the limit is free.
    const std::uint64_t limit = parts_.slots() > 2 ? target_.staging_limit / 2 : target_.staging_limit;
    const Result<StreamBlock*> block = target_.home->memory().take(is_staged() ? parts_.staging_bytes() : 0, limit);
    if (block.ok()) {
      use(**block);
      return success();
    }
    if (!is_staged() || !parts_.shrink()) return block.status();
  }
}

void StreamRequest::use(StreamBlock& block) {
  block_ = &block;
  block_->user = this;
  for (unsigned slot = 0; slot < parts_.slots(); ++slot) {
    first_ready_[slot] = block_->begun[slot] + 1;
    block_->begun[slot] += static_cast<std::uint32_t>(parts_.turns_of(slot));
    block_->copy(slot) = {};
  }
}

std::uint32_t StreamRequest::ready_at(std::uint64_t part) const {
  return first_ready_[parts_.slot_of(part)] + static_cast<std::uint32_t>(parts_.turn_of(part));
}

Status StreamRequest::enqueue() {
  const bool reads = parameters_.op == Op::read;
  Status status = target_.here != nullptr || !reads || !is_staged() ? enqueue_arrival() : success();
  for (std::uint64_t part = 0; status.ok() && is_staged() && part < parts_.count(); ++part) {
    status = reads ? enqueue_read_part(part) : enqueue_write_part(part);
  }
  if (!status.ok()) return status;
  if (!is_staged()) return wait(0);
  if (!reads) {
    for (std::uint64_t part = parts_.count() - parts_.slots(); status.ok() && part < parts_.count(); ++part) {
      status = wait(part);
    }
    return status;
  }
  if (target_.blocking) return call(on_end);
  ++block_->to_be_acknowledged;
  return target_.home->work().write(target_.stream, *block_, block_->acknowledged(), block_->to_be_acknowledged);
}

// Queues the first arrival, or calls stream_reached() at once if the stream is ready.
Status StreamRequest::enqueue_arrival() {
  if (target_.here == nullptr) return call(on_arrival);
  references_.fetch_add(1);
  ++arrivals_queued_;
  stream_reached();
  const MutexLock lock(mutex_);
  ready_at_once_ = progress_.is_over();
  return success();
}

Status StreamRequest::enqueue_read_part(std::uint64_t part) {
  const bool starts_others = part == 0 ? target_.here == nullptr : part + parts_.slots() <= parts_.count();
  if (const Status status = starts_others ? call(on_arrival) : success(); !status.ok()) return status;
  if (loan_.has_whole()) return loan_.copy(target_.home->work(), target_.stream, *block_, request_);
  const StreamCopy& what = block_->copy(parts_.slot_of(part));
  if (ready_at_once_) return target_.home->work().copy_at_once(target_.stream, *block_, what);
  if (const Status status = wait(part); !status.ok()) return status;
  return target_.home->work().copy(target_.stream, *block_, what, parts_.bytes_max());
}

Status StreamRequest::enqueue_write_part(std::uint64_t part) {
  if (const Status status = part >= parts_.slots() ? wait(part - parts_.slots()) : success(); !status.ok())
    return status;
  const Status status =
      target_.home->work().copy(target_.stream, *block_, block_->copy(parts_.slot_of(part)), parts_.bytes_max());
  return status.ok() ? call(on_staged) : status;
}

Status StreamRequest::call(void (*function)(void*)) {
  references_.fetch_add(1);
  const Status status = target_.home->work().call(target_.stream, function, this);
  if (!status.ok()) references_.fetch_sub(1);
  else if (function == on_arrival) ++arrivals_queued_;
  else if (function == on_staged) ++staged_queued_;
  return status;
}

Status StreamRequest::wait(std::uint64_t part) {
  if (target_.blocking) return call(on_wait);
  return target_.home->work().wait(target_.stream, *block_, block_->word(parts_.slot_of(part)), ready_at(part));
}

// Ends a request that could not be queued completely. Operations that are already on the stream must not hold it up. A
// last function tells when the stream has passed them; if that cannot be queued either, the block is lost.
void StreamRequest::abandon() {
  const bool queued = arrivals_queued_ > 0;
  {
    const MutexLock lock(mutex_);
    if (queued) state_ = State::abandoned;
    for (unsigned slot = 0; slot < parts_.slots(); ++slot) {
      std::atomic_ref(block_->copy(slot).size).store(0, std::memory_order_relaxed);
    }
  }
  for (unsigned slot = 0; slot < parts_.slots(); ++slot)
    target_.home->work().set(block_->word(slot), block_->begun[slot]);
  if (queued && !call(on_end).ok()) {
    const MutexLock lock(mutex_);
    state_ = State::lost;
  }
  references_.fetch_sub(parts_.count() - parts_to_come());
}

// The number of parts that the queued arrivals will start or have started.
std::uint64_t StreamRequest::parts_to_come() const {
  if (arrivals_queued_ == 0) return 0;
  if (!is_staged()) return 1;
  return parameters_.op == Op::read ? std::min(arrivals_queued_ + parts_.slots() - 1, parts_.count()) : staged_queued_;
}

// ---- The stream has reached the request: on a thread of the driver's, or in the call

void StreamRequest::stream_reached() {
  const std::uint64_t arrival = arrivals_++;
  if (arrival == 0) read_parameters();
  if (parameters_.op == Op::read || !is_staged()) {
    start(arrival == 0 ? 0 : arrival + parts_.slots() - 1, arrival + parts_.slots());
  }
  release();
}

void StreamRequest::take_staged() {
  const std::uint64_t part = staged_++;
  start(part, part + 1);
  release();
}

void StreamRequest::block() {
  const std::uint64_t part = waits_++;
  const std::uint32_t wanted = ready_at(part);
  const std::atomic_ref word(block_->word(parts_.slot_of(part)));
  for (std::uint32_t seen = word.load(std::memory_order_acquire); static_cast<std::int32_t>(seen - wanted) < 0;
       seen = word.load(std::memory_order_acquire)) {
    word.wait(seen);
  }
  release();
}

void StreamRequest::read_parameters() {
  if ((fixed_ & kFixedSize) == 0) request_.size = *parameters_.size;
  if ((fixed_ & kFixedFileOffset) == 0) request_.file_offset = *parameters_.file_offset;
  if ((fixed_ & kFixedBufferOffset) == 0) request_.buffer_offset = *parameters_.buffer_offset;
  bool closed = false;
  {
    const MutexLock lock(pool_.mutex);
    closed = pool_.executor == nullptr;
    if (!closed && hooks_.clock != nullptr) began_ = hooks_.clock(*pool_.session);
  }
  const MutexLock lock(mutex_);
  progress_ = PartsProgress(0, request_.size, parts_.count());
  const Status status = closed ? failure(Code::closed, step_of(parameters_.op)) : check_parameters();
  if (!status.ok()) progress_.fail_at(0, status);
  if (parameters_.op == Op::read || !is_staged()) return;
  for (std::uint64_t part = 0; part < parts_.slots(); ++part) describe_copy(part, size_of(part));
}

// Checks the numbers on which the stream's own copies rely; the session checks the others.
Status StreamRequest::check_parameters() const {
  const char* const step = step_of(parameters_.op);
  if (request_.size > size_max_) return failure(Code::invalid_argument, step);
  if (request_.file_offset < 0 || request_.buffer_offset < 0) return failure(Code::negative_offset, step);
  if (request_.size > static_cast<std::uint64_t>(INT64_MAX - request_.file_offset)) {
    return failure(Code::invalid_argument, step);
  }
  const PointerFacts& memory = target_.memory;
  if (!is_staged() || memory.size == 0) return success();
  const std::uint64_t at = reinterpret_cast<std::uintptr_t>(request_.base) - memory.base;
  const auto offset = static_cast<std::uint64_t>(request_.buffer_offset);
  const bool inside = at <= memory.size && offset <= memory.size - at && request_.size <= memory.size - at - offset;
  return inside ? success() : failure(Code::past_allocation, step);
}

// Submits several parts at once, so that the threads that take them are woken only once.
void StreamRequest::start(std::uint64_t first, std::uint64_t end) {
  std::array<Job*, StreamBlock::kSlots> jobs;
  std::size_t count = 0;
  for (std::uint64_t part = first; part < end; ++part) {
    if (Job* const job = job_of(part)) jobs[count++] = job;
  }
  if (count == 0) return;
  const Status status = pool_.enqueue(std::span(jobs).first(count));
  for (std::size_t i = 0; !status.ok() && i < count; ++i) complete(static_cast<Part*>(jobs[i])->index, {status, {}});
}

// Makes the job of a part; null if the part has already ended.
Job* StreamRequest::job_of(std::uint64_t part) {
  std::uint64_t size = 0;
  {
    const MutexLock lock(mutex_);
    if (!is_abandoned()) size = size_of(part);
  }
  if (size == 0) {
    complete(part, {});
    return nullptr;
  }
  Part& job = jobs_[parts_.slot_of(part)];  // The part that used the slot before has ended.
  job.request = request_;
  job.request.size = size;
  job.owner = this;
  job.index = part;
  job.request.file_offset += static_cast<std::int64_t>(parts_.begin_of(part));
  job.request.buffer_offset += static_cast<std::int64_t>(parts_.begin_of(part));
  job.lent = nullptr;
  if (borrow(job)) return nullptr;
  job.request.staging = is_staged() ? staging_of(part) : nullptr;
  return target_.here != nullptr && stage_at_once(job) ? nullptr : &job;
}

// Completes a part whose bytes the stream copies by itself. False if they have to be staged.
bool StreamRequest::borrow(Part& job) {
  if (!loan_.may_lend(job.request.size)) return false;
  if (!loan_.has_whole()) {
    const MutexLock lock(pool_.mutex);
    if (pool_.executor != nullptr) job.lent = loan_.borrow_part(*pool_.session, job.request);
    if (job.lent == nullptr) return false;
  }
  complete(job.index, loan_.outcome_of(job.request.size));
  return true;
}

// Stages the bytes of a short read from the page cache, on the caller's thread.
bool StreamRequest::stage_at_once(const Part& job) {
  const bool is_short = parts_.count() == 1 && job.request.size <= kAtOnceMax;
  if (!is_short || parameters_.op != Op::read || !is_staged()) return false;
  const std::optional<Outcome> outcome = transfer_if_cached(*target_.here, job.request);
  if (!outcome) return false;
  complete(job.index, *outcome);
  return true;
}

// ---- A part has ended: on a thread of the executor's, or where it did not begin

void StreamRequest::complete(std::uint64_t part, const Outcome& outcome) {
  {
    const MutexLock lock(mutex_);
    progress_.add(parts_.begin_of(part), size_of(part), outcome);
    if (is_staged()) {
      if (parameters_.op == Op::read) describe_copy(part, std::min(outcome.report.bytes, size_of(part)));
      else if (const std::uint64_t next = part + parts_.slots(); next < parts_.count())
        describe_copy(next, size_of(next));
    }
    if (progress_.is_over() && !is_abandoned()) deliver();
  }
  // From here on the stream may continue, and use the slot again.
  target_.home->work().set(block_->word(parts_.slot_of(part)), ready_at(part));
  release();
}

void StreamRequest::describe_copy(std::uint64_t part, std::uint64_t bytes) {
  if (is_abandoned()) return;
  const std::byte* const lent = jobs_[parts_.slot_of(part)].lent;
  const std::uint64_t staging =
      lent != nullptr ? reinterpret_cast<std::uintptr_t>(lent) : block_->device_address(staging_of(part));
  const std::uint64_t buffer = reinterpret_cast<std::uintptr_t>(request_.base) +
                               static_cast<std::uint64_t>(request_.buffer_offset) + parts_.begin_of(part);
  StreamCopy& copy = block_->copy(parts_.slot_of(part));
  copy = parameters_.op == Op::read ? StreamCopy{buffer, staging, bytes} : StreamCopy{staging, buffer, bytes};
}

void StreamRequest::deliver() {
  state_ = State::over;
  const Outcome outcome = progress_.outcome();
  if (const MutexLock lock(pool_.mutex); pool_.session != nullptr && hooks_.finished != nullptr) {
    hooks_.finished(*pool_.session, request_, outcome, began_);
  }
  hooks_.deliver(parameters_.result, request_, outcome);
}

// Gives everything back when the last user is done.
void StreamRequest::release() {
  if (references_.fetch_sub(1) != 1) return;
  mutex_.assume_held();  // No other thread knows of it any more.
  if (block_ != nullptr && state_ != State::lost) {
    const bool acknowledges = is_staged() && parameters_.op == Op::read && !target_.blocking && !is_abandoned();
    if (acknowledges) target_.home->memory().give_back_when_acknowledged(*block_);
    else target_.home->memory().give_back(*block_);
  }
  const std::shared_ptr<StreamRequestPool> pool = std::move(keep_);
  const MutexLock lock(pool->mutex);
  next_idle_ = std::exchange(pool->idle, this);
}

}  // namespace penstock::core
