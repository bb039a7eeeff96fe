// SPDX-License-Identifier: Apache-2.0

#include "frontend/striped.h"

#include <algorithm>

#include "base/kept_text.h"
#include "base/printable.h"
#include "base/shortage.h"
#include "core/memory.h"
#include "frontend/transfer.h"
#include "stripe/manifest.h"

namespace penstock::core {
namespace {

std::uint64_t begin_of(const RawRequest& request) { return static_cast<std::uint64_t>(request.file_offset); }

RequestMemory memory_of(const RawRequest& request, std::span<const MemoryPiece> pieces) {
  if (!pieces.empty()) return RequestMemory(pieces);
  auto* const base = static_cast<std::byte*>(const_cast<void*>(request.base));
  return {base + request.buffer_offset};
}

// Makes a status that names the member and says its failure in the words of the object. Where there is no memory for
// the name, it says so without: a thread that ends a request must not throw.
Status named(const Striped& striped, std::uint32_t member, Op op, const Status& status) {
  const auto with_name = [&] {
    const std::string name =
        "member " + std::to_string(member) + " of the striped object, " + printable(striped.names[member]);
    if (status.ok()) return bad_stripe("read from " + name + ": it became shorter since it was opened");
    Status named = status;
    named.step = kept_text((op == Op::read ? "read from " : "write to ") + name, status.step);
    return named;
  };
  const auto without = [&] {
    return status.ok() ? failure(Code::bad_stripe, "read from a member that became shorter since it was opened")
                       : status;
  };
  return unless_short_of_memory(with_name, without);
}

// A job whose caller waits until the request has ended.
struct Caller final : Job {
  void complete(const Outcome& end) override {
    const MutexLock lock(mutex);
    outcome = end;
    is_over = true;
    over.notify_all();
  }
  Outcome wait() {
    const MutexLock lock(mutex);
    while (!is_over) over.wait(mutex);
    return outcome;
  }

  Mutex mutex;
  ConditionVariable over;
  bool is_over GUARDED_BY(mutex) = false;
  Outcome outcome GUARDED_BY(mutex);
};

// Moves a request that lies within one member.
Outcome transfer_within(Session& session, const Striped& striped, RawRequest request,
                        std::span<const MemoryPiece> pieces) {
  const std::uint64_t offset = begin_of(request);
  const std::uint32_t member = striped.layout.member_at(offset);
  request.file = striped.files[member];
  request.file_offset = static_cast<std::int64_t>(striped.layout.offset_in_member(offset));
  const std::uint64_t size = request.size;
  Outcome outcome = pieces.empty() ? transfer(session, request) : transfer_vectored(session, request, pieces);
  if (!outcome.status.ok() || outcome.report.bytes < size)
    outcome.status = named(striped, member, request.op, outcome.status);
  return outcome;
}

}  // namespace

Status admit_striped(const Striped& striped, RawRequest& request, std::span<const MemoryPiece> pieces) {
  const char* const step = transfer_step(request.op);
  if (!pieces.empty()) {
    if (const Status status = admit_pieces(request, pieces); !status.ok()) return status;
  }
  if (request.file_offset < 0 || request.buffer_offset < 0) return failure(Code::negative_offset, step);
  if (request.base == nullptr && request.size > 0) return failure(Code::invalid_argument, step);
  request.file = striped.files[0];
  const std::uint64_t room = striped.layout.size - std::min(begin_of(request), striped.layout.size);
  if (request.op == Op::read) request.size = std::min(request.size, room);
  else if (request.size > room) return failure(Code::out_of_range, "write behind the end of the striped object");
  return success();
}

StripedJob::StripedJob(Executor& executor, const Striped& striped, Job& whole, std::span<const MemoryPiece> pieces)
    : executor_(executor), striped_(striped.shared_from_this()), whole_(whole) {
  share_out(pieces);
  for (Job* const job : jobs_) {
    auto& share = static_cast<Share&>(*job);
    if (share.memory.size() > 1) share.vectored.emplace(executor_, share, share.memory);
  }
  whole_.parts = jobs_;
}

void StripedJob::share_out(std::span<const MemoryPiece> pieces) {
  const StripeLayout& layout = striped_->layout;
  const RawRequest& request = whole_.request;
  const std::uint64_t begin = begin_of(request), end = begin + request.size;
  shares_ = std::make_unique<Share[]>(layout.members);
  jobs_.reserve(layout.members);
  RequestMemory rest = memory_of(request, pieces);
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t size = std::min(layout.stripe_end(at), end) - at;
    const std::uint32_t member = layout.member_at(at);
    Share& share = shares_[(member + layout.members - layout.member_at(begin)) % layout.members];
    if (share.striped == nullptr) {
      jobs_.push_back(&share);
      share.striped = this;
      share.member = member;
      share.request = {.op = request.op,
                       .file = striped_->files[member],
                       .base = rest.address(),
                       .file_offset = static_cast<std::int64_t>(layout.offset_in_member(at)),
                       .required = request.required};
    }
    rest.each_place(size, [&](std::byte* address, std::uint64_t bytes) { share.memory.push_back({address, bytes}); });
    share.request.size += size;
    at += size;
    if (at < end) rest.skip(size);
  }
  mutex_.assume_held();
  progress_ = PartsProgress(begin, request.size, jobs_.size());
}

void StripedJob::move_with_executor(Session& session) {
  // The first part is moved below, so the job cannot end in this loop.
  for (std::size_t i = 1; i < jobs_.size(); ++i) {
    if (const Status status = executor_.enqueue({&jobs_[i], 1}); !status.ok()) jobs_[i]->complete({status, {}});
  }
  Share& own = shares_[0];
  const Outcome moved =
      own.memory.size() > 1 ? transfer_vectored(session, own.request, own.memory) : transfer(session, own.request);
  own.complete(moved);
}

void StripedJob::complete(const Share& share, const Outcome& outcome) {
  {
    const MutexLock lock(mutex_);
    add_share(share, outcome);
    if (!progress_.is_over()) return;
  }
  mutex_.assume_held();  // No other thread works on it any more. complete() may destroy this.
  whole_.complete(progress_.outcome());
}

void StripedJob::add_share(const Share& share, const Outcome& outcome) {
  const Report& report = outcome.report;
  progress_.take_in_scattered(&share == &shares_[0], report);
  if (report.bytes == share.request.size && outcome.status.ok()) return;
  const std::uint64_t position = striped_->layout.offset_of(share.member, begin_of(share.request) + report.bytes);
  progress_.fail_at(position, named(*striped_, share.member, share.request.op, outcome.status));
}

Outcome transfer_striped(Session& session, Executor& executor, const Striped& striped, RawRequest request,
                         std::span<const MemoryPiece> pieces) {
  if (const Status status = admit_striped(striped, request, pieces); !status.ok()) return {status, {}};
  if (request.size == 0) return transfer(session, request);
  const std::uint64_t offset = begin_of(request);
  const bool is_cut = !pieces.empty() && offset + request.size == striped.layout.size;
  if (!is_cut && offset + request.size <= striped.layout.stripe_end(offset))
    return transfer_within(session, striped, request, pieces);
  Caller caller;
  caller.request = request;
  StripedJob job(executor, striped, caller, pieces);
  job.move_with_executor(session);
  return caller.wait();
}

}  // namespace penstock::core
